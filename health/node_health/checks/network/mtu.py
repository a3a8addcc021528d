"""Checks that interfaces of one kind have one MTU: a smaller one on one rail slows or breaks its traffic."""

from contract import reasons
from node_health.check import Check, Machine
from node_health.sources import interfaces
from node_health.sources.interfaces import Interfaces
from node_health.verdict import Finding, passes, warns

LEAST = 1280
"""Smallest MTU of IPv6 (RFC 8200, section 5)."""


def judge(seen: Interfaces, machine: Machine) -> Finding:
    """WARNING when they differ, or one is too small for IPv6."""
    bad = [f"{interface.name} has {interface.mtu}" for interface in seen.all if interface.mtu < LEAST]
    for group in interfaces.kin(seen).values():
        sizes = {interface.mtu for interface in group}
        bad += [
            f"{interface.name} has {interface.mtu}, others {max(sizes)}"
            for interface in group
            if interface.mtu < max(sizes)
        ]
    if bad:
        return warns(f"MTU: {'; '.join(bad)}")
    return passes(", ".join(f"{interface.name} {interface.mtu}" for interface in seen.all))


CHECK = Check(
    reasons.Check.NETWORK_MTU,
    interfaces.look,
    judge,
    fails="",
    warns="an interface has a smaller MTU than others of its kind, or less than 1280",
    remedy="set the same MTU on the Kubernetes node's interfaces and in the network's definition",
)
