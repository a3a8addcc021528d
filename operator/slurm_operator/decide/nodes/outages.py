"""Outages of nodes: from the drain for a fault until the node takes jobs again, with the times that led to it.

A drain by a person, for an update, a removal, a cordon or a taint begins none. One that follows a fault is a part of
its outage: the node is still out of service.
"""

from __future__ import annotations

import datetime
import enum
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import msgspec

from contract import reasons
from slurm_operator import drains
from slurm_operator.decide.nodes import notes, slurm_nodes
from slurm_operator.drains import Owner
from slurm_operator.state.slurm import Nodes, SlurmNode

MOST_ENDED = 50
"""Outages that are over and still known, the latest."""
MOST_OPEN = 200
"""Outages that the status has while they last, those that began last."""
LONGEST_REASON = 200
KUBERNETES = "kubernetes node"
"""Stands for a check's name when the Kubernetes node is at fault."""
_BY_PEOPLE = re.compile(r" is (cordoned|tainted)\b")


class Span(enum.Enum):
    """A measured time."""

    DETECT = "detect"
    """From the last run in which the check did not fail to the first one in which it failed: the fault is younger."""
    DRAIN = "drain"
    """From that run to the drain."""
    REPAIR = "repair"
    """From the drain to the moment at which the node took jobs again."""


class Outage(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """A node that was drained for a fault, as status.outages has it.

    Attributes:
        node: its name.
        check: the check that failed first.
        reason: of the first drain.
        since: when that was set.
        detect_seconds: `Span.DETECT`; None as long as nobody knows.
        drain_seconds: `Span.DRAIN`; None as long as nobody knows.
        until: when the node took jobs again; None while it does not.
    """

    node: str
    check: str
    reason: str
    since: datetime.datetime
    detect_seconds: int | None = None
    drain_seconds: int | None = None
    until: datetime.datetime | None = None


def follow(
    before: Iterable[Outage], nodes: Nodes, is_wanted: Callable[[str], bool], now: datetime.datetime
) -> tuple[Outage, ...]:
    """Return the outages after a look at the nodes: those that ended first, each group by its time.

    Args:
        before: those that are known.
        nodes: Slurm's nodes.
        is_wanted: whether a node without a record is to come back. The outage of another one is forgotten.
        now: the time of the look.
    """
    known = list(before)
    lasting = {outage.node: outage for outage in known if outage.until is None}
    ended = [outage for outage in known if outage.until]
    now_open = []
    for outage in lasting.values():
        node = nodes.get(outage.node)
        if node is not None and slurm_nodes.is_usable(node):
            ended.append(msgspec.structs.replace(outage, until=max(now, outage.since)))
        elif node is not None:
            now_open.append(_measured(outage, node))
        elif is_wanted(outage.node):
            now_open.append(outage)
    for node in nodes.values():
        check = fault_of(node) if node.name not in lasting else ""
        if check:
            reason = drains.fault(node).removeprefix(reasons.PREFIX)[:LONGEST_REASON]
            now_open.append(_measured(Outage(node.name, check, reason, node.reason_set or now), node))
    ended.sort(key=lambda outage: (outage.until, outage.node))
    now_open.sort(key=lambda outage: (outage.since, outage.node))
    return (*ended[-MOST_ENDED:], *now_open)


def fault_of(node: SlurmNode) -> str:
    """Return the check for whose fault a node is drained; empty if it is not drained for one."""
    owner, fault = drains.owner(node), drains.fault(node).removeprefix(reasons.PREFIX)
    if owner is Owner.K8S_NODE:
        return "" if _BY_PEOPLE.search(fault) else KUBERNETES
    if owner not in (Owner.UNFIT, Owner.REPAIR, Owner.LONG_CHECK):
        return ""
    if not drains.fault(node).startswith(reasons.HEALTH):
        return reasons.Check.JAIL if drains.fault(node).startswith(reasons.JAIL) else KUBERNETES
    return fault.removeprefix("health ").partition(": ")[0]


def measured(before: Iterable[Outage], after: Iterable[Outage]) -> Iterator[tuple[Span, str, float]]:
    """Return what a look has measured: a span, the check, and seconds.

    Args:
        before: the outages as they were known.
        after: the same after `follow`.
    """
    known = {(outage.node, outage.since): outage for outage in before}
    for outage in after:
        was = known.get((outage.node, outage.since))
        if outage.detect_seconds is not None and (was is None or was.detect_seconds is None):
            yield Span.DETECT, outage.check, outage.detect_seconds
        if outage.drain_seconds is not None and (was is None or was.drain_seconds is None):
            yield Span.DRAIN, outage.check, outage.drain_seconds
        if outage.until and (was is None or was.until is None):
            yield Span.REPAIR, outage.check, (outage.until - outage.since).total_seconds()


def read(rows: Iterable[Mapping[str, Any]]) -> tuple[Outage, ...]:
    """Read status.outages."""
    return msgspec.convert(rows, tuple[Outage, ...])


def written(outages: Iterable[Outage]) -> list[dict[str, Any]]:
    """Return status.outages: the latest that are over, and those that began last of the others."""
    known = list(outages)
    lasting = [outage for outage in known if outage.until is None][-MOST_OPEN:]
    rows: list[dict[str, Any]] = msgspec.to_builtins([*(outage for outage in known if outage.until), *lasting])
    return rows


def _measured(outage: Outage, node: SlurmNode) -> Outage:
    """Return an outage with the times that its node has noted."""
    note = notes.read(node.extra)
    if outage.drain_seconds is not None or note.check != outage.check or note.first_failed is None:
        return outage
    detect = _seconds(note.well, note.first_failed) if note.well else None
    drain = _seconds(note.first_failed, outage.since)
    return msgspec.structs.replace(outage, detect_seconds=detect, drain_seconds=drain)


def _seconds(begin: datetime.datetime, end: datetime.datetime) -> int:
    """Return a span in seconds; 0 where the clocks of two nodes differ by more."""
    return max(0, int((end - begin).total_seconds()))
