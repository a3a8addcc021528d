"""Checks how often the pod's interfaces lost their link."""

from contract import reasons
from node_health import thresholds
from node_health.check import Check, Machine
from node_health.sources import interfaces
from node_health.sources.interfaces import Interfaces
from node_health.verdict import Action, Finding, passes, warns


def judge(seen: Interfaces, machine: Machine) -> Finding:
    """WARNING when that happens often."""
    most = thresholds.of().number("network.flaps")
    if bad := [adapter.name for adapter in seen.all if seen.grew.per_hour(f"{adapter.name} losses") > most]:
        return warns(f"the link was lost more than {most:g} times an hour: {', '.join(bad)}", Action.CHECK_MECHANICALS)
    return passes(
        f"{sum(seen.grew.by.get(f'{adapter.name} losses', 0) for adapter in seen.all)} losses of a link lately"
    )


CHECK = Check(
    reasons.Check.LINK_FLAPS,
    interfaces.look,
    judge,
    fails="",
    warns="an interface often loses its link",
    remedy="replace the cable or transceiver; look at the switch's port",
)
