"""Owners of drains, and the drains that each may replace.

A drain's reason and author tell its owner. The operator lifts only drains of its own, and never writes over a
person's. FAIL, and DOWN with a reason, count as a drain of whoever set them.
"""

from __future__ import annotations

import dataclasses
import enum
import re
from collections.abc import Collection, Sequence

from contract import names, policies, reasons
from slurm_operator.state.resources import KeptDrain
from slurm_operator.state.slurm import Nodes, SlurmNode

UNKNOWN_AUTHOR = "somebody"
"""Shown in place of a user whose name slurmrestd does not know; `sinfo -R` in the jail has it."""
_KEPT_CHARACTERS = 200
"""Of a reason, so that a status with many of them stays small."""
_NODES_OWN = frozenset({"root", names.SLURM_USER})
"""Users as whom a node's pod calls Slurm. Administrators call as themselves, and Slurm refuses root of the jail."""


class Owner(enum.Enum):
    """The author and purpose of a drain; the value is the beginning of its reason."""

    SCALE_IN = reasons.SCALE_IN
    UPDATE = reasons.UPDATE
    K8S_NODE = reasons.NODE
    REPAIR = reasons.REPAIR
    NEW = reasons.NEW
    """The node's slurmd, as it registers."""
    LONG_CHECK = reasons.LONG_CHECK
    """The operator, for a long check. Passes of that check lift it, or a person: quick checks can't see the fault."""
    UNTESTED = reasons.UNTESTED
    """The operator, until a long check passes: the node is new or was repaired."""
    UNFIT = reasons.UNFIT
    """The node itself, which may also lift it at any moment."""
    SLURM = "refused"
    """Slurm, since the slurmd has less than the record promises, or since none came after `scontrol reboot ASAP`."""
    FOREIGN = "foreign"


_EXACT = {
    f"{owner.value}{end}": owner for owner in (Owner.SCALE_IN, Owner.UPDATE) for end in ("", reasons.DEADLINE_PASSED)
}
_HOLDS = frozenset({Owner.SCALE_IN, Owner.UPDATE, Owner.K8S_NODE, Owner.REPAIR})
"""Drains that the operator wrote, and alone lifts."""
_REPLACED_BY = {
    # Callers ask for one of these only when the present drain has no cause any more.
    Owner.K8S_NODE: {Owner.NEW, Owner.UNTESTED, Owner.UNFIT, Owner.SCALE_IN, Owner.UPDATE, Owner.REPAIR},
    Owner.NEW: _HOLDS | {Owner.UNTESTED},
    Owner.UNTESTED: {Owner.NEW, Owner.REPAIR, Owner.K8S_NODE, Owner.UNTESTED, Owner.SLURM},
    Owner.LONG_CHECK: {Owner.UNTESTED},
    Owner.REPAIR: {Owner.UNFIT},
    # A removal that was taken back may leave its drain on a node whose pod never came up.
    Owner.UPDATE: {Owner.NEW, Owner.UNTESTED, Owner.UNFIT, Owner.SLURM, Owner.REPAIR, Owner.SCALE_IN},
    Owner.SCALE_IN: {
        *(Owner.NEW, Owner.UNTESTED, Owner.UNFIT, Owner.SLURM, Owner.UPDATE, Owner.REPAIR, Owner.K8S_NODE),
    },
}
"""New drain → drains that it may replace."""


def owner(node: SlurmNode) -> Owner | None:
    """Return the owner of a node's drain; None if it carries none."""
    if not is_drained(node):
        return None
    if "FAIL" in node.states:
        return Owner.FOREIGN  # Neither Slurm nor this program sets it.
    reason, user = node.reason, node.reason_user
    if user == names.SLURM_USER:
        if reason in _EXACT:
            return _EXACT[reason]
        if reason.startswith((reasons.NODE, reasons.REPAIR)):
            return Owner.K8S_NODE if reason.startswith(reasons.NODE) else Owner.REPAIR
        if reason.startswith((reasons.LONG_CHECK, reasons.UNTESTED)):
            return Owner.LONG_CHECK if reason.startswith(reasons.LONG_CHECK) else Owner.UNTESTED
        if is_slurms_word(node):
            return Owner.SLURM
    if user in _NODES_OWN and reason == reasons.NEW:
        return Owner.NEW
    return Owner.UNFIT if user in _NODES_OWN and reason.startswith(reasons.UNFIT) else Owner.FOREIGN


def is_slurms_word(node: SlurmNode) -> bool:
    """Return whether Slurm itself wrote the reason: it refused the node, or no slurmd came after its reboot.

    A kept drain's words are none of these: Slurm also names itself as the author of a person's when it reboots a node.
    """
    is_slurms = node.reason_user == names.SLURM_USER and not node.replaced_by
    timed_out = node.reason == reasons.REBOOT_ASAP and not {"REBOOT_REQUESTED", "REBOOT_ISSUED"} & node.states
    refused = "INVALID_REG" in node.states and not node.reason.startswith(reasons.PREFIX)
    low = re.fullmatch(reasons.LOW, node.reason) is not None
    return is_slurms and (timed_out or refused or low)


def is_left_by_slurm(node: SlurmNode) -> bool:
    """Return whether the node's drain is Slurm's, and has no cause once its slurmd is there.

    Slurm takes a node that registers with all its GPUs, and leaves the drain for want of one (26.05,
    validate_node_specs). It also leaves that of a reboot that it gave up, if a ping is answered before a registration.
    """
    return owner(node) is Owner.SLURM and "INVALID_REG" not in node.states


def with_kept_words(nodes: Nodes, kept_drains: Sequence[KeptDrain]) -> Nodes:
    """Return a listing with the words and authors of kept drains in whose place Slurm has put its own.

    slurmctld does so when a node registers with less than its record (26.05, validate_node_specs). If not all drains
    could be kept, each such drain counts as a person's.
    """
    by_node = {drain.node: drain for drain in kept_drains}
    if len(kept_drains) >= policies.MOST_DRAINS_KEPT:
        by_node = {node.name: KeptDrain(node.name, node.reason, "") for node in nodes.values()} | by_node
    pairs = [(nodes[name], drain) for name, drain in by_node.items() if name in nodes]
    changed = {node.name: _with_words(node, drain) for node, drain in pairs if _stands_for(node, drain)}
    return {**nodes, **changed} if changed else nodes


def _stands_for(node: SlurmNode, drain: KeptDrain) -> bool:
    """Return whether Slurm's words are in the place of a kept drain's, or the operator has written those back."""
    written_back = (node.reason, node.reason_user) == (signed(drain), names.SLURM_USER)
    return _is_out(node) and (is_slurms_word(node) or written_back)


def _with_words(node: SlurmNode, drain: KeptDrain) -> SlurmNode:
    replaced_by = "" if node.reason == drain.reason else node.reason
    return dataclasses.replace(node, reason=drain.reason, reason_user=drain.user, replaced_by=replaced_by)


def kept(nodes: Collection[SlurmNode]) -> tuple[KeptDrain, ...]:
    """Return the drains of others, which stay theirs whatever Slurm writes in their place."""
    # DOWN while it is rebooted is Slurm's own word (scontrol reboot).
    down = {node.name for node in nodes if is_set_down(node) and "REBOOT_ISSUED" not in node.states}
    # That of `scontrol reboot ASAP` ends with the reboot, whether Slurm then takes the node or not.
    drained = {node.name for node in nodes if owner(node) is Owner.FOREIGN and node.reason != reasons.REBOOT_ASAP}
    others = (node for node in nodes if node.name in drained | down)
    drains = [KeptDrain(node.name, node.reason[:_KEPT_CHARACTERS], node.reason_user) for node in others]
    return tuple(drains[: policies.MOST_DRAINS_KEPT])


def signed(drain: KeptDrain) -> str:
    """Return a drain's reason with its author, as the operator writes it back in its own name."""
    return f"{drain.user or UNKNOWN_AUTHOR}: {drain.reason}"


def may_get_its_words_back(node: SlurmNode) -> bool:
    """Return whether Slurm's own words are the reason why a node is out of service."""
    return _is_out(node) and is_slurms_word(node)


def _is_out(node: SlurmNode) -> bool:
    return is_drained(node) or "DOWN" in node.states


def is_drained(node: SlurmNode) -> bool:
    """Return whether Slurm gives the node no new work, whatever its slurmd says: it is drained, or set to FAIL."""
    return "DRAIN" in node.states or "FAIL" in node.states


def is_held_for_repair(node: SlurmNode) -> bool:
    """Return whether a repair may build on the node's drain: this operator wrote it, and alone lifts it."""
    return owner(node) in (Owner.REPAIR, Owner.K8S_NODE)


def is_liftable(node: SlurmNode) -> bool:
    """Return whether the operator may lift the node's drain: its own, that of a new node, and Slurm's without cause.

    Slurm lifts no drain of a node that it refuses (26.05, _valid_node_state_change).
    """
    is_ours = owner(node) in _HOLDS | {Owner.NEW, Owner.UNTESTED}
    return (is_ours and "INVALID_REG" not in node.states) or is_left_by_slurm(node)


def is_operators(node: SlurmNode) -> bool:
    """Return whether the operator wrote the node's drain, and alone lifts it."""
    return owner(node) in _HOLDS


def is_anothers(node: SlurmNode) -> bool:
    """Return whether a person took the node out of service (drain, FAIL, DOWN), or a long check: others leave it so."""
    if is_drained(node):
        return owner(node) in (Owner.FOREIGN, Owner.LONG_CHECK)
    by_us = node.reason.startswith(reasons.PREFIX) and node.reason_user in _NODES_OWN
    silent = node.reason in ("", reasons.NOT_RESPONDING, reasons.REBOOT_TIMED_OUT) or by_us or is_slurms_word(node)
    return "DOWN" in node.states and not silent


def is_by_person(node: SlurmNode) -> bool:
    """Return whether a person took the node out of service and so knows of it; Slurm itself may have done so, too.

    slurmrestd gives no name for an id that its pod does not know, as most users' is: only the jail has them.
    """
    is_by_slurm = node.reason_user == names.SLURM_USER and node.reason != reasons.REBOOT_COMPLETE
    return is_anothers(node) and not is_by_slurm and bool(node.reason_user or node.reason)


def is_held(node: SlurmNode) -> bool:
    """Return whether the node takes no jobs until the operator or a person lifts its drain; False for its own drain."""
    return is_drained(node) and owner(node) not in (Owner.UNFIT, Owner.NEW)


def is_set_down(node: SlurmNode) -> bool:
    """Return whether others set the node DOWN: Slurm lifts that when its slurmd registers (ReturnToService=2)."""
    return is_anothers(node) and not is_drained(node)


def may_return_by_itself(node: SlurmNode) -> bool:
    """Return whether a person set the node DOWN, and Slurm would lift that."""
    return is_by_person(node) and is_set_down(node)


def repair_reason(node: SlurmNode) -> str:
    """The reason of the operator's drain for the repair of a node that drained itself."""
    return reasons.REPAIR + node.reason.removeprefix(reasons.PREFIX)


def fault(node: SlurmNode) -> str:
    """Return why a node is to be repaired, as it was said first: by the node itself, or for its Kubernetes node."""
    is_taken_over = owner(node) is Owner.REPAIR
    return reasons.PREFIX + node.reason.removeprefix(reasons.REPAIR) if is_taken_over else node.reason


def is_at_fault(node: SlurmNode) -> bool:
    """Return whether the node drained itself for its hardware's sake."""
    return owner(node) in (Owner.UNFIT, Owner.REPAIR) and fault(node).startswith(reasons.HARDWARE)


def may_become(node: SlurmNode, reason: str) -> bool:
    """Return whether a drain may get another reason of ours; callers ask only when the present one has no cause."""
    wanted = _EXACT.get(reason) or next(
        (other for other in _REPLACED_BY if reason.startswith(other.value)), Owner.FOREIGN
    )
    same_fault = wanted is not Owner.REPAIR or reason == repair_reason(node)
    return owner(node) in _REPLACED_BY.get(wanted, ()) and same_fault


def may_be_drained(node: SlurmNode, reason: str) -> bool:
    """Return whether the node may get a drain of ours: it serves, or its present drain is ours without a cause."""
    if is_drained(node) or reason.startswith(reasons.REPAIR):
        return may_become(node, reason)
    return not is_anothers(node)
