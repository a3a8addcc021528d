"""Checks how many packets the pod's interfaces receive or send with errors."""

from contract import reasons
from node_health import thresholds
from node_health.check import Check, Machine
from node_health.sources import interfaces
from node_health.sources.interfaces import Interfaces
from node_health.verdict import Action, Finding, passes, warns

LEAST_PACKETS = 10_000
"""With fewer packets one error would be a high rate."""


def judge(seen: Interfaces, machine: Machine) -> Finding:
    """WARNING at a high rate."""
    most = thresholds.of().number("network.errors")
    errors = {interface.name: seen.grew.count(f"{interface.name} errors") for interface in seen.all}
    packets = {name: max(LEAST_PACKETS, seen.grew.count(f"{name} packets")) for name in errors}
    if bad := [name for name, count in errors.items() if count * 1e6 > most * packets[name]]:
        return warns(f"more than {most:g} errors in a million packets: {', '.join(bad)}", Action.CHECK_MECHANICALS)
    return passes(f"{sum(errors.values())} errors lately")


CHECK = Check(
    reasons.Check.NETWORK_ERRORS,
    interfaces.look,
    judge,
    fails="",
    warns="an interface has many packets with errors",
    remedy="look at the cable and the switch's port",
)
