"""Checks that the pod's interfaces have a link."""

from contract import reasons
from node_health.check import Check, Machine
from node_health.sources import interfaces
from node_health.sources.interfaces import Interfaces
from node_health.verdict import Action, Finding, fails, passes


def judge(seen: Interfaces, machine: Machine) -> Finding:
    """FAIL when one that is up has none."""
    if down := [interface.name for interface in seen.all if not interface.carrier]:
        return fails(f"no link: {', '.join(down)}", Action.CHECK_MECHANICALS)
    return passes(f"{', '.join(interface.name for interface in seen.all)} have a link")


CHECK = Check(
    reasons.Check.NETWORK_STATE,
    interfaces.look,
    judge,
    fails="an interface that is up has no link",
    warns="",
    remedy="look at the cable and the switch's port",
)
