"""Counters of the machine as rates, and how long a state lasts: a file of the node's own folder keeps earlier runs."""

import json
import time
from collections.abc import Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from node_health import node
from node_health.check import CannotJudgeError, Machine

STEP_SECONDS = 1800.0
"""Time between two points that are kept."""
POINTS = 3
"""Points that are kept. A run compares with the oldest, which is an hour to an hour and a half old."""
LEAST_HOURS = 1.0
"""A shorter time counts as so long, so that a single event is no high rate."""


@dataclass(frozen=True, slots=True)
class Increase:
    """Growth of counters.

    Attributes:
        by: counter → increase; one that fell (a reset) counts from zero.
        hours: in how many hours; 0 in the first run.
        unkept: why the values of this run can't be kept; empty: they are.
    """

    by: Mapping[str, int]
    hours: float = 0.0
    unkept: str = ""

    def count(self, counter: str) -> int:
        """Returns by how much a counter grew.

        Raises:
            CannotJudgeError: nobody knows earlier values, or will know these.
        """
        if self.unkept:
            raise CannotJudgeError(f"counters can't be kept until the next run: {self.unkept}")
        return self.by.get(counter, 0)

    def per_hour(self, counter: str) -> float:
        """Returns a counter's rate.

        Raises:
            CannotJudgeError: as `count` does.
        """
        return self.count(counter) / max(self.hours, LEAST_HOURS)


def increase(machine: Machine, name: str, values: Mapping[str, int]) -> Increase:
    """Returns how much counters grew since they were kept, and keeps them when that was long ago.

    Args:
        machine: whose counters.
        name: of the file.
        values: counter → its value now.
    """
    file = machine.path(node.COUNTERS / f"{name}.json")
    now = time.clock_gettime(time.CLOCK_BOOTTIME)
    points = _read(file, now)
    unkept = ""
    if not points or now - points[-1].at >= STEP_SECONDS:
        points = [*points, _Point(now, dict(values))][-POINTS:]
        unkept = node.keep(file, json.dumps([[point.at, point.values] for point in points]))
    first = points[0]
    by = {key: _grown(first.values.get(key, value), value) for key, value in values.items()}
    return Increase(by, (now - first.at) / 3600, unkept)


def lasting(machine: Machine, name: str, states: Collection[str]) -> Mapping[str, float]:
    """Returns for how many seconds all runs have seen each state, 0 for a new one, and keeps that.

    Args:
        machine: whose states.
        name: of the file.
        states: those that this run sees.
    """
    file = machine.path(node.COUNTERS / f"{name}.json")
    now, before = time.clock_gettime(time.CLOCK_BOOTTIME), dict[str, float]()
    with suppress(OSError, ValueError, TypeError, AttributeError):
        before = {str(state): float(since) for state, since in json.loads(file.read_text()).items()}
    # A later time is of a boot before.
    since = {state: min(now, before.get(state, now)) for state in states}
    if since != before:
        node.keep(file, json.dumps(since))
    return {state: now - at for state, at in since.items()}


@dataclass(frozen=True, slots=True)
class _Point:
    """Counters at a moment, in seconds since boot."""

    at: float
    values: Mapping[str, int]


def _read(file: Path, now: float) -> list[_Point]:
    """Returns the points that a file keeps of this boot; none from a file that can't be read.

    Args:
        file: a list of seconds since boot with counters, as JSON.
        now: seconds since boot. Later points are of a boot before.
    """
    try:
        said = json.loads(file.read_text())
        points = [_Point(float(at), {str(key): int(value) for key, value in values.items()}) for at, values in said]
    except (OSError, ValueError, TypeError, AttributeError):
        return []
    return [point for point in points if point.at <= now]


def _grown(before: int, now: int) -> int:
    return now - before if now >= before else now
