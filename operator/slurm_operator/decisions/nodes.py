"""What a Slurm node record says: whether it takes jobs, whose drain it carries, whether it is strictly idle."""

from __future__ import annotations

import dataclasses
import datetime
import enum
from collections.abc import Iterable

from slurm_operator import names
from slurm_operator.seen import EVERY_NODE, Nodes, SlurmJob, SlurmNode

REMOVAL_REASONS = (names.SCALE_IN_REASON, f"{names.SCALE_IN_REASON}{names.DEADLINE_PASSED}")
WAITING_REASONS = (names.SCALE_IN_REASON, names.UPDATE_REASON)
OUR_REASONS = (*WAITING_REASONS, *(f"{reason}{names.DEADLINE_PASSED}" for reason in WAITING_REASONS))
_IDLE_STATES = frozenset({"IDLE", "DOWN", "DRAIN", "DYNAMIC_NORM", "CLOUD", "NOT_RESPONDING", "INVALID_REG"})
"""Everything that a node without work may show. Another flag (COMPLETING, RESERVED, PLANNED …) means: not yet."""

_USABLE_BASES = frozenset({"IDLE", "ALLOCATED", "MIXED"})
_UNUSABLE_FLAGS = frozenset(
    {"NOT_RESPONDING", "DRAIN", "FAIL", "INVALID_REG", "REBOOT_REQUESTED", "REBOOT_ISSUED", "POWERED_DOWN"}
    | {"POWERING_DOWN", "POWERING_UP", "POWER_DOWN", "UNKNOWN", "FUTURE"}
)
_WORKLESS_JOB_STATES = frozenset(
    {"PENDING", "COMPLETED", "CANCELLED", "FAILED", "TIMEOUT", "NODE_FAIL", "PREEMPTED", "BOOT_FAIL", "DEADLINE"}
    | {"OUT_OF_MEMORY", "REVOKED", "REQUEUED", "REQUEUE_HOLD", "REQUEUE_FED", "SPECIAL_EXIT", "RECONFIG_FAIL"}
)
_ENDED_JOB_STATES = _WORKLESS_JOB_STATES - {"PENDING", "REQUEUED", "REQUEUE_HOLD", "REQUEUE_FED", "SPECIAL_EXIT"}


class Standing(enum.Enum):
    """How a wanted node stands."""

    USABLE = "usable"
    WAITING = "waiting"
    DRAINED = "drained"
    DOWN = "down"


def is_drained(node: SlurmNode) -> bool:
    """Whether Slurm gives the node no new work."""
    return "DRAIN" in node.states


def is_our_drain(node: SlurmNode, *reasons: str) -> bool:
    """Whether the node carries a drain of this operator, for one of some reasons; only such a drain may be lifted."""
    return is_drained(node) and node.reason in (reasons or OUR_REASONS) and node.reason_user == names.SLURM_USER


def deadline(node: SlurmNode, seconds: int | None, *reasons: str) -> datetime.datetime | None:
    """When jobs are taken from a node that we drained for one of some reasons; None if they never are."""
    if seconds is None or node.reason_set is None or not is_our_drain(node, *reasons):
        return None
    return node.reason_set + datetime.timedelta(seconds=seconds)


def is_overdue(node: SlurmNode, seconds: int | None, now: datetime.datetime, *reasons: str) -> bool:
    """Whether jobs are to be taken from a node now."""
    end = deadline(node, seconds, *reasons)
    return end is not None and end < now and has_work(node)


def is_machine_drain(node: SlurmNode) -> bool:
    """Whether the node carries a drain of this operator on account of its Kubernetes node."""
    return is_drained(node) and node.reason.startswith(names.NODE_REASON) and node.reason_user == names.SLURM_USER


def is_new(node: SlurmNode) -> bool:
    """Whether the node is as it first registered: drained by its own slurmd until it is seen to work."""
    return is_drained(node) and node.reason == names.NEW_REASON


def may_become(node: SlurmNode, reason: str) -> bool:
    """Whether a drain may get another reason of ours; who asks has seen that the one before has no more cause."""
    if reason.startswith(names.NODE_REASON):
        return is_new(node) or is_our_drain(node)
    if reason == names.NEW_REASON:
        return is_our_drain(node) or is_machine_drain(node)
    by_itself = is_new(node) or (is_drained(node) and node.reason.startswith(names.UNFIT_REASONS))
    if reason == names.UPDATE_REASON:
        # Under one for a removal that was taken back there may be a pod that never came up.
        return by_itself or is_our_drain(node, *REMOVAL_REASONS)
    ours = by_itself or is_our_drain(node, names.UPDATE_REASON) or is_machine_drain(node)
    return reason == names.SCALE_IN_REASON and ours


def is_usable(node: SlurmNode) -> bool:
    """Whether Slurm starts jobs on the node now."""
    return bool(node.states & _USABLE_BASES) and not node.states & _UNUSABLE_FLAGS and "DOWN" not in node.states


def has_work(node: SlurmNode) -> bool:
    """Whether the node has work as far as was seen; a suspended job keeps its memory (decisions/evidence.py)."""
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
    busy = busy_nodes(jobs)
    return {**nodes, **{name: dataclasses.replace(nodes[name], busy=True) for name in busy & nodes.keys()}}


def kept(nodes: Iterable[SlurmNode]) -> list[str]:
    """Nodes that we drained and that have no work, but are not idle to Slurm, with its flags: reserved ones, say."""
    ours = [node for node in nodes if (is_our_drain(node) or is_machine_drain(node)) and not has_work(node)]
    flags = [(node.name, ", ".join(sorted(node.states - _IDLE_STATES))) for node in ours]
    return [f"{name} ({words})" for name, words in flags if words]


def may_have_processes(states: frozenset[str]) -> bool:
    """Whether a job in such a state runs, is suspended or completing, is being started, or is unheard of."""
    return not states <= _WORKLESS_JOB_STATES


def is_out_of_the_ordinary(states: frozenset[str]) -> bool:
    """Whether such a job may have processes, and does more than to run."""
    return may_have_processes(states) and not states <= {"RUNNING", "CONFIGURING"}


def has_not_ended(states: frozenset[str]) -> bool:
    """Whether such a job waits or runs."""
    return not states <= _ENDED_JOB_STATES


def is_alive(job: SlurmJob) -> bool:
    """Whether the job still has something to lose: it waits or runs."""
    return has_not_ended(job.states)


def is_deletable(node: SlurmNode) -> bool:
    """Whether Slurm would delete the record: it refuses while the node has work or is in a reservation."""
    return not has_work(node) and "RESERVED" not in node.states


def looks_idle(node: SlurmNode) -> bool:
    """Drained and without work as far as the record alone tells."""
    return is_drained(node) and not has_work(node) and node.states <= _IDLE_STATES


def is_strictly_idle(node: SlurmNode, busy: frozenset[str]) -> bool:
    """Drained, without work in its record, and named by no job that may have processes."""
    return looks_idle(node) and node.name not in busy


def standing(node: SlurmNode | None, *, pod_ready: bool) -> Standing:
    """How a wanted node stands; a drain by somebody else is that person's decision and comes first."""
    if node is None:
        return Standing.WAITING
    if is_drained(node):
        return Standing.WAITING if is_our_drain(node) or is_new(node) else Standing.DRAINED
    if "DOWN" in node.states:
        return Standing.DOWN
    return Standing.USABLE if pod_ready and is_usable(node) else Standing.WAITING
