"""Checks rate and width of active ports: all alike, and as fast as the product's fabric."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from contract import reasons
from node_health import thresholds
from node_health.check import Applies, CannotJudgeError, Check, Machine
from node_health.sources import infiniband, product
from node_health.sources.infiniband import Adapters, Port
from node_health.verdict import Action, Finding, fails, passes, warns

WIDTH = 4
"""Lanes of a host's port in InfiniBand; one lane less is a broken cable or transceiver."""
SPLIT_WIDTH, SPLIT = 2, frozenset({"HDR", "NDR", "XDR"})
"""Lanes of a port behind a split cable, such as HDR100 or NDR200, and the signaling that has such cables. (NVIDIA,
InfiniBand Cluster Bring-up Procedure, "Configuring a Split Port".) An Ethernet port has as many as its speed needs."""


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
    """FAIL when one port is slower than its equals here, or lost lanes. WARNING when several or all are slower.

    Several at one rate have a slower switch, such as that of the storage. So may one have that is beyond the adapters
    which the node needs: those that are declared, or one for each GPU. What is usual is InfiniBand's: clouds have
    Ethernet and adapters of their own at many rates.
    """
    ports = fabric.adapters.active
    groups = _equals(ports)
    slow = [told for group in groups for told in _slower(group)]
    short = [told for group in groups if not _has_enough(group, machine) for told in _slower(group)]
    if single := [words for told in short if len(told) == 1 for words in told]:
        return fails("; ".join(single), Action.CHECK_MECHANICALS)
    if narrow := [f"{port} has {port.width} lanes" for port in ports if _is_narrow(port)]:
        return fails("; ".join(narrow), Action.CHECK_MECHANICALS)
    if together := [words for told in slow for words in told]:
        return warns("; ".join(together), Action.CHECK_MECHANICALS)
    best = max(port.rate for port in ports)
    known = thresholds.of(fabric.product)
    if fabric.product and any(port.is_infiniband for port in ports):
        if best < (least := known.number("infiniband.rate")):
            return warns(f"ports have {best:g} Gb/s, with {fabric.product} {least:g} Gb/s are usual")
    elif best < (known.numbers.get("infiniband.rate") or math.inf) and (alone := _alone(groups, best)):
        raise CannotJudgeError(f"nobody knows how fast {alone[0]} should be")
    return passes(f"{len(ports)} ports at {best:g} Gb/s")


def _equals(ports: Sequence[Port]) -> list[list[Port]]:
    """Returns the ports that should be equal, together: those of one kind of board. Others may be for storage."""
    groups: dict[tuple[str, bool], list[Port]] = {}
    for port in ports:
        groups.setdefault((port.board, port.is_infiniband), []).append(port)
    return list(groups.values())


def _has_enough(group: Sequence[Port], machine: Machine) -> bool:
    """Returns whether as many ports of a group are fast as the node needs adapters, as far as anybody knows."""
    best, needed = max(port.rate for port in group), machine.declared.rdma_adapters or machine.declared.gpus
    return 0 < needed <= sum(port.rate == best for port in group)


def _slower(group: Sequence[Port]) -> list[list[str]]:
    """Returns what to say of ports that are slower than the fastest of the group, those of one rate together."""
    best = max(port.rate for port in group)
    told: dict[float, list[str]] = {}
    for port in group:
        if port.rate < best:
            told.setdefault(port.rate, []).append(f"{port} has {port.rate:g} Gb/s, others {best:g}")
    return list(told.values())


def _alone(groups: Sequence[Sequence[Port]], best: float) -> list[Port]:
    """Returns the ports without an equal, unless they are as fast as another one."""
    return [group[0] for group in groups if len(group) == 1 and (len(groups) == 1 or group[0].rate < best)]


def _is_narrow(port: Port) -> bool:
    least = SPLIT_WIDTH if port.signal in SPLIT else WIDTH
    return port.is_infiniband and port.width is not None and port.width < least


CHECK = Check(
    reasons.Check.IB_RATE,
    look,
    judge,
    fails="one port is slower than others of the same kind of board, and fewer of these are fast than "
    "`network.rdma.adapters`, or GPUs; or an InfiniBand port lost a lane",
    warns="other ports are slower than others of the same kind of board, or all than usual with InfiniBand and these "
    "GPUs",
    remedy="look at cable, transceiver and switch port",
    applies=Applies.RDMA,
)
