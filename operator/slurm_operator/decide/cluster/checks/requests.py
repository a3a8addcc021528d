"""Requests of administrators: an annotation of the SlurmCluster asks for a long check of some nodes at once."""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Mapping, Sequence, Set

from contract import names
from contract.conditions import Reason
from slurm_operator.decide.cluster.checks import selection
from slurm_operator.decide.cluster.checks.changes import Requested
from slurm_operator.decide.cluster.checks.ledger import Ledger, Request
from slurm_operator.decide.nodes import waits
from slurm_operator.decide.nodes.workers import Worker
from slurm_operator.findings import Finding, shown, under_way
from slurm_operator.state.resources import LongCheck
from slurm_operator.state.slurm import SlurmJob, Unknown

_MARK = "@"
"""The text after it tells a request from one before for the same nodes."""
LONGEST = 4096
"""Characters of a request, all of which the status keeps."""


def changes(
    asked: Mapping[str, str],
    members: Mapping[str, Sequence[Worker]],
    sets: Mapping[str, Set[str]],
    ledger: Ledger,
    now: datetime.datetime,
) -> tuple[list[Requested], list[Finding]]:
    """Return the requests that are new, or withdrawn, and findings about those that can't be met.

    Args:
        asked: check → text of its annotation.
        members: declared check → nodes that it tests.
        sets: NodeSet → names of its nodes.
        ledger: all that is known.
        now: the time.
    """
    taken, findings = list[Requested](), list[Finding]()
    for check in sorted(asked.keys() | ledger.requests.keys()):
        text, known = asked.get(check, "").strip(), ledger.requests.get(check)
        if text == (known.text if known else "") and text:
            continue
        if check not in asked:
            taken.append(Requested(Request(check, "", now)))
            continue
        nodes, wrong = _nodes(text, members.get(check), sets)
        if wrong:
            told = f"annotation {names.CHECK_REQUEST_PREFIX}{check} of the SlurmCluster: "
            declared = f"no long check is called {check}; declared are: {shown(sorted(members)) or 'none'}"
            findings.append(
                Finding(Reason.LONG_CHECK_REQUEST_REFUSED, told + (wrong if check in members else declared))
            )
        else:
            taken.append(Requested(Request(check, text, now, nodes)))
    return taken, findings


def _nodes(text: str, members: Sequence[Worker] | None, sets: Mapping[str, Set[str]]) -> tuple[frozenset[str], str]:
    """Return the nodes that a request names, and what is wrong with it."""
    if len(text) > LONGEST:
        return frozenset(), f"it has {len(text)} characters, at most {LONGEST} are possible; NodeSets are shorter"
    tested = frozenset(worker.name for worker in members or ())
    words = [word.strip() for word in text.partition(_MARK)[0].split(",")]
    named = {word: tested & (sets.get(word, frozenset()) | {word}) for word in words}
    wrong = [word or "nothing" for word, nodes in named.items() if not nodes]
    if members is None or wrong:
        can_be = "name nodes that the check tests, or NodeSets of them, with commas between"
        return frozenset(), f"it tests no {shown(wrong)}; {can_be}"
    return frozenset().union(*named.values()), ""


def untested(ledger: Ledger) -> frozenset[str]:
    """Return the nodes that requests wait for, without those that have a job of a check."""
    return frozenset(node for request in ledger.requests.values() for node in request.nodes) - ledger.taken()


def findings(
    check: LongCheck, members: Iterable[Worker], ledger: Ledger, jobs: tuple[SlurmJob, ...] | Unknown
) -> list[Finding]:
    """Return a finding about the nodes that a request waits for, with those of `jobs` that are there; else none."""
    testing = {node for job in ledger.jobs.values() if job.check == check.name for node in job.nodes}
    left = [worker for worker in members if ledger.request(check.name, worker.name)]
    words = [f"{worker.name} ({_waits_for(worker, testing, jobs)})" for worker in left]
    told = f"long check {check.name} on request: {shown(words)}"
    return [under_way(Reason.LONG_CHECK_REQUESTED, told)] if words else []


def _waits_for(worker: Worker, testing: Set[str], jobs: tuple[SlurmJob, ...] | Unknown) -> str:
    if worker.name in testing:
        return "has its job"
    if worker.node is None or not worker.is_up:
        return "is not up"
    if worker.drain:
        return f"drained: {worker.node.reason}"
    return "waits for its turn" if selection.is_free(worker) else f"not idle{waits.for_jobs([worker.name], jobs)}"
