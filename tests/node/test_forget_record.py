"""A worker that ends for an update takes its record along; one that ends otherwise leaves it."""

from __future__ import annotations

import pytest
from slurm_node import settings, worker
from slurm_operator import names

RECORD = "NodeName=cpu-0 State={} Weight=1 Reason={} [slurm@2026-11-21T15:00:00]\n"


@pytest.mark.parametrize(
    ("printed", "deletes"),
    [
        (RECORD.format("IDLE+DRAIN", "pulumi-slurm:update"), True),
        (RECORD.format("DOWN+DRAIN", "pulumi-slurm:update, its deadline has passed"), True),
        (RECORD.format("IDLE+DRAIN", "pulumi-slurm:scale-in"), False),
        (RECORD.format("IDLE+DRAIN", "bad disk"), False),
        (RECORD.format("IDLE", "pulumi-slurm:update"), False),
        ("NodeName=cpu-0 State=IDLE Weight=1\n", False),
    ],
)
def test_only_an_update_takes_the_record_along(printed: str | None, deletes: bool) -> None:
    asked: list[tuple[str, ...]] = []

    def scontrol(*arguments: str) -> str | None:
        asked.append(arguments)
        return printed

    worker.forget_record("cpu-0", scontrol)
    assert (("delete", "nodename=cpu-0") in asked) is deletes


def test_a_slurmctld_that_reads_its_configuration_at_that_moment_is_asked_again() -> None:
    answers = iter([None, RECORD.format("IDLE+DRAIN", "pulumi-slurm:update"), None])
    asked: list[tuple[str, ...]] = []

    def scontrol(*arguments: str) -> str | None:
        asked.append(arguments)
        return next(answers, "" if arguments[0] == "delete" else RECORD.format("IDLE+DRAIN", "pulumi-slurm:update"))

    worker.forget_record("cpu-0", scontrol, lambda: 0.0, lambda _: None)
    assert [each[0] for each in asked] == ["-o", "-o", "delete", "-o", "delete"]


def test_a_slurmctld_that_is_away_holds_the_end_up_for_seconds_only() -> None:
    now = [0.0]
    worker.forget_record("cpu-0", lambda *_: None, lambda: now[0], lambda seconds: now.append(now.pop() + seconds))
    assert now[0] <= worker.FORGET_SECONDS + 1


def test_the_reasons_are_the_operators() -> None:
    assert worker.UPDATE_REASON == names.UPDATE_REASON
    assert settings.NEW_REASON == names.NEW_REASON
    assert f"{names.UPDATE_REASON}{names.DEADLINE_PASSED}" == "pulumi-slurm:update, its deadline has passed"
