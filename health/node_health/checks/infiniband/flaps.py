"""Checks how often RDMA ports lost their link."""

from contract import reasons
from node_health import thresholds
from node_health.check import Applies, CannotJudgeError, Check, Machine
from node_health.sources import infiniband
from node_health.sources.infiniband import Adapters
from node_health.verdict import Action, Finding, fails, passes


def judge(adapters: Adapters, machine: Machine) -> Finding:
    """FAIL when that happens often: each loss ends the jobs that communicate. UNKNOWN when the counter is full."""
    if not adapters.ports:
        raise CannotJudgeError("no adapter")
    most = thresholds.of().number("infiniband.flaps")
    ports = adapters.counting(adapters.ports, "losses")
    if bad := [str(port) for port in ports if adapters.grew.per_hour(f"{port} losses") > most]:
        return fails(f"the link was lost more than {most:g} times an hour: {', '.join(bad)}", Action.CHECK_MECHANICALS)
    if full := [str(port) for port in ports if infiniband.LOSSES in port.full]:
        raise CannotJudgeError(f"the counter of losses is full (perfquery -R empties it): {', '.join(full)}")
    return passes(f"{sum(adapters.grew.by[f'{port} losses'] for port in ports)} losses lately")


CHECK = Check(
    reasons.Check.IB_FLAPS,
    infiniband.look,
    judge,
    fails="a port often loses its link",
    warns="",
    remedy="replace the cable or transceiver; look at the switch's port",
    applies=Applies.RDMA,
)
