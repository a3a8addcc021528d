"""Decides when the declared (wanted) configuration becomes the active one, and when slurmctld has to read it.

Only the active ConfigMap is mounted, so a restart of slurmctld loads no file that was not let through here. What
slurmctld runs with is asked of slurmctld: it shows the mark that every rendered slurm.conf carries. So nothing has to
be remembered, and a `scontrol reconfigure` by hand or a restart makes nothing wrong.
"""

from __future__ import annotations

import dataclasses
import datetime
import hashlib
import re
from collections.abc import Iterable, Mapping

from contract import names
from contract.conditions import Reason
from slurm_operator.decide.cluster import config_keys
from slurm_operator.decide.nodes import slurm_nodes, waits
from slurm_operator.findings import Finding, Severity, under_way
from slurm_operator.state.slurm import Nodes, Running, SlurmJob, Unknown

CLOCKS_DIFFER = datetime.timedelta(seconds=5)
"""So far a node's clock may be behind slurmctld's before the node counts as outdated."""
NODES_READ_WITHIN = datetime.timedelta(seconds=60)
"""Nodes read a configuration within seconds; one whose slurmd waits for a prolog first takes longer (slurmd.c)."""

_PARTITION = re.compile(r"^\s*PartitionName\s*=\s*([^\s#]+)(.*)", re.IGNORECASE | re.MULTILINE)
_QUOTED = re.compile(r'"[^"]*"')
_STATE = re.compile(r"\sState\s*=\s*(\w+)", re.IGNORECASE)
_MARK = re.compile(rf"\b{names.CONFIG_MARK}=(\w+)")


@dataclasses.dataclass(frozen=True, slots=True)
class Verdict:
    """The config dry run's result. `words` are slurmctld's messages, which it may have about accepted files, too."""

    accepted: bool
    words: str


@dataclasses.dataclass(frozen=True, slots=True)
class TryConfig:
    """Have the config dry run try the wanted files."""

    files: Mapping[str, str]


@dataclasses.dataclass(frozen=True, slots=True)
class Promote:
    """Copy files byte for byte into the active ConfigMap.

    Attributes:
        files: the wanted ones, or those that slurmctld has to read before these.
        words: slurmctld's complaints about them.
        wanted: what Pulumi declared, if that is not `files`.
    """

    files: Mapping[str, str]
    words: str = ""
    wanted: Mapping[str, str] | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class Reconfigure:
    """Have slurmctld read its files, by a restart if some words take effect only then."""

    start_words: tuple[str, ...] = ()


HELD = Reason.CONFIGURATION_HELD
"""The active configuration stays. The message says why, and what would help."""
CLOSING = Reason.PARTITIONS_CLOSING
"""Partitions are closed before their removal: only a closed partition stays empty."""


def content_hash(files: Mapping[str, str]) -> str:
    """Identify the content of a ConfigMap."""
    digest = hashlib.sha256()
    for name, text in sorted(files.items()):
        digest.update(f"{len(name)}:{name}:{len(text)}:{text}".encode())
    return digest.hexdigest()[:16]


def mark(text: str) -> str:
    """Return the mark of a rendered configuration, in its slurm.conf or as slurmctld shows it; empty if it has none."""
    match = _MARK.search(text)
    return match[1] if match else ""


def is_read(active: Mapping[str, str], running: Running) -> bool:
    """Return whether slurmctld runs with these files."""
    return mark(active.get(names.SLURM_CONF, "")) == mark(running.parameters)


def partitions(files: Mapping[str, str]) -> frozenset[str]:
    """Return the partitions that a configuration defines; their names are case-sensitive (slurm.conf(5))."""
    return frozenset(declared_states(files))


def declared_states(files: Mapping[str, str]) -> dict[str, str]:
    """Return the state that a configuration gives each partition: UP, DOWN, DRAIN or INACTIVE."""
    states: dict[str, str] = {}
    for listed, options in _PARTITION.findall(files.get(names.SLURM_CONF, "")):
        said = _STATE.search(_QUOTED.sub("", options))
        states |= dict.fromkeys(listed.split(","), said[1].upper() if said else "UP")
    return {name: state for name, state in states.items() if name.upper() != "DEFAULT"}


def closed_state(declared: str) -> str:
    """Return the state that closes a partition to new jobs: INACTIVE if jobs do not start in it now, else DRAIN."""
    return "INACTIVE" if declared in ("DOWN", "INACTIVE") else "DRAIN"


def jobs_needed(wanted: Mapping[str, str], active: Mapping[str, str], known: frozenset[str]) -> bool:
    """Return whether a decision needs the jobs: a change that can lose no job does not.

    Args:
        wanted: files that Pulumi declared.
        active: files that are mounted.
        known: partitions that slurmctld has, if it has not read the active files.
    """
    lost = partitions(active) - partitions(wanted)
    return bool(lost or config_keys.costly(active, wanted) or known - partitions(active))


def promotion(
    wanted: Mapping[str, str] | None,
    active: Mapping[str, str] | None,
    *,
    declared: bool,
    verdict: Verdict | None,
    jobs: Iterable[SlurmJob] | Unknown,
    closed: frozenset[str],
) -> TryConfig | Promote | Finding | None:
    """Return how to make the wanted configuration the active one, or why that waits; None if there is nothing to do.

    Args:
        wanted: files that Pulumi declared, None if it has not.
        active: files that are mounted, None if there are none yet: a new cluster's slurmctld waits for them.
        declared: whether the declaration is complete (the ledger's revision is the cluster's).
        verdict: what a config dry run of the wanted files said, None if there was none.
        jobs: jobs in Slurm now.
        closed: partitions that took no more jobs when these were listed.
    """
    if wanted is None or (active is not None and dict(wanted) == dict(active)):
        return None
    # The first files need no complete declaration: they can break nothing, and Pulumi may wait for slurmctld.
    if active is not None and not declared:
        return None
    if verdict is None:
        return TryConfig(wanted)
    if not verdict.accepted:
        return refused(verdict)
    held = None if active is None else _cost(wanted, active, jobs) or _open(wanted, active, closed)
    return held or Promote(wanted, verdict.words)


def refused(verdict: Verdict) -> Finding:
    """Return a finding with slurmctld's words about files that the config dry run did not accept."""
    words = f"the declared configuration is not used, since slurmctld refuses it: {verdict.words}"
    return Finding(Reason.CONFIGURATION_REFUSED, words, Severity.WRONG | Severity.BLOCKING)


def marked(files: Mapping[str, str]) -> dict[str, str]:
    """Return files whose slurm.conf has the mark of these files, in place of the one of their originals."""
    own = f"{names.CONFIG_MARK}={content_hash(files)}"
    return {**files, names.SLURM_CONF: _MARK.sub(own, files.get(names.SLURM_CONF, ""), count=1)}


def _cost(wanted: Mapping[str, str], active: Mapping[str, str], jobs: Iterable[SlurmJob] | Unknown) -> Finding | None:
    """Return why present jobs forbid the change; None if they do not."""
    lost, keys = partitions(active) - partitions(wanted), config_keys.costly(active, wanted)
    if isinstance(jobs, Unknown):
        changes = [*(f"partition {name} would go" for name in sorted(lost)), *(f"{key} would change" for key in keys)]
        return Finding(HELD, f"{', '.join(changes)}, and jobs cannot be seen: {jobs.message}") if changes else None
    alive = [job for job in jobs if slurm_nodes.is_alive(job)]
    if keys and alive:
        why = "; ".join(f"{key} changes: {config_keys.COSTS[key]}" for key in keys)
        return Finding(HELD, f"{why}. It waits until there is no job: {waits.of_jobs(alive)}")
    return _doom(partitions(wanted), alive)


def _open(wanted: Mapping[str, str], active: Mapping[str, str], closed: frozenset[str]) -> Finding | None:
    """Return a finding that names the partitions to close before they are removed; None if there are none."""
    still = sorted(partitions(active) - partitions(wanted) - closed)
    words = f"partition {', '.join(still)} takes no more jobs, and goes when it is seen empty after that"
    return under_way(CLOSING, words) if still else None


def closing(
    wanted: Mapping[str, str] | None,
    active: Mapping[str, str] | None,
    decided: TryConfig | Promote | Finding | None,
    running: Running | Unknown,
    closed: frozenset[str],
) -> frozenset[str]:
    """Return the partitions to close. They go once they are empty, or when slurmctld reads the active files.

    Args:
        wanted: files that Pulumi declared.
        active: files that are mounted.
        decided: what became of the wanted files in this pass.
        running: what slurmctld runs with.
        closed: partitions that were closed before.
    """
    if wanted is None or active is None:
        return closed
    going = partitions(active) - partitions(wanted)
    if decided is None or isinstance(decided, TryConfig):
        going &= closed  # Not decided yet, as during `pulumi up`: partitions that are being emptied stay closed.
    elif isinstance(decided, Finding) and decided.reason == Reason.CONFIGURATION_REFUSED:
        going = frozenset()
    read = isinstance(running, Running) and is_read(active, running)
    return going if read else going | (closed - (partitions(wanted) & partitions(active)))


def reconfiguration(
    active: Mapping[str, str] | None, running: Running | Unknown, jobs: Iterable[SlurmJob] | Unknown
) -> Reconfigure | Finding | None:
    """Return how slurmctld should read the active files now, or why not; None if it has read them."""
    if active is None or isinstance(running, Unknown) or isinstance(jobs, Unknown) or is_read(active, running):
        return None
    words = config_keys.controller_start(active) ^ (running.communication & config_keys.CONTROLLER_START)
    return _doom(partitions(active), jobs) or Reconfigure(tuple(sorted(words)))


def is_pending_for_workers(
    wanted: Mapping[str, str] | None, active: Mapping[str, str] | None, running: Running | Unknown
) -> bool:
    """Return whether a worker that starts now would miss something that it takes only at its start."""
    if wanted is None or active is None:
        return False
    read = isinstance(running, Running) and is_read(active, running)
    return not read or config_keys.worker_start(wanted) != config_keys.worker_start(active)


def outdated(nodes: Nodes, running: Running) -> list[str]:
    """Return the nodes that answer and have not read the configuration that slurmctld runs with.

    slurmctld starts itself anew to read its files, then has every slurmd fetch them and start itself anew. So a slurmd
    that has been running for longer than slurmctld has the files of before.
    """
    reached = (node for node in nodes.values() if not node.states & {"DOWN", "NOT_RESPONDING", "FUTURE"})
    latest = running.started - CLOCKS_DIFFER
    return sorted(node.name for node in reached if node.started is not None and node.started < latest)


def is_overdue(running: Running, now: datetime.datetime) -> bool:
    """Return whether nodes had enough time to read the configuration since slurmctld told them to."""
    return now - running.started > NODES_READ_WITHIN


def _doom(kept: frozenset[str], jobs: Iterable[SlurmJob]) -> Finding | None:
    """Return the jobs that lose their partition: slurmctld kills them, also pending ones, when it reads the files."""
    lost = [job for job in jobs if slurm_nodes.is_alive(job) and not job.partitions <= kept]
    if not lost:
        return None
    gone = ", ".join(sorted({name for job in lost for name in job.partitions - kept}))
    kills = f"the new configuration removes partition {gone}, which would kill its {waits.of_jobs(lost)}"
    ways = "it takes no new ones meanwhile; wait for them, cancel them, or keep the partition"
    return Finding(HELD, f"{kills}: {ways}")
