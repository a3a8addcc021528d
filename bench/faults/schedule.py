"""A schedule of faults in two lanes, drawn from a seed. Pure."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass

from bench.faults.kinds import KINDS, exclude_each_other

LANES = 2
SECONDS_BEFORE = 10
"""Seconds from the start to the first fault."""
PAUSE_SECONDS = (5, 15)
"""Seconds between two faults of one lane."""
REST_SECONDS = 10
"""Seconds between two faults that exclude each other."""
LOOK_SECONDS = 5
SHORTEST_MINUTES = 2

NIGHTLY_SEEDS = (3, 7, 11, 19, 23, 42, 64, 97, 128, 2026)
NIGHTLY_MINUTES = 12
SHORT_SEED, SHORT_MINUTES = 1604, 3
"""A schedule for every change: the operator, slurmctld, a drift, a size and a person's word in three minutes."""


@dataclass(frozen=True, slots=True)
class Fault:
    """One fault of a schedule; `start` and `seconds` are whole seconds, the former since the schedule's beginning."""

    number: int
    lane: int
    kind: str
    target: str
    start: int
    seconds: int

    @property
    def end(self) -> int:
        """Return the fault's end, in seconds since the schedule's beginning."""
        return self.start + self.seconds

    @property
    def title(self) -> str:
        """Number, kind and target, for a person."""
        return f"#{self.number} {self.kind}{self.target and f' ({self.target})'}"


def plan(seed: int, minutes: int) -> list[Fault]:
    """Draw a schedule; the same seed gives the same one.

    Each kind comes once before any comes again, if it fits beside the other lane and before the end.

    Args:
        seed: of the draw.
        minutes: until the last fault is over.

    Returns:
        The faults by their start.
    """
    draw, total = random.Random(seed), minutes * 60
    free_at = [SECONDS_BEFORE + lane * draw.randint(5, 20) for lane in range(LANES)]
    faults: list[Fault] = []
    bag: list[str] = []
    while min(free_at) < total:
        lane = free_at.index(min(free_at))
        bag = bag or draw.sample(sorted(KINDS), len(KINDS))
        fault = next((candidate for candidate in _candidates(draw, bag, lane, free_at[lane], len(faults) + 1)
                      if candidate.end <= total and _fits(candidate, faults)), None)  # fmt: skip
        if fault is None:
            free_at[lane] += LOOK_SECONDS
            continue
        faults.append(fault)
        bag.remove(fault.kind)
        free_at[lane] = fault.end + draw.randint(*PAUSE_SECONDS)
    return faults


def _candidates(draw: random.Random, bag: Sequence[str], lane: int, start: int, number: int) -> list[Fault]:
    return [
        Fault(number, lane, kind, draw.choice(KINDS[kind].targets), start, draw.randint(*KINDS[kind].seconds))
        for kind in bag
    ]


def _fits(fault: Fault, others: Sequence[Fault]) -> bool:
    """Return whether no fault that it excludes overlaps it, or ends just before."""
    return not any(
        exclude_each_other((fault.kind, fault.target), (other.kind, other.target))
        for other in others
        if other.end + REST_SECONDS > fault.start and fault.end + REST_SECONDS > other.start
    )


def most_at_once(faults: Sequence[Fault]) -> int:
    """Return the largest number of faults that a schedule has at one time."""
    return max((sum(fault.start <= one.start < fault.end for fault in faults) for one in faults), default=0)


def shared_seconds(faults: Sequence[Fault]) -> int:
    """Return for how many seconds a schedule has two faults at one time."""
    pairs = ((one, other) for one in faults for other in faults if one.number < other.number)
    return sum(max(0, min(one.end, other.end) - max(one.start, other.start)) for one, other in pairs)
