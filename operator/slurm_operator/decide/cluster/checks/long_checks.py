"""Decides which nodes long checks test next, and what follows from their jobs.

A job is submitted on hold, and released when the ledger in the status has it: no job runs that could be forgotten. A
job counts by its id in the ledger; its name, its user and its node must fit, too: slurmctld may have lost its
state and given the id away again.
"""

from __future__ import annotations

import dataclasses
import datetime
import types
from collections.abc import Iterator, Mapping, Sequence

from contract import names, reasons
from contract.conditions import Reason
from slurm_operator import drains
from slurm_operator.actions import Action, Drain
from slurm_operator.decide.cluster.checks import reports, requests, retries, selection
from slurm_operator.decide.cluster.checks.changes import Change, Counted, Failed, Over
from slurm_operator.decide.cluster.checks.ledger import Aim, CheckJob, Ledger, Verdict
from slurm_operator.decide.cluster.checks.selection import Submission
from slurm_operator.decide.nodes import slurm_nodes
from slurm_operator.decide.nodes.workers import NodeSetState, Worker
from slurm_operator.drains import Owner
from slurm_operator.findings import Finding, shown
from slurm_operator.state.resources import LongCheck
from slurm_operator.state.slurm import NOT_ASKED, Nodes, Reservation, SeenCheckJob, SlurmNode

MOST_JOBS = 100
"""Jobs of all long checks at a time: each look at one costs slurmrestd some milliseconds."""
MOST_SUBMITTED = 20
"""The most jobs that a pass submits."""
_MISSING = frozenset({126, 127})
_FAILED = frozenset({"FAILED", "TIMEOUT", "NODE_FAIL", "OUT_OF_MEMORY", "BOOT_FAIL"})
_COULD_NOT_LOOK = frozenset({3}) | _MISSING
"""Exit statuses: the check says so, or its program is missing, as /bin/sh says it."""
_PROGRAM_MISSING = "the jail lacks what it needs"
_PERCENTAGE_FROM = 10
_PERCENTAGE_TO = 109
"""Exit statuses of checks that measure: 10 and the percentage of `least` (components/control/long_checks.py)."""


@dataclasses.dataclass(frozen=True, slots=True)
class Decision:
    """The decision of a pass about long checks.

    Attributes:
        changes: of the ledger.
        releases: ids of jobs that may begin.
        drains: of nodes that failed.
        actions: on reservations and nodes that are tried again.
        submissions: new jobs.
        findings: what somebody should know.
        answers: what jobs say of nodes that somebody asked for, and warnings, as sentences.
    """

    changes: list[Change] = dataclasses.field(default_factory=list)
    releases: list[int] = dataclasses.field(default_factory=list)
    drains: list[Drain] = dataclasses.field(default_factory=list)
    actions: list[Action] = dataclasses.field(default_factory=list)
    submissions: list[Submission] = dataclasses.field(default_factory=list)
    findings: list[Finding] = dataclasses.field(default_factory=list)
    answers: list[str] = dataclasses.field(default_factory=list)


def job_name(check: str) -> str:
    """Return the name of a check's jobs."""
    return f"{names.LONG_CHECK_PREFIX}{check}"


def reason(check: str, why: str) -> str:
    """Return the reason of a drain."""
    return f"{reasons.LONG_CHECK}{check}: {why}"


def judge(job: CheckJob, seen: SeenCheckJob | None, least: str = "") -> tuple[Verdict, str] | None:
    """Return the verdict of a job, and why; None while it waits or runs.

    Args:
        job: as the ledger has it.
        seen: what slurmctld has under its id; None for nothing.
        least: what its check is to measure, in words; empty for one that measures nothing.
    """
    expected = (job_name(job.check), names.LONG_CHECK_USER_ID, job.nodes)
    if seen is None or (seen.name, seen.user_id, seen.nodes) != expected:
        return Verdict.UNKNOWN, "slurmctld does not know it any more"
    if slurm_nodes.has_not_ended(seen.states):
        return None
    report = reports.read(seen.comment)
    if "COMPLETED" in seen.states:
        well, said = reports.passed(report)
        return Verdict.PASS if well else Verdict.UNKNOWN, said
    failed = sorted(seen.states & _FAILED)
    if not failed:
        return Verdict.NONE, ", ".join(sorted(seen.states))
    if failed == ["FAILED"] and seen.status in _COULD_NOT_LOOK:
        why = _PROGRAM_MISSING if seen.status in _MISSING else "it could not look"
        return Verdict.UNKNOWN, f"{why} (exit status {seen.status}){reports.beside(report, Verdict.UNKNOWN)}"
    others = f" beside {shown(job.others)}" if job.others else ""
    status = _status(failed[0], seen.status, "" if isinstance(report, reports.Report) else least)
    return Verdict.FAIL, f"job {job.job_id} {failed[0]}{status}{others}{reports.beside(report, Verdict.FAIL)}"


def _status(state: str, status: int | None, least: str) -> str:
    if state != "FAILED" or status is None:
        return ""
    if least and _PERCENTAGE_FROM <= status <= _PERCENTAGE_TO:
        return f", exit status {status} (it reached {status - _PERCENTAGE_FROM} % of {least})"
    return f", exit status {status}"


def decide(
    checks: Sequence[LongCheck],
    sets: Mapping[str, NodeSetState],
    ledger: Ledger,
    told: Ledger,
    seen: Mapping[int, SeenCheckJob | None],
    now: datetime.datetime,
    nodes: Nodes,
    reservations: tuple[Reservation, ...] | None,
    asked: Mapping[str, str] = types.MappingProxyType({}),
) -> Decision:
    """Return what a pass does.

    Args:
        checks: the declared ones.
        sets: node sets by name, with what Slurm says of their nodes.
        ledger: all that is known.
        told: what the status has of it. Only its jobs are released and counted.
        seen: jobs that were looked at: id → what slurmctld has.
        now: the time.
        nodes: Slurm's.
        reservations: all of Slurm's; None if nobody looked at them.
        asked: check → text with which an administrator asks for it.
    """
    decided, declared = Decision(), {check.name: check for check in checks}
    workers = {worker.name: (state, worker) for state in sets.values() for worker in state.workers.values()}
    held = _judge_all(decided, declared, workers, ledger, told, seen, now)
    members = {check.name: _members(check, sets) for check in checks}
    by_set = {name: state.workers.keys() for name, state in sets.items()}
    jobs = next((state.jobs for state in sets.values()), NOT_ASKED)
    requested, refused = requests.changes(asked, members, by_set, ledger, now)
    decided.changes.extend(requested)
    decided.findings.extend(refused)
    taken = ledger.taken()
    if reservations is not None:
        seen_now = retries.Seen(declared, members, nodes, reservations, ledger, now)
        steps = retries.steps(seen_now, told, taken)
        decided.changes.extend(steps.changes)
        decided.actions.extend(steps.actions)
        decided.submissions.extend(steps.submissions)
    for check in checks:
        decided.findings.extend(requests.findings(check, members[check.name], ledger, jobs))
        decided.findings.extend(_findings(check, ledger, workers, members[check.name], now))
    for check in selection.in_turn((check for check in checks if check.name not in held), members, ledger):
        taken |= {node for chosen in decided.submissions for node in chosen.nodes}
        decided.submissions.extend(selection.submissions(check, members[check.name], ledger, taken, now))
    # Those that failed are not looked at. They may wait for long: until the breaker, or a drain by the node, ends.
    open_jobs = sum(not job.failed for job in ledger.jobs.values())
    del decided.submissions[max(0, min(MOST_SUBMITTED, MOST_JOBS - open_jobs)) :]
    return decided


def _judge_all(
    decided: Decision,
    declared: Mapping[str, LongCheck],
    workers: Mapping[str, tuple[NodeSetState, Worker]],
    ledger: Ledger,
    told: Ledger,
    seen: Mapping[int, SeenCheckJob | None],
    now: datetime.datetime,
) -> set[str]:
    """Judge the jobs that have ended; return checks of which the breaker forbids a drain."""
    held = set[str]()
    for job in (ledger.jobs[job_id] for job_id in sorted(ledger.jobs.keys() & told.jobs.keys())):
        check, there = declared.get(job.check), workers.get(job.node)
        why, looked_at = job.failed, seen.get(job.job_id)
        if not why and job.job_id in seen:
            judged = judge(job, looked_at, check.least if check else "")
            if judged is None:
                decided.releases.extend([job.job_id] if looked_at and looked_at.held else [])
            elif judged[0] is Verdict.FAIL and job.blames:
                why = judged[1]
                decided.changes.append(Failed(job.job_id, why))
            else:
                _count(decided, ledger, job, judged, now)
        if why and not _react(decided, ledger, check, there, job, why, now):
            held.add(job.check)
    return held


def _members(check: LongCheck, sets: Mapping[str, NodeSetState]) -> list[Worker]:
    return [worker for name in check.node_sets if name in sets for worker in sets[name].members()]


def _react(
    decided: Decision,
    ledger: Ledger,
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
        _count(decided, ledger, job, (Verdict.FAIL, why), now)
        retry = ledger.retries.get(job.node)
        if retry and node and drains.is_drained(node) and node.reason != retry.why:
            # A later pass must not take a person's undrain for a drain that is still to be made.
            decided.changes.append(Over(job.node))
        return True
    if drains.is_drained(node) and drains.owner(node) is not Owner.UNTESTED:
        return True  # By this operator or the node itself, who lift that: then its turn comes.
    state = there[0]
    # Drains that this pass has decided count as well.
    failing = {name for name, worker in state.workers.items() if worker.node and _is_drained_by(worker.node, job.check)}
    failing |= {drain.node for drain in decided.drains if drain.node in state.workers} | {job.node}
    failing |= {node for node, retry in ledger.retries.items() if retry.check == job.check and node in state.workers}
    # A node that is tried again was drained before.
    if job.aim is not Aim.RETRIES and state.have_one_cause(len(failing), len(state.members())):
        words = f"long check {job.check} failed on {job.node}, too ({why}): {len(failing)} of {len(state.members())}"
        told = f"{words} nodes of {state.stateful_set}, more than reactions.breakerPercent; look at the check itself"
        decided.findings.append(Finding(Reason.BREAKER_OPEN, told))
        return False
    decided.drains.append(Drain(job.node, reason(job.check, why)))
    return True


def _count(
    decided: Decision, ledger: Ledger, job: CheckJob, judged: tuple[Verdict, str], now: datetime.datetime
) -> None:
    """Count a job, and tell those who asked for it."""
    verdict, why = judged
    decided.changes.append(Counted(job.job_id, verdict, now, "" if verdict is Verdict.NONE else why))
    nodes = sorted((node for node in job.nodes if ledger.request(job.check, node)), key=selection.natural)
    if nodes and verdict is not Verdict.NONE:
        said = f"{verdict} ({why})" if why else verdict
        decided.answers.append(f"long check {job.check} on request: {shown(nodes)}: {said}")
    elif verdict is Verdict.PASS and why.startswith(reports.WARNING):
        decided.answers.append(f"long check {job.check}: {shown(sorted(job.nodes, key=selection.natural))}: {why}")


def _is_drained_by(node: SlurmNode, check: str) -> bool:
    return drains.owner(node) is Owner.LONG_CHECK and node.reason.startswith(reason(check, ""))


def _findings(
    check: LongCheck,
    ledger: Ledger,
    workers: Mapping[str, tuple[NodeSetState, Worker]],
    members: Sequence[Worker],
    now: datetime.datetime,
) -> Iterator[Finding]:
    """Yield what the latest verdicts say of nodes that are not drained for it."""

    def of(verdict: Verdict) -> list[str]:
        nodes = [node for (name, node), said in ledger.latest.items() if (name, said.verdict) == (check.name, verdict)]
        told_of = (node for node in nodes if _is_told_of(workers.get(node)) and node not in ledger.retries)
        return sorted(told_of, key=selection.natural)

    told = f"long check {check.name}"
    if check.schedule and selection.latest_tick(check, now) is None:
        never = f"{told} tests no node again: no day fits its schedule {check.schedule}"
        yield Finding(Reason.LONG_CHECK_UNKNOWN, never)
    again = [it for _, it in sorted(ledger.retries.items()) if it.check == check.name and not it.is_first]
    if again:
        words = [f"{retry.node} ({retry.passes} of {check.passes} passes)" for retry in again]
        yield Finding(Reason.LONG_CHECK_FAILED, f"{told} tries again: {shown(words)}")
    if failed := of(Verdict.FAIL):
        whys = {node: ledger.latest[check.name, node].why for node in failed}
        words = [f"{node} ({whys[node]})" if whys[node] else node for node in failed]
        yield Finding(Reason.LONG_CHECK_FAILED, f"{told} failed: {shown(words)}")
    if suspects := of(Verdict.SUSPECT):
        next_jobs = "each is tested beside others"
        if not selection.has_partners(check, members, ledger):
            next_jobs = "too few other nodes take jobs to find the bad one"
        yield Finding(Reason.LONG_CHECK_FAILED, f"{told} failed on some of: {shown(suspects)}; {next_jobs}")
    unknown: dict[str, list[str]] = {}
    for node in of(Verdict.UNKNOWN):
        unknown.setdefault(ledger.latest[check.name, node].why, []).append(node)
    for why, nodes in unknown.items():
        needs = f": {check.needs}" if check.needs and why.startswith(_PROGRAM_MISSING) else ""
        because = f"; {why}{needs}" if why else ""
        yield Finding(Reason.LONG_CHECK_UNKNOWN, f"{told} unknown: {shown(nodes)}{because}")


def _is_told_of(there: tuple[NodeSetState, Worker] | None) -> bool:
    node = there[1].node if there else None
    return node is not None and not drains.is_anothers(node)


def to_look_at(told: Ledger) -> list[int]:
    """Return the ids of jobs whose verdict is not known yet."""
    return sorted(job.job_id for job in told.jobs.values() if not job.failed)
