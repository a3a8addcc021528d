"""What a Slurm node record says: whether it takes jobs, whose drain it carries, whether it is strictly idle."""

from __future__ import annotations

import dataclasses
import datetime
import enum
from collections.abc import Iterable

from contract import names, reasons
from slurm_operator.state import EVERY_NODE, Nodes, SlurmJob, SlurmNode

REMOVAL_REASONS = (reasons.SCALE_IN, f"{reasons.SCALE_IN}{reasons.DEADLINE_PASSED}")
WAITING_REASONS = (reasons.SCALE_IN, reasons.UPDATE)
OUR_REASONS = (*WAITING_REASONS, *(f"{reason}{reasons.DEADLINE_PASSED}" for reason in WAITING_REASONS))
_NODES_OWN = frozenset({"root", names.SLURM_USER})
"""As whom a node's pod speaks; an administrator speaks as himself, and root of the jail is nobody to Slurm."""
_IDLE_STATES = frozenset({"IDLE", "DOWN", "DRAIN", "FAIL", "DYNAMIC_NORM", "CLOUD", "NOT_RESPONDING", "INVALID_REG"})
"""Everything that a node without work may show. Another flag (COMPLETING, RESERVED, PLANNED …) means: not yet."""

_RESERVED_STATES = _IDLE_STATES | {"RESERVED", "MAINTENANCE"}
"""A restart keeps the record, and with it the reservation."""
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
    """Whether Slurm gives the node no new work, whatever its slurmd says: it is drained, or set to FAIL."""
    return bool(node.states & {"DRAIN", "FAIL"})


def is_our_drain(node: SlurmNode, *reasons: str) -> bool:
    """Whether the node carries a drain of this operator, for one of some reasons; only such a drain may be lifted."""
    return _may_be_ours(node) and node.reason in (reasons or OUR_REASONS) and node.reason_user == names.SLURM_USER


def is_anothers(node: SlurmNode) -> bool:
    """Whether somebody else took the node out of service, by a drain, FAIL, or DOWN: that word is his to take back."""
    if is_drained(node):
        ours = is_our_drain(node) or is_held_for_repair(node) or is_new(node) or is_unfit(node)
        return not (ours or is_refused(node))
    by_us = node.reason.startswith(reasons.PREFIX) and node.reason_user in _NODES_OWN
    silent = node.reason in ("", reasons.NOT_RESPONDING) or by_us
    return "DOWN" in node.states and not silent


def is_by_person(node: SlurmNode) -> bool:
    """Whether a person took the node out of service, who knows of it; Slurm's own words ask somebody to look."""
    return is_anothers(node) and node.reason_user not in ("", names.SLURM_USER)


def is_held(node: SlurmNode) -> bool:
    """Whether the node takes no jobs until this operator or a person says so; its own drain it may lift at once."""
    return is_drained(node) and not (is_unfit(node) or is_new(node))


def may_return_by_itself(node: SlurmNode) -> bool:
    """Whether a person set the node DOWN, which Slurm takes back when its slurmd registers (ReturnToService=2)."""
    by_person = node.reason_user not in ("", names.SLURM_USER)
    return by_person and not is_drained(node) and is_anothers(node)


def deadline(node: SlurmNode, seconds: int | None, *reasons: str) -> datetime.datetime | None:
    """When jobs are taken from a node that we drained for one of some reasons; None if they never are."""
    if seconds is None or node.reason_set is None or not is_our_drain(node, *reasons):
        return None
    return node.reason_set + datetime.timedelta(seconds=seconds)


def is_overdue(node: SlurmNode, seconds: int | None, now: datetime.datetime, *reasons: str) -> bool:
    """Whether jobs are to be taken from a node now."""
    end = deadline(node, seconds, *reasons)
    return end is not None and end < now and has_work(node)


def is_k8s_node_drain(node: SlurmNode) -> bool:
    """Whether the node carries a drain of this operator on account of its Kubernetes node."""
    return _may_be_ours(node) and node.reason.startswith(reasons.NODE) and node.reason_user == names.SLURM_USER


def is_draining(node: SlurmNode) -> bool:
    """Whether the node carries a drain of this operator's, and still has work."""
    return (is_our_drain(node) or is_held_for_repair(node)) and has_work(node)


def is_new(node: SlurmNode) -> bool:
    """Whether the node is as it first registered: drained by its own slurmd until it is seen to work."""
    return _may_be_ours(node) and node.reason == reasons.NEW and node.reason_user in _NODES_OWN


def is_unfit(node: SlurmNode) -> bool:
    """Whether the node drained itself, which it may also take back at any moment."""
    return _may_be_ours(node) and node.reason.startswith(reasons.UNFIT) and node.reason_user in _NODES_OWN


def is_repair(node: SlurmNode) -> bool:
    """Whether the node carries this operator's drain for a repair: the node does not lift that itself."""
    return _may_be_ours(node) and node.reason.startswith(reasons.REPAIR) and node.reason_user == names.SLURM_USER


def is_held_for_repair(node: SlurmNode) -> bool:
    """Whether a repair may build on the node's drain: this operator wrote it, and alone lifts it."""
    return is_repair(node) or is_k8s_node_drain(node)


def repair_reason(node: SlurmNode) -> str:
    """The reason of the operator's drain for the repair of a node that drained itself."""
    return reasons.REPAIR + node.reason.removeprefix(reasons.PREFIX)


def fault(node: SlurmNode) -> str:
    """Why a node is to be repaired, as it was said first: by the node itself, or for its machine."""
    return reasons.PREFIX + node.reason.removeprefix(reasons.REPAIR) if is_repair(node) else node.reason


def is_at_fault(node: SlurmNode) -> bool:
    """Whether the node drained itself for its machine's sake."""
    return (is_unfit(node) or is_repair(node)) and fault(node).startswith(reasons.HARDWARE)


def is_refused(node: SlurmNode) -> bool:
    """Whether Slurm itself drained the node, since its slurmd has less than the record promises."""
    by_slurm = node.reason_user == names.SLURM_USER and not node.reason.startswith(reasons.PREFIX)
    return _may_be_ours(node) and "INVALID_REG" in node.states and by_slurm


def may_become(node: SlurmNode, reason: str) -> bool:
    """Whether a drain may get another reason of ours; who asks has seen that the one before has no more cause."""
    if reason.startswith(reasons.NODE):
        return is_new(node) or is_unfit(node) or is_our_drain(node) or is_repair(node)
    if reason == reasons.NEW:
        return is_our_drain(node) or is_held_for_repair(node)
    if reason.startswith(reasons.REPAIR):
        return is_unfit(node) and reason == repair_reason(node)
    by_itself = is_new(node) or is_unfit(node) or is_refused(node)
    if reason == reasons.UPDATE:
        # Under one for a removal that was taken back there may be a pod that never came up.
        return by_itself or is_repair(node) or is_our_drain(node, *REMOVAL_REASONS)
    ours = by_itself or is_our_drain(node, reasons.UPDATE) or is_held_for_repair(node)
    return reason == reasons.SCALE_IN and ours


def may_be_drained(node: SlurmNode, reason: str) -> bool:
    """Whether the node may get a drain of ours: it serves, or what it carries is ours and has no more cause."""
    if is_drained(node) or reason.startswith(reasons.REPAIR):
        return may_become(node, reason)
    return not is_anothers(node)


def is_usable(node: SlurmNode) -> bool:
    """Whether Slurm starts jobs on the node now."""
    return bool(node.states & _USABLE_BASES) and not node.states & _UNUSABLE_FLAGS and "DOWN" not in node.states


def has_work(node: SlurmNode) -> bool:
    """Whether the node has work as far as was seen; a suspended job keeps its memory (decide/evidence.py)."""
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
    ours = [node for node in nodes if (is_our_drain(node) or is_held_for_repair(node)) and not has_work(node)]
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


def may_restart(node: SlurmNode) -> bool:
    """Drained and without work as far as the record alone tells, perhaps in a reservation, whose jobs would show."""
    return is_drained(node) and not has_work(node) and node.states <= _RESERVED_STATES


def is_kept_for_others(node: SlurmNode) -> bool:
    """Whether a reservation that is not for maintenance counts on the node now."""
    return "RESERVED" in node.states and "MAINTENANCE" not in node.states


def may_leave(node: SlurmNode) -> bool:
    """Whether a node may go as far as its record alone tells."""
    return is_held(node) and looks_idle(node)


def standing(node: SlurmNode | None, *, pod_ready: bool) -> Standing:
    """How a wanted node stands; a drain by somebody else is that person's decision and comes first."""
    if node is None:
        return Standing.WAITING
    if is_drained(node):
        return Standing.WAITING if is_our_drain(node) or is_new(node) else Standing.DRAINED
    if "DOWN" in node.states:
        return Standing.DOWN
    return Standing.USABLE if pod_ready and is_usable(node) else Standing.WAITING


def _may_be_ours(node: SlurmNode) -> bool:
    """FAIL is always somebody's: neither Slurm nor this program sets it."""
    return "DRAIN" in node.states and "FAIL" not in node.states
