"""Changes of Slurm's records of nodes, and of reservations."""

from __future__ import annotations

import logging

from contract import reasons
from slurm_operator import actions, drains, metrics
from slurm_operator.clients.lease import Lease
from slurm_operator.clients.slurm.slurmrestd import SlurmRest
from slurm_operator.decide.node_sets import deletion, preconditions
from slurm_operator.decide.nodes import reservations, slurm_nodes
from slurm_operator.drains import Owner
from slurm_operator.findings import shown
from slurm_operator.state.slurm import SlurmJob, SlurmNode, Unknown

log = logging.getLogger(__name__)

_PURPOSES = {
    reasons.SCALE_IN: "it is to be removed",
    reasons.UPDATE: "it is to be updated",
    reasons.NEW: "it stays, and is to be seen to work",
}
_GIVEN_BACK: dict[Owner | None, str] = {
    Owner.UPDATE: "it waits for no update any more",
    Owner.K8S_NODE: "its Kubernetes node may be used again",
    Owner.REPAIR: "its pod is ready again",
    Owner.NEW: "it is new and works",
    Owner.SLURM: "Slurm takes it again",
    Owner.UNTESTED: "no long check is declared any more that comes before its jobs",
}


class SlurmRecords:
    """The records of nodes in slurmctld, and its reservations."""

    def __init__(self, lease: Lease) -> None:
        self._lease = lease

    async def change_node(
        self, rest: SlurmRest, decided: actions.NodeAction, jobs: tuple[SlurmJob, ...] | Unknown
    ) -> str:
        """Change Slurm's record of a node, if it still is as the decision took it to be."""
        name, now = decided.node, await rest.node(decided.node)
        if now is None or not preconditions.hold(decided, now):
            return ""
        if isinstance(decided, actions.RequeueJobs) and await _is_early(rest, decided, now):
            return ""
        self._lease.check()
        match decided:
            case actions.Drain(reason=reason):
                await rest.drain(name, reason)
                short = reason.removeprefix(reasons.PREFIX)
                metrics.DRAINS.labels(short.partition(" ")[0]).inc()
                return f"drained {name}: {_PURPOSES.get(reason) or short}"
            case actions.DrainDown():
                await rest.keep_out(name)
                who = now.reason_user or drains.UNKNOWN_AUTHOR
                return f"drained {name} under the reason of {who}, who set it DOWN: {now.reason}"
            case actions.Undrain():
                await rest.undrain(name)
                return f"undrained {name}: {_GIVEN_BACK.get(drains.owner(now), 'it stays as it is')}"
            case actions.UndrainReserved(reservation=reservation):
                if not preconditions.is_reserved(decided, await rest.reservations()):
                    return ""
                self._lease.check()
                await rest.undrain(name)
                return f"undrained {name} for the jobs of its long check alone (reservation {reservation})"
            case actions.RestoreReason(reason=reason):
                await rest.give_reason(name, reason)
                return f"gave {name} the reason of its drain back ({reason}), where Slurm had put {now.reason}"
            case actions.DeleteRecord():
                await rest.delete_node(name)
                return f"deleted Slurm's record of {name}: its pod is gone"
            case actions.RequeueJobs():
                await rest.take_down(name, f"{now.reason}{reasons.DEADLINE_PASSED}")
                return f"took the jobs of {name}, its deadline has passed: {deletion.fates(jobs, name)}"
            case actions.UpdateNode(features=features, weight=weight, topology=topology):
                await rest.update_node(name, features, weight, topology)
                said = [f"features {','.join(features)}"] if features is not None else []
                said += [] if weight is None else [f"weight {weight}"]
                said += [] if topology is None else [f"topology {topology or 'none'}"]
                return f"gave {name} what its node set declares: {', '.join(said)}"
            case actions.Comment(text=text):
                await rest.comment(name, text)
                return f"commented on {name}: {text}" if text else f"took the comment on {name} away"

    async def change_reservation(self, rest: SlurmRest, decided: actions.ReservationAction) -> str:
        """Change a reservation of the operator's, unless somebody else has one of that name."""
        name = decided.name
        if not preconditions.reservation_holds(decided, await rest.reservations()):
            return ""
        self._lease.check()
        match decided:
            case actions.Reserve(nodes=nodes, starts=starts, ends=ends):
                await rest.reserve(name, nodes, starts, ends, decided.user, decided.flags)
                if reservations.is_for_retry(decided):
                    return f"reserved {shown(nodes)} to try it again ({name})"
                times = f"{starts:%Y-%m-%d %H:%M} to {ends:%Y-%m-%d %H:%M} UTC"
                return f"reserved {shown(nodes)} for updates: {times} ({name})"
            case actions.ChangeReservation(nodes=nodes, ends=ends):
                await rest.change_reservation(name, nodes, ends, decided.starts)
                return f"changed reservation {name}: {shown(nodes)}, until {ends:%Y-%m-%d %H:%M} UTC"
            case actions.EndReservation(why=why):
                await rest.end_reservation(name)
                return f"deleted reservation {name}: {why}"


async def _is_early(rest: SlurmRest, decided: actions.RequeueJobs, now: SlurmNode) -> bool:
    """Return whether the deadline is still to come by slurmctld's clock, which set the time of the drain."""
    end, told = slurm_nodes.deadline(now, decided.seconds, now.reason), await rest.time_there()
    if told is None or end is None or told >= end:
        return False
    log.warning("clocks differ: slurmctld's says %s, the deadline of %s is %s", told, now.name, end)
    return True
