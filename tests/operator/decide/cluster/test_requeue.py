"""Promises about how often the operator looks."""

from __future__ import annotations

from itertools import pairwise

from slurm_operator import health
from slurm_operator.decide.cluster.requeue import (
    LONGEST_SECONDS,
    PROGRESSING_SECONDS,
    STEADY_SECONDS,
    Outcome,
    requeue_after,
)


def test_slurm_is_asked_less_and_less_often_while_it_does_not_answer() -> None:
    pauses = [requeue_after(Outcome.BLIND, passes) for passes in range(1, 50)]
    assert pauses[:10] == [2, 2, 2, 2, 2, 4, 8, 16, 30, 30]
    assert all(shorter <= longer for shorter, longer in pairwise(pauses))
    assert max(pauses) == LONGEST_SECONDS
    assert LONGEST_SECONDS < health.STALLED_SECONDS / 2, "a pause is no stall"


def test_otherwise_it_looks_as_often_as_ever() -> None:
    assert requeue_after(Outcome.PROGRESSING, 0) == PROGRESSING_SECONDS
    assert requeue_after(Outcome.STEADY, 0) == STEADY_SECONDS
