"""Facts of a Slurm node's record: it takes jobs, has work, is strictly idle, or is reserved."""

from __future__ import annotations

import dataclasses
import datetime
import enum
from collections.abc import Iterable

from contract import commands
from slurm_operator import drains
from slurm_operator.drains import Owner
from slurm_operator.findings import shown
from slurm_operator.state.slurm import EVERY_NODE, Nodes, SlurmJob, SlurmNode

_IDLE_STATES = frozenset(
    {"IDLE", "DOWN", "DRAIN", "FAIL", "DYNAMIC_NORM", "CLOUD", "NOT_RESPONDING", "INVALID_REG", "BLOCKED"}
)
"""Everything that a node without work may show. Another flag (COMPLETING, RESERVED, PLANNED …) means: not yet.

BLOCKED says that a job with `--exclusive=topo` is on other nodes of the same switch or block: none can start here.
"""

_RESERVED_STATES = _IDLE_STATES | {"RESERVED", "MAINTENANCE"}
"""States that allow a restart of the pod: it keeps the record, and so the reservation."""
_USABLE_BASES = frozenset({"IDLE", "ALLOCATED", "MIXED"})
_UNUSABLE_FLAGS = frozenset(
    {"NOT_RESPONDING", "DRAIN", "FAIL", "INVALID_REG", "REBOOT_ISSUED", "POWERED_DOWN"}
    | {"POWERING_DOWN", "POWERING_UP", "POWER_DOWN", "UNKNOWN", "FUTURE"}
)
_WORKLESS_JOB_STATES = frozenset(
    {"PENDING", "COMPLETED", "CANCELLED", "FAILED", "TIMEOUT", "NODE_FAIL", "PREEMPTED", "BOOT_FAIL", "DEADLINE"}
    | {"OUT_OF_MEMORY", "REVOKED", "REQUEUED", "REQUEUE_HOLD", "REQUEUE_FED", "SPECIAL_EXIT", "RECONFIG_FAIL"}
)
_WAITING = (Owner.SCALE_IN, Owner.UPDATE, Owner.NEW, Owner.UNTESTED)
_ENDED_JOB_STATES = _WORKLESS_JOB_STATES - {"PENDING", "REQUEUED", "REQUEUE_HOLD", "REQUEUE_FED", "SPECIAL_EXIT"}


class Standing(enum.Enum):
    """The state of a wanted node."""

    USABLE = "usable"
    WAITING = "waiting"
    DRAINED = "drained"
    DOWN = "down"


def deadline(node: SlurmNode, seconds: int | None, reason: str) -> datetime.datetime | None:
    """Return when a node that we drained for that reason loses its jobs; None if it never does, or did already."""
    if seconds is None or node.reason_set is None or not drains.is_operators(node) or node.reason != reason:
        return None
    return node.reason_set + datetime.timedelta(seconds=seconds)


def is_overdue(node: SlurmNode, seconds: int | None, now: datetime.datetime, reason: str) -> bool:
    """Return whether jobs are to be taken from a node now."""
    end = deadline(node, seconds, reason)
    return end is not None and end < now and has_work(node)


def is_draining(node: SlurmNode) -> bool:
    """Return whether the node carries a drain of this operator's, and still has work."""
    return drains.is_operators(node) and has_work(node)


def is_usable(node: SlurmNode) -> bool:
    """Return whether Slurm starts jobs on the node now."""
    return bool(node.states & _USABLE_BASES) and not node.states & _UNUSABLE_FLAGS and "DOWN" not in node.states


def is_idle(node: SlurmNode) -> bool:
    """Return whether the node takes jobs, has no work, and is neither reserved, planned for a job nor blocked."""
    return is_usable(node) and not has_work(node) and node.states <= _IDLE_STATES and "BLOCKED" not in node.states


def has_work(node: SlurmNode) -> bool:
    """Return whether the record shows work; a suspended job keeps its memory (decide/node_sets/full_listing.py)."""
    allocated = node.allocated_cpus > 0 or node.allocated_memory > 0
    return node.busy or allocated or bool(node.states & {"ALLOCATED", "MIXED", "COMPLETING"})


def busy_nodes(jobs: Iterable[SlurmJob]) -> frozenset[str]:
    """Nodes named by any job that may have processes: running, suspended, completing, configuring, or unheard of."""
    working = [job for job in jobs if may_have_processes(job.states)]
    if any(job.nodes is EVERY_NODE for job in working):
        return EVERY_NODE
    return frozenset(name for job in working for name in job.nodes)


def with_jobs(nodes: Nodes, jobs: Iterable[SlurmJob]) -> Nodes:
    """A listing that knows which nodes those jobs name: the record of one whose only job is suspended shows no work."""
    return marked(nodes, busy_nodes(jobs))


def marked(nodes: Nodes, busy: frozenset[str]) -> Nodes:
    """A listing that knows that those nodes have work."""
    return {**nodes, **{name: dataclasses.replace(nodes[name], busy=True) for name in busy & nodes.keys()}}


def kept(nodes: Iterable[SlurmNode], namespace: str) -> str:
    """Return our drained nodes without work that flags of Slurm keep, and the command that shows why.

    The text is empty without such nodes.
    """
    ours = [node for node in nodes if drains.is_operators(node) and not has_work(node)]
    flags = {node.name: sorted(node.states - _IDLE_STATES) for node in ours if not node.states <= _IDLE_STATES}
    reserved = any("RESERVED" in words for words in flags.values())
    shows = commands.scontrol(namespace, "show reservation" if reserved else f"show node {','.join(flags)}")
    listed = shown([f"{name} ({', '.join(words)})" for name, words in flags.items()], 5)
    return f"{listed}; see {shows}" if flags else ""


def may_have_processes(states: frozenset[str]) -> bool:
    """Return whether a job in such a state runs, is suspended, completes, starts, or if the state is unknown."""
    return not states <= _WORKLESS_JOB_STATES


def is_out_of_the_ordinary(states: frozenset[str]) -> bool:
    """Return whether such a job may have processes and is not plainly running or configuring."""
    return may_have_processes(states) and not states <= {"RUNNING", "CONFIGURING"}


def has_not_ended(states: frozenset[str]) -> bool:
    """Return whether such a job waits or runs."""
    return not states <= _ENDED_JOB_STATES


def is_alive(job: SlurmJob) -> bool:
    """Return whether the job waits or runs, and so has something to lose."""
    return has_not_ended(job.states)


def is_deletable(node: SlurmNode) -> bool:
    """Return whether Slurm would delete the record: it refuses while the node has work or is in a reservation."""
    return not has_work(node) and "RESERVED" not in node.states


def looks_idle(node: SlurmNode) -> bool:
    """Drained and without work as far as the record alone tells."""
    return drains.is_drained(node) and not has_work(node) and node.states <= _IDLE_STATES


def may_restart(node: SlurmNode) -> bool:
    """Drained and without work as far as the record alone tells, perhaps in a reservation, whose jobs would show."""
    return drains.is_drained(node) and not has_work(node) and node.states <= _RESERVED_STATES


def is_rebooting(node: SlurmNode) -> bool:
    """Return whether Slurm has rebooted the node: it starts no job there until another slurmd registers."""
    return "REBOOT_ISSUED" in node.states


def waits_for_reboot(node: SlurmNode) -> bool:
    """Return whether `scontrol reboot ASAP` waits for the node's jobs."""
    return "REBOOT_REQUESTED" in node.states and drains.is_drained(node) and has_work(node)


def may_reboot(node: SlurmNode) -> bool:
    """Return whether Slurm has rebooted the node and the record shows no work."""
    return is_rebooting(node) and not has_work(node) and node.states <= _RESERVED_STATES | {"REBOOT_ISSUED"}


def is_kept_for_others(node: SlurmNode) -> bool:
    """Return whether a reservation that is not for maintenance counts on the node now."""
    return "RESERVED" in node.states and "MAINTENANCE" not in node.states


def may_leave(node: SlurmNode) -> bool:
    """Return whether the record lets the node go."""
    return drains.is_held(node) and looks_idle(node)


def standing(node: SlurmNode | None, *, pod_ready: bool) -> Standing:
    """Return the state of a wanted node; a drain by somebody else comes first, since that person decides."""
    if node is None:
        return Standing.WAITING
    if is_rebooting(node):
        return Standing.WAITING
    if drains.is_drained(node):
        return Standing.WAITING if drains.owner(node) in _WAITING else Standing.DRAINED
    if "DOWN" in node.states:
        return Standing.DOWN
    return Standing.USABLE if pod_ready and is_usable(node) else Standing.WAITING
