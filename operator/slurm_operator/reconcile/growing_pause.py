"""Growing pauses between retries of what did not help."""

from __future__ import annotations

import time


class GrowingPause:
    """Says when something is to be tried again: at once, then after pauses that double up to the longest."""

    def __init__(self, first_seconds: float, longest_seconds: float) -> None:
        self._first, self._longest = first_seconds, longest_seconds
        self._subject, self._last, self._seconds = "", 0.0, 0.0

    def is_over(self, subject: str) -> bool:
        """Return whether it is time for a try, and begin the next pause; another subject begins anew."""
        now = time.monotonic()
        if subject == self._subject and now < self._last + self._seconds:
            return False
        grown = min(self._seconds * 2, self._longest) if subject == self._subject else self._first
        self._subject, self._last, self._seconds = subject, now, grown
        return True

    def reset(self) -> None:
        """Forget what was tried."""
        self._subject = ""
