"""A job that hangs is told so by its first node, for the operator."""

from __future__ import annotations

import pytest
from slurm_node.conditions.hang_notify import LOOK_SECONDS, HangNotifier, noted
from slurm_operator.reconcile.health.hanging_jobs import EVERY_SECONDS

WORDS = "no CPU time used, or an old heartbeat, since 2026-11-26T12:00:00Z on cpu-0, cpu-1"
RECORD = "JobId=812 JobState=RUNNING Comment=mine AdminComment=pulumi-slurm:hangs {}, told by {} WorkDir=/home/alice\n"


class Slurmctld:
    """One job's AdminComment, and the messages to jobs."""

    def __init__(self) -> None:
        self.record: str | None = RECORD.format(WORDS, "cpu-0")
        self.looks, self.told = 0, list[tuple[str, ...]]()

    def __call__(self, *arguments: str) -> str | None:
        if arguments[0] == "notify":
            self.told.append(arguments[1:])
            return None
        self.looks += 1
        return self.record


@pytest.mark.parametrize(
    ("record", "words"),
    [
        (RECORD.format(WORDS, "cpu-0"), f"this job seems to hang: {WORDS}"),
        (RECORD.format(WORDS, "cpu-1"), ""),
        (f"JobId=812 AdminComment=pulumi-slurm:hangs {WORDS}, told by cpu-0", f"this job seems to hang: {WORDS}"),
        ("JobId=812 AdminComment=ticket 7 WorkDir=/", ""),
        ("JobId=812 WorkDir=/", ""),
        ("", ""),
    ],
)
def test_only_the_node_that_the_operator_named_tells_it(record: str, words: str) -> None:
    assert noted(record, "cpu-0") == words


def test_a_job_is_told_once_for_each_note_and_seldom_looked_at() -> None:
    slurmctld = Slurmctld()
    notifier = HangNotifier("cpu-0", slurmctld)
    for half in range(int(LOOK_SECONDS) * 2 + 2):
        notifier.tick(half / 2, {812})
    assert slurmctld.told == [("812", f"this job seems to hang: {WORDS}")]
    assert slurmctld.looks == 2
    slurmctld.record = RECORD.format(f"{WORDS}; it is queued again, to run on other nodes", "cpu-0")
    notifier.tick(1000.0, {812})
    assert len(slurmctld.told) == 2
    # It worked again, and hangs once more.
    notifier.tick(1100.0, set())
    notifier.tick(1200.0, {812})
    assert len(slurmctld.told) == 3


def test_a_job_is_told_before_the_operator_queues_it_again() -> None:
    slurmctld = Slurmctld()
    slurmctld.record = "JobId=812 JobState=RUNNING WorkDir=/home/alice\n"
    notifier = HangNotifier("cpu-0", slurmctld)
    notifier.tick(0.0, {812})
    slurmctld.record = RECORD.format(WORDS, "cpu-0")
    # The operator tells it in one look, notes its plan in the next, and queues it again in the third.
    for half in range(1, int(2 * EVERY_SECONDS) * 2):
        notifier.tick(half / 2, {812})
    assert len(slurmctld.told) == 1


def test_a_tick_looks_at_one_job_and_none_is_forgotten() -> None:
    slurmctld = Slurmctld()
    slurmctld.record = None
    notifier = HangNotifier("cpu-0", slurmctld)
    for tick in range(1, 4):
        notifier.tick(float(tick), {1, 2, 3})
        assert slurmctld.looks == tick
    notifier.tick(4.0, {1, 2, 3})
    assert slurmctld.looks == 3
    notifier.tick(4.0, set())
    assert slurmctld.looks == 3
