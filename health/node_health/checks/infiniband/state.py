"""Checks that the ports of RDMA adapters are active."""

from contract import reasons
from node_health.check import Applies, CannotJudgeError, Check, Machine
from node_health.sources import infiniband
from node_health.sources.infiniband import Adapters
from node_health.verdict import Action, Finding, fails, passes, warns


def judge(adapters: Adapters, machine: Machine) -> Finding:
    """FAIL when an adapter lost its last active port, or fewer work than declared; WARNING for ports without a cable.

    Machines have adapters that nobody uses, and the pod may open them with the others of their pool. Nobody plugged a
    cable in where a port finds no other one, and never did since the boot.
    """
    if not adapters.names:
        raise CannotJudgeError("no adapter")
    active = {port.adapter for port in adapters.ports if port.is_active}
    down = [f"{port} is {port.state} ({port.physical})" for port in adapters.ports if not port.is_active]
    unused = {port.adapter for port in adapters.ports if port.is_unused and active}
    unused -= {port.adapter for port in adapters.ports if not port.is_unused}
    if dead := [name for name in adapters.names if name not in active | unused]:
        return fails("; ".join((f"no active port: {', '.join(dead)}", *down)), Action.CHECK_MECHANICALS)
    if len(active) < (least := machine.declared.working_adapters(len(adapters.names))):
        told = f"{len(active)} adapters with an active port, {least} declared"
        return fails("; ".join((told, *down)), Action.CHECK_MECHANICALS)
    if down:
        return warns(", ".join(down), Action.CHECK_MECHANICALS)
    return passes(f"{len(adapters.ports)} ports are active")


CHECK = Check(
    reasons.Check.IB_STATE,
    infiniband.look,
    judge,
    fails="an adapter lost its last active port since the boot, or fewer work than `network.rdma.adapters`",
    warns="a port is not active and never was since the boot, or another one of its adapter is active",
    remedy="look at cable, transceiver, switch port and subnet manager",
    applies=Applies.RDMA,
)
