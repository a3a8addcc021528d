"""Checks that interfaces run at full speed: as fast as their equals, in both directions at once."""

from contract import reasons
from node_health.check import Check, DoesNotApplyError, Machine
from node_health.sources import interfaces
from node_health.sources.interfaces import Interface, Interfaces
from node_health.verdict import Action, Finding, passes, warns


def judge(seen: Interfaces, machine: Machine) -> Finding:
    """WARNING when one is slower."""
    if not (known := [interface for interface in seen.all if interface.speed]):
        raise DoesNotApplyError("the pod's interfaces are virtual ones, without a speed")
    slow = [f"{interface.name} runs at half duplex" for interface in known if interface.half_duplex]
    for group in interfaces.kin(seen).values():
        slow += _slower(group)
    if slow:
        return warns("; ".join(slow), Action.CHECK_MECHANICALS)
    return passes(", ".join(f"{interface.name} {interface.speed} Mb/s" for interface in known))


def _slower(group: list[Interface]) -> list[str]:
    best = max((interface.speed or 0 for interface in group), default=0)
    return [
        f"{interface.name} has {interface.speed} Mb/s, others {best} Mb/s"
        for interface in group
        if interface.speed and interface.speed < best
    ]


CHECK = Check(
    reasons.Check.NETWORK_SPEED,
    interfaces.look,
    judge,
    fails="",
    warns="an interface is slower than others of its kind, or runs at half duplex",
    remedy="look at the cable and the switch's port",
)
