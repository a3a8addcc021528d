"""Changes of the ledger of long checks.

Between two writes of the status the operator remembers changes alone. A change of a job that the status has no more is
dropped. So a job counts once, whoever counted it, and however often it was seen.
"""

from __future__ import annotations

import dataclasses
import datetime
from collections.abc import Iterable, Mapping

from slurm_operator.decide.cluster.checks.ledger import (
    SUSPICIOUS,
    Aim,
    CheckJob,
    Latest,
    Ledger,
    Request,
    Retry,
    Verdict,
)


@dataclasses.dataclass(frozen=True, slots=True)
class Began:
    """A drained node is to be tried again. Nothing happens to it until the status has that."""

    retry: Retry


@dataclasses.dataclass(frozen=True, slots=True)
class GaveUp:
    """A node is to be drained again, before its reservation goes."""

    node: str


@dataclasses.dataclass(frozen=True, slots=True)
class Over:
    """A node is tried no more: its reservation is gone."""

    node: str


@dataclasses.dataclass(frozen=True, slots=True)
class Submitted:
    """A job was submitted. It is held until the status has it."""

    job: CheckJob


@dataclasses.dataclass(frozen=True, slots=True)
class Failed:
    """A job failed; it stays in the ledger until its node is drained."""

    job_id: int
    why: str


@dataclasses.dataclass(frozen=True, slots=True)
class Counted:
    """A job has its verdict and leaves the ledger; `why`, with what it reported."""

    job_id: int
    verdict: Verdict
    at: datetime.datetime
    why: str = ""


@dataclasses.dataclass(frozen=True, slots=True)
class Requested:
    """An administrator asks for other nodes; without a text for none any more."""

    request: Request


Change = Submitted | Failed | Counted | Began | GaveUp | Over | Requested


def changed(ledger: Ledger, changes: Iterable[Change]) -> Ledger:
    """Return the ledger after some changes."""
    jobs, latest, counts = dict(ledger.jobs), dict(ledger.latest), dict(ledger.counts)
    retries, requests = dict(ledger.retries), dict(ledger.requests)
    for change in changes:
        match change:
            case Submitted(job):
                jobs[job.job_id] = job
            case Failed(job_id, why) if job_id in jobs:
                jobs[job_id] = dataclasses.replace(jobs[job_id], failed=why)
            case Counted(job_id, verdict, at, why) if job_id in jobs:
                job = jobs.pop(job_id)
                latest |= _said(latest, job, verdict, at, why)
                if job.check in requests:
                    requests[job.check] = _answered(requests[job.check], job, verdict)
                counts[job.check, verdict] = counts.get((job.check, verdict), 0) + 1
                if job.aim is Aim.RETRIES and job.node in retries:
                    retries[job.node] = _tried(retries[job.node], verdict)
            case Began(retry):
                retries.setdefault(retry.node, retry)
            case GaveUp(node) if node in retries:
                retries[node] = dataclasses.replace(retries[node], given_up=True)
            case Over(node):
                retries.pop(node, None)
            case Requested(request) if request.text:
                requests[request.check] = request
            case Requested(request):
                requests.pop(request.check, None)
    return Ledger(jobs, latest, counts, retries, requests)


def _answered(request: Request, job: CheckJob, verdict: Verdict) -> Request:
    """Return what is left of a request after a job, which counts if it began later."""
    if verdict is Verdict.NONE or job.submitted < request.at:
        return request
    return dataclasses.replace(request, nodes=request.nodes - job.nodes)


def _tried(retry: Retry, verdict: Verdict) -> Retry:
    """Return a retry after a job in its reservation."""
    if verdict is Verdict.PASS:
        return dataclasses.replace(retry, passes=retry.passes + 1)
    return retry if verdict is Verdict.NONE else dataclasses.replace(retry, given_up=True)


def _said(
    latest: Mapping[tuple[str, str], Latest], job: CheckJob, verdict: Verdict, at: datetime.datetime, why: str
) -> dict[tuple[str, str], Latest]:
    """Return what a job's verdict says about its nodes."""

    def before(node: str) -> Verdict | None:
        known = latest.get((job.check, node))
        return known.verdict if known else None

    said: dict[str, Verdict] = dict.fromkeys(job.nodes, verdict)
    if verdict is Verdict.FAIL and job.others:
        # Partners with a PASS stay good: a suspect failed beside them.
        innocent = {node for node in job.others if job.blames and before(node) is Verdict.PASS}
        said = dict.fromkeys(job.nodes - innocent, Verdict.SUSPECT)
        said |= {job.node: Verdict.FAIL} if job.blames else {}
    elif verdict is not Verdict.PASS and job.others:
        # Such a verdict clears no suspect, and a good partner stays good.
        kept = {node for node in job.others if job.blames and before(node) is Verdict.PASS}
        suspects = {node for node in job.nodes if before(node) in SUSPICIOUS}
        said = {node: Verdict.SUSPECT if node in suspects else verdict for node in job.nodes - kept}
    # A suspect stays one for its failure, not for what kept a later job from a verdict.
    words_of = {node: why if verdict in (Verdict.FAIL, word) else "" for node, word in said.items()}
    return {(job.check, node): Latest(word, at, words_of[node]) for node, word in said.items()}


def pending(told: Ledger, changes: Iterable[Change]) -> list[Change]:
    """Return the changes that the status does not show yet.

    Args:
        told: what the status has.
        changes: those that were made since the operator began, in their order.
    """
    kept = [*changes]
    new = {change.job.job_id for change in kept if isinstance(change, Submitted)} - told.jobs.keys()
    begun = {change.retry.node for change in kept if isinstance(change, Began)} - told.retries.keys()
    # Of requests for a check the last one counts.
    asked = {change.request.check: change for change in kept if isinstance(change, Requested)}
    kept = [change for change in kept if not isinstance(change, Requested) or asked[change.request.check] is change]
    return [change for change in kept if _is_pending(told, change, new, begun)]


def _is_pending(told: Ledger, change: Change, new: set[int], begun: set[str]) -> bool:
    match change:
        case Submitted(job):
            return job.job_id in new
        case Failed(job_id, why):
            return job_id in new or (job_id in told.jobs and told.jobs[job_id].failed != why)
        case Counted(job_id):
            return job_id in new or job_id in told.jobs
        case Began(retry):
            return retry.node in begun
        case GaveUp(node):
            return node in begun or (node in told.retries and not told.retries[node].given_up)
        case Over(node):
            return node in begun or node in told.retries
        case Requested(request):
            known = told.requests.get(request.check)
            return (known.text if known else "") != request.text
