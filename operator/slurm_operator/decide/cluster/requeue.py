"""Decides the pause before the next reconcile, unless something wakes the operator."""

from __future__ import annotations

import enum
from typing import Final

PROGRESSING_SECONDS: Final = 2.0
STEADY_SECONDS: Final = 3.0
LONGEST_SECONDS: Final = 30.0
PATIENT_PASSES: Final = 5
"""A restart of a daemon is over by then."""


class Outcome(enum.Enum):
    """Result of a reconcile: something changes, nothing does, or Slurm cannot be seen although its pods look well."""

    PROGRESSING = enum.auto()
    STEADY = enum.auto()
    BLIND = enum.auto()


def requeue_after(outcome: Outcome, blind_passes: int) -> float:
    """Return the seconds until the next reconcile.

    Args:
        outcome: that of the last pass.
        blind_passes: how many passes in a row, the last among them, did not see Slurm. It is asked less and less often
            when that lasts, and as before once it was seen.
    """
    if outcome is Outcome.BLIND:
        doublings = max(0, min(blind_passes - PATIENT_PASSES, 10))
        return float(min(LONGEST_SECONDS, PROGRESSING_SECONDS * 2**doublings))
    return PROGRESSING_SECONDS if outcome is Outcome.PROGRESSING else STEADY_SECONDS
