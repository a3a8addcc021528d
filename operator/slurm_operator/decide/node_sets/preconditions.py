"""Preconditions of actions: the operator looks at them once more right before it makes the change."""

from __future__ import annotations

from collections.abc import Iterable

from contract import reasons
from slurm_operator import actions, drains
from slurm_operator.decide.node_sets import window
from slurm_operator.decide.nodes import reservations, slurm_nodes
from slurm_operator.drains import Owner
from slurm_operator.state.slurm import Reservation, SlurmNode


def hold(decided: actions.NodeAction, now: SlurmNode) -> bool:
    """Return whether the node's record still allows the action."""
    match decided:
        case actions.Drain(reason=reason):
            return drains.may_be_drained(now, reason)
        case actions.DrainDown():
            # Slurm's own words may stand in the place of a person's (drains.with_kept_words).
            return drains.is_set_down(now) or (drains.may_get_its_words_back(now) and not drains.is_drained(now))
        case actions.Undrain():
            return drains.is_liftable(now)
        case actions.UndrainReserved(reason=reason):
            ours = drains.owner(now) in (Owner.LONG_CHECK, Owner.UNTESTED) and now.reason == reason
            return ours and not slurm_nodes.has_work(now)
        case actions.RestoreReason():
            return drains.may_get_its_words_back(now)
        case actions.DeleteRecord(anothers=anothers, started=started):
            is_same = started in (None, now.started)
            return is_same and _is_still_out(now) and (anothers or not drains.is_anothers(now))
        case actions.RequeueJobs():
            return now.reason in (reasons.SCALE_IN, reasons.UPDATE) and drains.is_operators(now)
        case actions.UpdateNode(features=features, weight=weight, topology=topology):
            others = features is not None and now.features != frozenset(features)
            return others or weight not in (None, now.weight) or topology not in (None, now.topology)
        case actions.Comment():
            return not now.comment or now.comment.startswith(reasons.NODE)


def _is_still_out(node: SlurmNode) -> bool:
    """Return whether a node without a pod is out of service and idle: its next pod may have registered meanwhile.

    An external node of that name is somebody else's.
    """
    is_out = drains.is_drained(node) or "DOWN" in node.states
    return is_out and not slurm_nodes.has_work(node) and "EXTERNAL" not in node.states


def reservation_holds(decided: actions.ReservationAction, there: Iterable[Reservation]) -> bool:
    """Return whether the name of a new reservation is free, or if the reservation to change is ours."""
    if isinstance(decided, actions.Reserve):
        return all(reservation.name.lower() != decided.name for reservation in there)
    named = [reservation for reservation in there if reservation.name == decided.name]
    return any(window.is_ours(reservation) or reservations.is_for_retry(reservation) for reservation in named)


def is_reserved(decided: actions.UndrainReserved, there: Iterable[Reservation]) -> bool:
    """Return whether our reservation keeps other jobs from the node."""
    named = (reservation for reservation in there if reservation.name == decided.reservation)
    return any(reservations.is_for_retry(reservation) and decided.node in reservation.nodes for reservation in named)


def pod_may_end(decided: actions.DeletePod, now: SlurmNode | None) -> bool:
    """Return whether a node is still idle, under the drain for which its pod was to be deleted."""
    is_for_update = decided.purpose is actions.Purpose.UPDATE
    if now is None:
        return is_for_update  # An update may replace a pod that never registered; a repair begins from a record.
    if decided.purpose is actions.Purpose.REBOOT:
        return slurm_nodes.may_reboot(now)
    ours = drains.owner(now) is Owner.UPDATE if is_for_update else drains.is_held_for_repair(now)
    same = is_for_update or drains.fault(now) == decided.why
    return ours and same and slurm_nodes.may_restart(now)
