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
        (None, False),
    ],
)
def test_only_an_update_takes_the_record_along(printed: str | None, deletes: bool) -> None:
    asked: list[tuple[str, ...]] = []

    def scontrol(*arguments: str) -> str | None:
        asked.append(arguments)
        return printed

    worker.forget_record("cpu-0", scontrol)
    assert (("delete", "nodename=cpu-0") in asked) is deletes


def test_the_reasons_are_the_operators() -> None:
    assert worker.UPDATE_REASON == names.UPDATE_REASON
    assert settings.NEW_REASON == names.NEW_REASON
    assert f"{names.UPDATE_REASON}{names.DEADLINE_PASSED}" == "pulumi-slurm:update, its deadline has passed"
