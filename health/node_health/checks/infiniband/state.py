"""Checks that the ports of RDMA adapters are active."""

from contract import reasons
from node_health.check import Applies, CannotJudgeError, Check, Machine
from node_health.sources import infiniband
from node_health.sources.infiniband import Adapters
from node_health.verdict import Action, Finding, fails, passes, warns


def judge(adapters: Adapters, machine: Machine) -> Finding:
    """FAIL when an adapter has no active port; WARNING when only one of its ports is not, as without a cable."""
    if not adapters.names:
        raise CannotJudgeError("no adapter")
    active = {port.adapter for port in adapters.ports if port.is_active}
    down = [f"{port} is {port.state} ({port.physical})" for port in adapters.ports if not port.is_active]
    if dead := [name for name in adapters.names if name not in active]:
        return fails(f"no active port: {', '.join(dead)}; {', '.join(down)}", Action.CHECK_MECHANICALS)
    if down:
        return warns(", ".join(down), Action.CHECK_MECHANICALS)
    return passes(f"{len(adapters.ports)} ports are active")


CHECK = Check(
    reasons.Check.IB_STATE,
    infiniband.look,
    judge,
    fails="an adapter has no active port",
    warns="a port of an adapter is not active, and another one is",
    remedy="look at cable, transceiver, switch port and subnet manager",
    applies=Applies.RDMA,
)
