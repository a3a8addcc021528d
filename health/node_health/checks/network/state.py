"""Checks that the pod's interfaces are there and have a link."""

from contract import reasons
from node_health.check import Check, Machine
from node_health.sources import interfaces
from node_health.sources.interfaces import Interfaces
from node_health.verdict import Action, Finding, fails, passes


def judge(seen: Interfaces, machine: Machine) -> Finding:
    """FAIL when one that is up has none, or one is gone: the machine lost its adapter."""
    if seen.gone:
        return fails(f"gone since this pod began: {', '.join(seen.gone)}", Action.RESTART_BM)
    if down := [interface.name for interface in seen.all if not interface.carrier]:
        return fails(f"no link: {', '.join(down)}", Action.CHECK_MECHANICALS)
    return passes(f"{', '.join(interface.name for interface in seen.all)} have a link")


CHECK = Check(
    reasons.Check.NETWORK_STATE,
    interfaces.look,
    judge,
    fails="an interface that is up has no link, or one is gone since the pod began",
    warns="",
    remedy="look at the cable and the switch's port; for an adapter that the machine lost (`lspci`)",
)
