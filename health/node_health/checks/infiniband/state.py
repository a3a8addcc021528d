"""Checks that the ports of RDMA adapters are active."""

from contract import reasons
from node_health.check import Applies, CannotJudgeError, Check, Machine
from node_health.sources import infiniband
from node_health.sources.infiniband import Adapters
from node_health.verdict import Action, Finding, fails, passes, warns


def judge(adapters: Adapters, machine: Machine) -> Finding:
    """FAIL when an adapter lost its last active port, or fewer work than declared; WARNING for ports without a cable.

    Machines have adapters that nobody uses, and the pod may open them with the others of their pool. Nobody plugged a
    cable in where a port finds no other one, and never did since the boot. If somebody declared how many adapters work,
    that number alone decides.
    """
    if not adapters.names:
        raise CannotJudgeError("no adapter")
    active = {port.adapter for port in adapters.ports if port.is_active}
    down = [f"{port} is {port.state} ({port.physical})" for port in adapters.ports if not port.is_active]
    unused = {port.adapter for port in adapters.ports if port.is_unused and active}
    unused -= {port.adapter for port in adapters.ports if not port.is_unused}
    dead = [name for name in adapters.names if name not in active | unused]
    if dead and not machine.declared.rdma_adapters:
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
    fails="fewer adapters work than `network.rdma.adapters`. Without that: fewer than `count`, or one lost its last "
    "active port since the boot",
    warns="a port is not active, and that is no failure",
    remedy="look at cable, transceiver, switch port and subnet manager",
    applies=Applies.RDMA,
)
