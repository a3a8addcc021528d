"""Jobs that hang: quiet on all of their nodes for as long as their partition says (`partitions[].hangs`).

Nodes note quiet jobs (contract/node_notes.py). What is known stands in SlurmCluster.status.hangs. A job is queued again
only after the status has said so. It is held until it excludes the nodes on which it hung.
"""

from __future__ import annotations

import dataclasses
import datetime
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from contract import node_notes
from slurm_operator.decide.nodes import notes, slurm_nodes
from slurm_operator.findings import shown
from slurm_operator.state.resources import HangPolicy
from slurm_operator.state.slurm import Nodes, SeenQuietJob
from slurm_operator.timestamps import timestamp

MOST_JOBS = 100
"""The most hanging jobs that are followed at once."""
MOST_SUSPECTS = 50


class Hang(msgspec.Struct, frozen=True, omit_defaults=True):
    """A job that hangs since that time; `requeued`: it is to be queued again, or was, and is not released yet."""

    job_id: int = msgspec.field(name="id")
    partition: str
    since: datetime.datetime
    nodes: frozenset[str]
    requeued: bool = False

    @property
    def comment(self) -> str:
        """The words of the job's AdminComment, which its first node sends it."""
        first = min(self.nodes, default="")
        again = "; it is queued again, to run on other nodes" if self.requeued else ""
        quiet = f"no CPU time used, or an old heartbeat, since {timestamp(self.since)} on {shown(sorted(self.nodes))}"
        return f"{node_notes.HANGS}{quiet}{again}, told by {first}"


class Suspect(msgspec.Struct, frozen=True):
    """A node on which jobs hung: how many, and when the last of them was found."""

    jobs: int
    last: datetime.datetime


@dataclasses.dataclass(frozen=True, slots=True)
class Ledger:
    """All that is known: job → its hang, node → how often jobs hung there."""

    jobs: Mapping[int, Hang] = dataclasses.field(default_factory=dict)
    suspects: Mapping[str, Suspect] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True, slots=True)
class Tell:
    """Write a job's AdminComment; an empty text takes ours away, since the job works again."""

    job_id: int
    text: str


@dataclasses.dataclass(frozen=True, slots=True)
class Requeue:
    """Queue a job again, on hold."""

    hang: Hang


@dataclasses.dataclass(frozen=True, slots=True)
class Release:
    """Let a job that was queued again run, but not on those nodes."""

    job_id: int
    excluded: tuple[str, ...]


Step = Tell | Requeue | Release


@dataclasses.dataclass(frozen=True, slots=True)
class Decided:
    """The result: the new ledger, and the steps that follow."""

    ledger: Ledger
    steps: tuple[Step, ...] = ()


def quiet_jobs(nodes: Nodes) -> dict[int, dict[str, datetime.datetime]]:
    """Return job → node → since when it is quiet there, as the nodes have noted."""
    quiet: dict[int, dict[str, datetime.datetime]] = {}
    for node in nodes.values():
        # Few nodes have a note: the test spares the others the regular expression.
        for job, since in notes.read(node.extra).quiet.items() if node_notes.QUIET in node.extra else ():
            quiet.setdefault(job, {})[node.name] = since
    return quiet


def to_look_at(ledger: Ledger, quiet: Mapping[int, object]) -> list[int]:
    """Return the ids of jobs to read: those that were found before, then others."""
    return [*sorted(ledger.jobs), *sorted(quiet.keys() - ledger.jobs.keys())][:MOST_JOBS]


def decide(
    policies: Iterable[HangPolicy],
    quiet: Mapping[int, Mapping[str, datetime.datetime]],
    seen: Mapping[int, SeenQuietJob | None],
    ledger: Ledger,
    told: Ledger,
    nodes: Nodes,
    now: datetime.datetime,
) -> Decided:
    """Return what is known after a look at jobs, and what follows.

    Args:
        policies: of the partitions whose jobs are looked at.
        quiet: what the nodes have noted.
        seen: the jobs that were read now; None for one that slurmctld has forgotten.
        ledger: what was known before.
        told: what the status says: only then a job may be queued again.
        nodes: Slurm's nodes.
        now: the time of the look.
    """
    by_partition = {policy.partition: policy for policy in policies}
    jobs, suspects, steps = dict(ledger.jobs), dict(ledger.suspects), list[Step]()
    for job_id, job in seen.items():
        known = jobs.pop(job_id, None)
        if job is None:
            continue
        policy = by_partition.get(job.partition)
        since = hangs_since(job, policy, quiet.get(job_id, {}), now)
        if since is None or policy is None:
            if known and known.requeued and _waits(job):
                jobs[job_id] = known
                steps.append(Release(job_id, tuple(sorted(job.excluded | known.nodes))))
            elif job.comment.startswith(node_notes.HANGS) and job.states == {"RUNNING"}:
                steps.append(Tell(job_id, ""))
            continue
        if known is None or known.nodes != job.nodes:
            known = Hang(job_id, job.partition, since, job.nodes)
            counts = {node: suspects[node].jobs if node in suspects else 0 for node in job.nodes}
            suspects |= {node: Suspect(count + 1, now) for node, count in counts.items()}
        goes_elsewhere = policy.requeues and job.requeues and _has_others(job, nodes)
        if told.jobs.get(job_id) == known and goes_elsewhere and known.requeued:
            steps.append(Requeue(known))
        elif told.jobs.get(job_id) == known:
            known = msgspec.structs.replace(known, requeued=goes_elsewhere)
        jobs[job_id] = known
        if job.comment != known.comment and job.comment.startswith(node_notes.HANGS if job.comment else ""):
            steps.insert(0, Tell(job_id, known.comment))
    return Decided(Ledger(jobs, suspects), tuple(steps))


def hangs_since(
    job: SeenQuietJob, policy: HangPolicy | None, quiet: Mapping[str, datetime.datetime], now: datetime.datetime
) -> datetime.datetime | None:
    """Return since when a job hangs; None if it does not.

    A job of several nodes is quiet since it is so on all of them: ranks may wait for one that works. One that was
    suspended is quiet since it was resumed.
    """
    if policy is None or job.states != {"RUNNING"} or not job.nodes or not job.nodes <= quiet.keys():
        return None
    since = max(quiet[node] for node in job.nodes)
    since = max(since, job.resumed) if job.resumed else since
    return since if now - since >= datetime.timedelta(seconds=policy.after_seconds) else None


def read(status: Mapping[str, Any] | None) -> Ledger:
    """Read status.hangs."""
    rows = status or {}
    hangs = msgspec.convert(rows.get("jobs", ()), tuple[Hang, ...])
    suspects = {row["node"]: msgspec.convert(row, Suspect) for row in rows.get("suspects", ())}
    return Ledger({hang.job_id: hang for hang in hangs}, suspects)


def written(ledger: Ledger) -> dict[str, Any]:
    """Return status.hangs; empty if nothing is known."""
    hangs = [hang for _, hang in sorted(ledger.jobs.items())]
    suspects = [{"node": node, **msgspec.to_builtins(suspect)} for node, suspect in ranked(ledger.suspects)]
    lists = {"jobs": msgspec.to_builtins(hangs, order="sorted"), "suspects": suspects}
    return {key: rows for key, rows in lists.items() if rows}


def ranked(suspects: Mapping[str, Suspect]) -> list[tuple[str, Suspect]]:
    """Return the suspects, those on which jobs hung most often first, then the latest."""
    order = sorted(suspects.items(), key=lambda row: (-row[1].jobs, -row[1].last.timestamp(), row[0]))
    return order[:MOST_SUSPECTS]


def _waits(job: SeenQuietJob) -> bool:
    """Return whether a job waits on hold, and no process of it is left."""
    return job.held and "PENDING" in job.states and not slurm_nodes.may_have_processes(job.states)


def _has_others(job: SeenQuietJob, nodes: Nodes) -> bool:
    """Return whether enough other nodes of its node sets work: without them it would wait, perhaps for ever."""
    sets = {name.rpartition("-")[0] for name in job.nodes}
    out = job.nodes | job.excluded
    others = [node for name, node in nodes.items() if name not in out and name.rpartition("-")[0] in sets]
    return sum(slurm_nodes.is_usable(node) for node in others) >= job.node_count
