"""The ledger of long checks: their jobs without a verdict, and the latest verdict of each node.

It stands in SlurmCluster.status.longChecks. Between two writes the operator remembers changes alone. A change of a job
that the status has no more is dropped. So a job counts once, whoever counted it, and however often it was seen.
"""

from __future__ import annotations

import dataclasses
import datetime
import enum
from collections.abc import Container, Iterable, Mapping
from typing import Any


class Verdict(enum.StrEnum):
    """The verdict of a job about its node; NONE is no verdict, as of a job that somebody cancelled."""

    PASS = "PASS"  # noqa: S105 - a verdict
    FAIL = "FAIL"
    UNKNOWN = "UNKNOWN"
    NONE = "NONE"


@dataclasses.dataclass(frozen=True, slots=True)
class CheckJob:
    """A job of a long check; `failed` says why its node is to be drained, empty without such a verdict."""

    job_id: int
    check: str
    node: str
    submitted: datetime.datetime
    failed: str = ""


@dataclasses.dataclass(frozen=True, slots=True)
class Latest:
    """The latest verdict of a check about a node."""

    verdict: Verdict
    at: datetime.datetime


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
    """A job has its verdict and leaves the ledger."""

    job_id: int
    verdict: Verdict
    at: datetime.datetime


Change = Submitted | Failed | Counted


@dataclasses.dataclass(frozen=True, slots=True)
class Ledger:
    """All that is known of long checks.

    Attributes:
        jobs: by their ids.
        latest: (check, node) → verdict.
        counts: (check, verdict) → number of jobs.
    """

    jobs: Mapping[int, CheckJob] = dataclasses.field(default_factory=dict)
    latest: Mapping[tuple[str, str], Latest] = dataclasses.field(default_factory=dict)
    counts: Mapping[tuple[str, Verdict], int] = dataclasses.field(default_factory=dict)


def read(rows: Iterable[Mapping[str, Any]]) -> Ledger:
    """Read status.longChecks."""
    jobs, latest, counts = dict[int, CheckJob](), dict[tuple[str, str], Latest](), dict[tuple[str, Verdict], int]()
    for row in rows:
        name = row["name"]
        for job in row.get("jobs", ()):
            submitted = datetime.datetime.fromisoformat(job["submitted"])
            jobs[job["id"]] = CheckJob(job["id"], name, job["node"], submitted, job.get("failed", ""))
        for group in row.get("checked", ()):
            said = Latest(Verdict(group["verdict"]), datetime.datetime.fromisoformat(group["at"]))
            latest |= dict.fromkeys(((name, node) for node in group["nodes"]), said)
        counts |= {(name, Verdict(word)): number for word, number in row.get("verdicts", {}).items()}
    return Ledger(jobs, latest, counts)


def written(ledger: Ledger, declared: Iterable[str], nodes: Container[str] | None = None) -> list[dict[str, Any]]:
    """Return status.longChecks: of checks that are declared, and of others as long as they have jobs.

    Args:
        ledger: what is known.
        declared: names of the declared checks.
        nodes: those that Slurm has, whose latest verdicts stay; None keeps all.
    """
    names = sorted({*declared} | {job.check for job in ledger.jobs.values()})
    return [_row(ledger, name, nodes) for name in names]


def _row(ledger: Ledger, name: str, nodes: Container[str] | None) -> dict[str, Any]:
    jobs = [job for _, job in sorted(ledger.jobs.items()) if job.check == name]
    groups: dict[tuple[datetime.datetime, Verdict], list[str]] = {}
    for (check, node), said in ledger.latest.items():
        if check == name and (nodes is None or node in nodes):
            groups.setdefault((said.at, said.verdict), []).append(node)
    verdicts = {str(verdict): ledger.counts[name, verdict] for verdict in Verdict if (name, verdict) in ledger.counts}
    lists = {
        "jobs": [
            {"id": job.job_id, "node": job.node, "submitted": _time(job.submitted)}
            | ({"failed": job.failed} if job.failed else {})
            for job in jobs
        ],
        "checked": [
            {"at": _time(at), "verdict": str(verdict), "nodes": sorted(group)}
            for (at, verdict), group in sorted(groups.items())
        ],
        "verdicts": verdicts,
    }
    return {"name": name, **{key: value for key, value in lists.items() if value}}


def _time(moment: datetime.datetime) -> str:
    return moment.astimezone(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def changed(ledger: Ledger, changes: Iterable[Change]) -> Ledger:
    """Return the ledger after some changes."""
    jobs, latest, counts = dict(ledger.jobs), dict(ledger.latest), dict(ledger.counts)
    for change in changes:
        match change:
            case Submitted(job):
                jobs[job.job_id] = job
            case Failed(job_id, why) if job_id in jobs:
                jobs[job_id] = dataclasses.replace(jobs[job_id], failed=why)
            case Counted(job_id, verdict, at) if job_id in jobs:
                job = jobs.pop(job_id)
                latest[job.check, job.node] = Latest(verdict, at)
                counts[job.check, verdict] = counts.get((job.check, verdict), 0) + 1
    return Ledger(jobs, latest, counts)


def pending(told: Ledger, changes: Iterable[Change]) -> list[Change]:
    """Return the changes that the status does not show yet.

    Args:
        told: what the status has.
        changes: those that were made since the operator began, in their order.
    """
    new = {change.job.job_id for change in changes if isinstance(change, Submitted)} - told.jobs.keys()
    return [change for change in changes if _is_pending(told, change, new)]


def _is_pending(told: Ledger, change: Change, new: set[int]) -> bool:
    match change:
        case Submitted(job):
            return job.job_id in new
        case Failed(job_id, why):
            return job_id in new or (job_id in told.jobs and told.jobs[job_id].failed != why)
        case Counted(job_id):
            return job_id in new or job_id in told.jobs
