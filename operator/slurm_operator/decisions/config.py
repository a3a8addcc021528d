"""How the declared (wanted) configuration becomes the active one, and when slurmctld is told to read it.

Only the active ConfigMap is mounted, so a restart of slurmctld never loads a file that was not let through here. This
first form lets everything through but what would kill jobs; a check by a dry run of slurmctld belongs into `promotion`
(as another ground for `Hold`).
"""

from __future__ import annotations

import dataclasses
import datetime
import hashlib
import re
from collections.abc import Iterable, Mapping

from slurm_operator import names
from slurm_operator.decisions import nodes as slurm_nodes
from slurm_operator.seen import SlurmJob, Unknown

SEEN_BY_PODS_AFTER = datetime.timedelta(seconds=90)
"""The kubelet refreshes mounted ConfigMaps once per sync, a minute by default, with jitter up to half of it."""

_PARTITION = re.compile(r"^\s*PartitionName\s*=\s*([^\s#]+)", re.IGNORECASE | re.MULTILINE)


@dataclasses.dataclass(frozen=True, slots=True)
class Promote:
    """Copy the wanted files byte for byte into the active ConfigMap."""

    files: Mapping[str, str]


@dataclasses.dataclass(frozen=True, slots=True)
class Reconfigure:
    """Tell slurmctld to read its files."""


@dataclasses.dataclass(frozen=True, slots=True)
class Hold:
    """Leave things as they are; the message says why and what would help."""

    message: str


@dataclasses.dataclass(frozen=True, slots=True)
class Wait:
    """Nothing to do yet; the message says for what."""

    message: str


@dataclasses.dataclass(frozen=True, slots=True)
class Memory:
    """What SlurmCluster.status remembers: content seen, since when, and what slurmctld was told to read."""

    content: str
    changed: datetime.datetime
    applied: str


def content_hash(files: Mapping[str, str]) -> str:
    """Identify the content of a ConfigMap."""
    digest = hashlib.sha256()
    for name, text in sorted(files.items()):
        digest.update(f"{len(name)}:{name}:{len(text)}:{text}".encode())
    return digest.hexdigest()[:16]


def partitions(files: Mapping[str, str]) -> frozenset[str]:
    """Names of the partitions that a configuration defines, in lower case as Slurm compares them."""
    found = _PARTITION.findall(files.get(names.SLURM_CONF, ""))
    return frozenset(name.lower() for names_ in found for name in names_.split(",")) - {"default"}


def jobs_needed(wanted: Mapping[str, str] | None, active: Mapping[str, str] | None, memory: Memory | None) -> bool:
    """Whether a decision now depends on which jobs there are."""
    if wanted is None or active is None:
        return False
    return dict(wanted) != dict(active) or (memory is not None and memory.applied != content_hash(active))


def promotion(
    wanted: Mapping[str, str] | None,
    active: Mapping[str, str] | None,
    *,
    declared: bool,
    jobs: Iterable[SlurmJob] | Unknown,
) -> Promote | Hold | None:
    """Whether the wanted configuration becomes the active one now.

    Args:
        wanted: files that Pulumi declared, None if it has not.
        active: files that are mounted, None if there are none: then slurmctld cannot even start, so nothing can break.
        declared: whether the declaration is complete (the ledger's revision is the cluster's).
        jobs: jobs in Slurm now.
    """
    if wanted is None or (active is not None and dict(wanted) == dict(active)):
        return None
    if active is None:
        return Promote(wanted)
    if not declared:
        return None
    lost = partitions(active) - partitions(wanted)
    if isinstance(jobs, Unknown):
        if not lost:
            return Promote(wanted)
        return Hold(f"partition {', '.join(sorted(lost))} would go, and its jobs cannot be seen: {jobs.message}")
    return _doomed(wanted, jobs) or Promote(wanted)


def reconfiguration(
    active: Mapping[str, str] | None,
    memory: Memory | None,
    *,
    now: datetime.datetime,
    jobs: Iterable[SlurmJob] | Unknown,
) -> Reconfigure | Hold | Wait | None:
    """Whether slurmctld should read the active files now."""
    if active is None or memory is None or memory.applied == content_hash(active):
        return None
    left = memory.changed + SEEN_BY_PODS_AFTER - now
    if left > datetime.timedelta():
        return Wait("slurmctld is told to read the new configuration once its pod must have it")
    if isinstance(jobs, Unknown):
        return Wait(f"slurmctld is told to read the new configuration when it answers: {jobs.message}")
    return _doomed(active, jobs) or Reconfigure()


def remember(
    active: Mapping[str, str] | None, memory: Memory | None, *, now: datetime.datetime, reconfigured: bool
) -> Memory | None:
    """What to remember after a pass. Content met first, with no memory of another, is what slurmctld started with."""
    if active is None:
        return memory
    content = content_hash(active)
    if memory is None:
        return Memory(content, now, content)
    if reconfigured:
        return dataclasses.replace(memory, applied=content)
    return memory if memory.content == content else Memory(content, now, memory.applied)


def _doomed(files: Mapping[str, str], jobs: Iterable[SlurmJob]) -> Hold | None:
    """Removing or renaming a partition kills its jobs, pending ones too, when slurmctld reads the files."""
    kept = partitions(files)
    lost = [job for job in jobs if slurm_nodes.is_alive(job) and not {name.lower() for name in job.partitions} <= kept]
    if not lost:
        return None
    gone = sorted({name for job in lost for name in job.partitions if name.lower() not in kept})
    shown = ", ".join(str(job.job_id) for job in lost[:10]) + (f" and {len(lost) - 10} more" if len(lost) > 10 else "")
    return Hold(
        f"the new configuration removes partition {', '.join(gone)}, which would kill its jobs {shown}: "
        "wait for them, cancel them, or keep the partition"
    )
