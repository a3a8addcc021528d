"""Update windows: the times at which updates may begin, and Slurm's reservation for the next one.

With the reservation Slurm starts no job that would run into the window. Users lose time on the reserved nodes, so these
are only the nodes that wait for the window. A node that the update has taken is drained anyway, and an updated node
serves. If no node waits there is no reservation. Its name, user and flags mark it as the operator's, which changes no
other.
"""

from __future__ import annotations

import dataclasses
import datetime
from collections.abc import Iterable

from contract import names, policies
from contract.conditions import Reason
from slurm_operator.actions import Action, ChangeReservation, EndReservation, Reserve
from slurm_operator.decide.nodes.workers import NodeSetState
from slurm_operator.findings import Finding, shown
from slurm_operator.state.resources import UpdatePolicy, Window
from slurm_operator.state.slurm import EVERY_NODE, Reservation, all_of

_WEEK = datetime.timedelta(seconds=policies.WEEK_SECONDS)
_HOUR, _DAY = datetime.timedelta(hours=1), datetime.timedelta(days=1)
_SERIES = {"HOURLY": _HOUR, "DAILY": _DAY, "WEEKDAY": _DAY, "WEEKEND": _DAY, "WEEKLY": _WEEK}
"""Flag of a reservation that comes again → after how long, at the earliest."""


@dataclasses.dataclass(frozen=True, slots=True)
class Opening:
    """One time for which a window is open."""

    starts: datetime.datetime
    ends: datetime.datetime


def opening(window: Window, now: datetime.datetime) -> Opening | None:
    """The opening of now, else the next one; None if a window that opens once is past."""
    starts = window.first
    if window.weekly:
        starts += (now - window.first) // _WEEK * _WEEK
        starts += _WEEK * (starts + window.duration <= now)
    ends = starts + window.duration
    return Opening(starts, ends) if now < ends else None


def is_open(policy: UpdatePolicy, now: datetime.datetime) -> bool:
    """Return whether updates may begin."""
    if policy.window is None:
        return True
    next_opening = opening(policy.window, now)
    return next_opening is not None and next_opening.starts <= now


def words(window: Window) -> str:
    """A window as people write it."""

    def day(at: datetime.datetime) -> str:
        return policies.WEEKDAYS[at.weekday()] if window.weekly else f"{at:%Y-%m-%d}"

    ends = window.first + window.duration
    until = f"{ends:%H:%M}" if ends.date() == window.first.date() else f"{day(ends)} {ends:%H:%M}"
    return f"{day(window.first)} {window.first:%H:%M} to {until} UTC"


def name_of(node_set: str) -> str:
    """The name of a node set's reservation."""
    return f"{names.RESERVATION_PREFIX}{node_set}"


def is_ours(reservation: Reservation) -> bool:
    """Return whether the operator made the reservation; of one that can't be read nobody knows."""
    ours = reservation.users == names.RESERVATION_USER and not (reservation.accounts or reservation.unread)
    named = reservation.name.startswith(names.RESERVATION_PREFIX)
    return ours and named and {*names.RESERVATION_FLAGS} <= reservation.flags


def actions(state: NodeSetState, waiting: frozenset[str] | None) -> list[Action]:
    """Return the actions for a node set's reservation.

    Args:
        state: its policy, and the reservations, if they were looked at.
        waiting: nodes that serve and wait for the window; None if nobody knows.
    """
    if state.reservations is None or waiting is None:
        return []
    there, now = _namesake(state), state.now
    if there is not None and (not is_ours(there) or there.ends <= now):
        return []  # Slurm deletes one that is over.
    name, next_opening = name_of(state.stateful_set), _wanted(state)
    others = _of_others(state, next_opening)
    if others is EVERY_NODE:
        return []
    nodes = tuple(sorted(waiting - others)) if next_opening else ()
    if next_opening is None or not nodes:
        return [EndReservation(name, "no node waits for its window")] if there else []
    starts = max(next_opening.starts, now)
    if there is None:
        return [Reserve(name, nodes, starts, next_opening.ends)]
    has_begun = there.starts <= now
    if has_begun and next_opening.starts > now:
        return [EndReservation(name, "its window has other times")]
    changed = None if has_begun or there.starts == starts else starts
    if not changed and (there.ends, there.nodes) == (next_opening.ends, frozenset(nodes)):
        return []
    return [ChangeReservation(name, nodes, next_opening.ends, changed)]


def holds(state: NodeSetState, node: str) -> bool:
    """Return whether the operator's own reservation names a node."""
    there = _namesake(state)
    return there is not None and is_ours(there) and node in there.nodes


def left_over(reservations: Iterable[Reservation], node_sets: Iterable[str]) -> list[EndReservation]:
    """Return the deletions of reservations whose node sets are gone."""
    kept = {name_of(node_set) for node_set in node_sets}
    gone = [reservation.name for reservation in reservations if is_ours(reservation) and reservation.name not in kept]
    return [EndReservation(name, "its node set is gone") for name in gone]


def findings(state: NodeSetState, waiting: frozenset[str] | None) -> list[Finding]:
    """Return a finding if nodes wait and somebody else's reservation has the name of the operator's."""
    there = _namesake(state)
    if there is None or is_ours(there) or not waiting or _wanted(state) is None:
        return []
    who = there.users or there.accounts or "somebody"
    kept = f"reservation {there.name} is {who}'s, and stays as it is: none is made for update.window"
    return [Finding(Reason.RESERVATION_OF_ANOTHER, f"{kept}; delete or rename it")]


def unread(reservations: Iterable[Reservation]) -> list[Finding]:
    """Return a finding about the reservations whose nodes can't be read; else none."""
    words = [f"{reservation.name} ({reservation.unread})" for reservation in reservations if reservation.unread]
    kept = "none of them is changed, no record in Slurm goes, and no window that meets one gets a reservation"
    told = f"the nodes of reservations can't be read, and may be any: {shown(words)}; {kept}"
    return [Finding(Reason.RESERVATION_UNREADABLE, told)] if words else []


def _wanted(state: NodeSetState) -> Opening | None:
    """Return the opening that needs a reservation."""
    policy = state.node_set.update
    if policy.window is None or policy.paused or state.node_set.deleting:
        return None
    return opening(policy.window, state.now)


def _namesake(state: NodeSetState) -> Reservation | None:
    """Return the reservation that has the name of the operator's; slurmrestd ignores case."""
    name = name_of(state.stateful_set)
    return next((reservation for reservation in state.reservations or () if reservation.name.lower() == name), None)


def _of_others(state: NodeSetState, next_opening: Opening | None) -> frozenset[str]:
    """Return nodes that somebody else reserved for that time: our MAINT flag would mark them as maintained."""
    if next_opening is None:
        return frozenset()
    others = [
        reservation
        for reservation in state.reservations or ()
        if not is_ours(reservation) and "MAINT" not in reservation.flags
    ]
    meanwhile = (reservation for reservation in others if _meets(reservation, next_opening))
    return all_of(reservation.nodes for reservation in meanwhile)


def _meets(reservation: Reservation, next_opening: Opening) -> bool:
    """Return whether a reservation, or a later one of its series, holds during the opening."""
    every = next((after for flag, after in _SERIES.items() if flag in reservation.flags), None)
    times = max(0, (next_opening.starts - reservation.ends) // every + 1) if every else 0
    later = times * every if every else datetime.timedelta()
    # Differences: a sum may leave the calendar.
    begins_before_the_end = reservation.starts - next_opening.ends < -later
    return begins_before_the_end and next_opening.starts - reservation.ends < later
