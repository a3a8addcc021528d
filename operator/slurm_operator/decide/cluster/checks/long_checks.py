"""Decides which nodes long checks test next, and what follows from their jobs.

A job is submitted on hold, and released when the ledger in the status has it: no job runs that could be forgotten. A
job counts by its id in the ledger; its name, its user and its node must fit, too: slurmctld may have lost its
state and given the id away again.
"""

from __future__ import annotations

import dataclasses
import datetime
import re
from collections.abc import Iterator, Mapping, Sequence, Set

from contract import names, reasons
from contract.conditions import Reason
from slurm_operator import drains
from slurm_operator.actions import Drain
from slurm_operator.decide.cluster.checks.ledger import Change, CheckJob, Counted, Failed, Ledger, Verdict
from slurm_operator.decide.nodes import slurm_nodes
from slurm_operator.decide.nodes.workers import NodeSetState, Worker
from slurm_operator.drains import Owner
from slurm_operator.findings import Finding, Severity, shown
from slurm_operator.state.resources import LongCheck
from slurm_operator.state.slurm import SeenCheckJob, SlurmNode

MOST_JOBS = 100
"""Jobs of all long checks at a time: each look at one costs slurmrestd some milliseconds."""
MOST_SUBMITTED = 20
"""Jobs that a pass submits."""
STARTS_WITHIN = datetime.timedelta(minutes=15)
"""A job that has not begun by then ends (DEADLINE): somebody else's took its node."""
RETRY = datetime.timedelta(minutes=10)
"""A node whose job had no verdict is tested again after this."""
_FAILED = frozenset({"FAILED", "TIMEOUT", "NODE_FAIL", "OUT_OF_MEMORY", "BOOT_FAIL"})
_COULD_NOT_LOOK = frozenset({3, 126, 127})
"""Exit statuses: the check says so, or /bin/sh can't start its program."""
_PERCENTAGE_FROM = 10
_PERCENTAGE_TO = 109
"""Exit statuses of builtins: 10 and the percentage of the threshold (components/control/long_checks.py)."""


@dataclasses.dataclass(frozen=True, slots=True)
class Submission:
    """A job to submit on hold, which ends unless it begins in time."""

    check: LongCheck
    node: str
    deadline: datetime.datetime


@dataclasses.dataclass(frozen=True, slots=True)
class Decision:
    """The decision of a pass about long checks.

    Attributes:
        changes: of the ledger.
        releases: ids of jobs that may begin.
        drains: of nodes that failed.
        submissions: new jobs.
        findings: what somebody should know.
    """

    changes: list[Change] = dataclasses.field(default_factory=list)
    releases: list[int] = dataclasses.field(default_factory=list)
    drains: list[Drain] = dataclasses.field(default_factory=list)
    submissions: list[Submission] = dataclasses.field(default_factory=list)
    findings: list[Finding] = dataclasses.field(default_factory=list)


def job_name(check: str) -> str:
    """Return the name of a check's jobs."""
    return f"{names.LONG_CHECK_PREFIX}{check}"


def reason(check: str, why: str) -> str:
    """Return the reason of a drain."""
    return f"{reasons.LONG_CHECK}{check}: {why}"


def judge(job: CheckJob, seen: SeenCheckJob | None) -> tuple[Verdict, str] | None:
    """Return the verdict of a job, and why; None while it waits or runs.

    Args:
        job: as the ledger has it.
        seen: what slurmctld has under its id; None for nothing.
    """
    expected = (job_name(job.check), names.LONG_CHECK_USER_ID, job.node)
    if seen is None or (seen.name, seen.user_id, seen.node) != expected:
        return Verdict.UNKNOWN, "slurmctld does not know it any more"
    if slurm_nodes.has_not_ended(seen.states):
        return None
    if "COMPLETED" in seen.states:
        return Verdict.PASS, ""
    failed = sorted(seen.states & _FAILED)
    if not failed:
        return Verdict.NONE, ", ".join(sorted(seen.states))
    if failed == ["FAILED"] and seen.status in _COULD_NOT_LOOK:
        return Verdict.UNKNOWN, f"it could not look (exit status {seen.status})"
    return Verdict.FAIL, f"job {job.job_id} {failed[0]}{_evidence(failed[0], seen.status)}"


def _evidence(state: str, status: int | None) -> str:
    if state != "FAILED" or status is None:
        return ""
    if _PERCENTAGE_FROM <= status <= _PERCENTAGE_TO:
        return f", exit status {status} (a builtin reached {status - _PERCENTAGE_FROM} % of its least)"
    return f", exit status {status}"


def decide(
    checks: Sequence[LongCheck],
    sets: Mapping[str, NodeSetState],
    ledger: Ledger,
    told: Ledger,
    seen: Mapping[int, SeenCheckJob | None],
    now: datetime.datetime,
) -> Decision:
    """Return what a pass does.

    Args:
        checks: the declared ones.
        sets: node sets by name, with what Slurm says of their nodes.
        ledger: all that is known.
        told: what the status has of it. Only its jobs are released and counted.
        seen: jobs that were looked at: id → what slurmctld has.
        now: the time.
    """
    decided, declared = Decision(), {check.name: check for check in checks}
    workers = {worker.name: (state, worker) for state in sets.values() for worker in state.workers.values()}
    held = set[str]()
    for job in (ledger.jobs[job_id] for job_id in sorted(ledger.jobs.keys() & told.jobs.keys())):
        check, there = declared.get(job.check), workers.get(job.node)
        why, looked_at = job.failed, seen.get(job.job_id)
        if not why and job.job_id in seen:
            judged = judge(job, looked_at)
            if judged is None:
                decided.releases.extend([job.job_id] if looked_at and looked_at.held else [])
            elif judged[0] is Verdict.FAIL:
                why = judged[1]
                decided.changes.append(Failed(job.job_id, why))
            else:
                decided.changes.append(Counted(job.job_id, judged[0], now))
        if why and not _react(decided, check, there, job, why, now):
            held.add(job.check)
    for check in checks:
        decided.findings.extend(_findings(check, ledger, workers))
        if check.name not in held:
            taken = {job.node for job in ledger.jobs.values()} | {chosen.node for chosen in decided.submissions}
            room = MOST_SUBMITTED - len(decided.submissions)
            decided.submissions.extend(_submissions(check, sets, ledger, taken, now)[: max(0, room)])
    del decided.submissions[max(0, MOST_JOBS - len(ledger.jobs)) :]
    return decided


def _react(
    decided: Decision,
    check: LongCheck | None,
    there: tuple[NodeSetState, Worker] | None,
    job: CheckJob,
    why: str,
    now: datetime.datetime,
) -> bool:
    """Drain a node that failed, and count its job when that is done; False if the breaker forbids it."""
    node = there[1].node if there else None
    if check is None or not check.drains or there is None or node is None or drains.is_anothers(node):
        # Whoever took it out of service brings it back, and then its turn comes first.
        decided.changes.append(Counted(job.job_id, Verdict.FAIL, now))
        return True
    if drains.is_drained(node):
        return True  # By this operator or the node itself, who lift that: then its turn comes.
    state = there[0]
    # Drains that this pass has decided count as well.
    failing = {name for name, worker in state.workers.items() if worker.node and _is_drained_by(worker.node, job.check)}
    failing |= {drain.node for drain in decided.drains if drain.node in state.workers} | {job.node}
    if state.have_one_cause(len(failing), len(state.members())):
        words = f"long check {job.check} failed on {job.node}, too ({why}): {len(failing)} of {len(state.members())}"
        told = f"{words} nodes of {state.stateful_set}, more than reactions.breakerPercent; look at the check itself"
        decided.findings.append(Finding(Reason.BREAKER_OPEN, told))
        return False
    decided.drains.append(Drain(job.node, reason(job.check, why)))
    return True


def _is_drained_by(node: SlurmNode, check: str) -> bool:
    return drains.owner(node) is Owner.LONG_CHECK and node.reason.startswith(reason(check, ""))


def _findings(
    check: LongCheck, ledger: Ledger, workers: Mapping[str, tuple[NodeSetState, Worker]]
) -> Iterator[Finding]:
    """Yield what the latest verdicts say of nodes that are not drained for it."""
    told = ((Verdict.FAIL, Reason.LONG_CHECK_FAILED, "failed"), (Verdict.UNKNOWN, Reason.LONG_CHECK_UNKNOWN, "unknown"))
    for verdict, why, word in told:
        nodes = [node for (name, node), said in ledger.latest.items() if (name, said.verdict) == (check.name, verdict)]
        open_nodes = sorted((node for node in nodes if _is_told_of(workers.get(node))), key=_natural)
        if open_nodes:
            yield Finding(why, f"long check {check.name} {word}: {shown(open_nodes)}", Severity.WRONG)


def _is_told_of(there: tuple[NodeSetState, Worker] | None) -> bool:
    node = there[1].node if there else None
    return node is not None and not drains.is_anothers(node)


def _submissions(
    check: LongCheck, sets: Mapping[str, NodeSetState], ledger: Ledger, taken: Set[str], now: datetime.datetime
) -> list[Submission]:
    """Return the jobs that a check may have now: on idle nodes, the longest unchecked first."""
    states = [sets[name] for name in check.node_sets if name in sets]
    members = [worker for state in states for worker in state.members()]
    share = -(-len(members) * check.share_percent // 100)
    room = share - sum(job.check == check.name for job in ledger.jobs.values())
    free = [worker.name for worker in members if _is_free(worker) and worker.name not in taken]
    due = sorted(
        (node for node in free if _is_due(check, node, ledger, now)), key=lambda node: _turn(check, node, ledger)
    )
    ends = now + STARTS_WITHIN + datetime.timedelta(minutes=check.limit_minutes)
    return [Submission(check, node, ends) for node in due[: max(0, room)]]


def _is_free(worker: Worker) -> bool:
    return worker.is_up and worker.node is not None and slurm_nodes.is_idle(worker.node)


def _is_due(check: LongCheck, node: str, ledger: Ledger, now: datetime.datetime) -> bool:
    said = ledger.latest.get((check.name, node))
    if said is None or (said.verdict is Verdict.FAIL and check.drains):
        return True  # A node that failed is idle only after somebody has undrained it.
    after = RETRY if said.verdict is Verdict.NONE else datetime.timedelta(seconds=check.every_seconds)
    return said.at + after <= now


def _turn(check: LongCheck, node: str, ledger: Ledger) -> tuple[bool, float, tuple[str, int]]:
    said = ledger.latest.get((check.name, node))
    return said is not None, said.at.timestamp() if said else 0.0, _natural(node)


def _natural(node: str) -> tuple[str, int]:
    """Return a node's place by its set and its ordinal."""
    match = re.fullmatch(r"(.*?)(\d*)", node)
    return (match[1], int(match[2] or 0)) if match else (node, 0)


def to_look_at(told: Ledger) -> list[int]:
    """Return the ids of jobs whose verdict is not known yet."""
    return sorted(job.job_id for job in told.jobs.values() if not job.failed)
