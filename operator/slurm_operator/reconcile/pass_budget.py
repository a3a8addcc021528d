"""The time budget of a pass. Work that can wait is left to the next pass, so that each tells its status in time.

All times count from the pass's start. With all of them a pass stays below its deadline (handlers.py). Where each call
takes two seconds, one status follows another within 30 s.
"""

from __future__ import annotations

import time
from collections.abc import Callable

LOOKED_AFTER_SECONDS = 18.0
"""End of listings that only some decisions need: the next pass asks again."""
LEAST_SECONDS = 8.0
"""Least time for what a removal or a configuration waits for, however late it begins."""
TRIED_AFTER_SECONDS = 40.0
"""End of the wait for the config dry run: a later answer counts in another pass."""
BROUGHT_AFTER_SECONDS = 45.0
"""End of all that brings the configuration to slurmctld, since the pass writes the status after it."""
ACTED_AFTER_SECONDS = 20.0
"""After this a pass begins no change of nodes."""
LEAST_ACTING_SECONDS = 5.0
"""Least time in which changes begin, however late the first one: slow listings would else allow none."""


class PassBudget:
    """The time of one pass."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._began = clock()

    def left(self, until: float, *, least: float = 0.0) -> float:
        """Return the seconds left until `until` seconds after the pass's start, and at least `least`."""
        return max(least, self._began + until - self._clock())

    def ends(self) -> float:
        """Return when a series of changes that begins now is to end, by the pass's clock."""
        return self._clock() + self.left(ACTED_AFTER_SECONDS, least=LEAST_ACTING_SECONDS)

    def is_over(self, end: float) -> bool:
        """Return whether that moment has come."""
        return self._clock() >= end
