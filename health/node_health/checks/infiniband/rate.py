"""Checks rate and width of active ports: all alike, and as fast as the product's fabric."""

from dataclasses import dataclass

from contract import reasons
from node_health import thresholds
from node_health.check import Applies, CannotJudgeError, Check, Machine
from node_health.sources import infiniband, product
from node_health.sources.infiniband import Adapters
from node_health.verdict import Action, Finding, fails, passes, warns

WIDTH = 4
"""Lanes of a host's port; one lane less is a broken cable or transceiver."""


@dataclass(frozen=True, slots=True)
class Fabric:
    """The adapters, and the product of the machine's GPUs; empty: nobody says."""

    adapters: Adapters
    product: str


def look(machine: Machine) -> Fabric:
    """Reads the adapters, and the product's name: empty where the driver shows none."""
    try:
        return Fabric(machine.once(infiniband.look), product.look(machine))
    except CannotJudgeError:
        return Fabric(machine.once(infiniband.look), "")


def judge(fabric: Fabric, machine: Machine) -> Finding:
    """FAIL when a port is slower than another one of this node, WARNING when all are slower than the product's."""
    ports = fabric.adapters.active
    best = max(port.rate for port in ports)
    if slow := [f"{port} has {port.rate:g} Gb/s, others {best:g}" for port in ports if port.rate < best]:
        return fails("; ".join(slow), Action.CHECK_MECHANICALS)
    if narrow := [f"{port} has {port.width} lanes" for port in ports if port.width and port.width < WIDTH]:
        return fails("; ".join(narrow), Action.CHECK_MECHANICALS)
    if not fabric.product:
        if len(ports) < 2:
            raise CannotJudgeError(f"nobody knows how fast {ports[0]} should be")
        return passes(f"{len(ports)} ports at {best:g} Gb/s")
    least = thresholds.of(fabric.product).number("infiniband.rate")
    if best < least:
        return warns(f"ports have {best:g} Gb/s, with {fabric.product} {least:g} Gb/s are usual")
    return passes(f"{len(ports)} ports at {best:g} Gb/s")


CHECK = Check(
    reasons.Check.IB_RATE,
    look,
    judge,
    fails="a port is slower than another one of the node, or lost a lane",
    warns="all ports are slower than usual with these GPUs",
    remedy="look at cable, transceiver and switch port",
    applies=Applies.RDMA,
)
