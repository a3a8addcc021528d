"""Promises about single jobs: what slurmrestd is asked, and how records are counted."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence

import pytest
from slurm_operator.clients.slurm.slurm_error import SlurmError, Trouble
from slurm_operator.clients.slurm.slurmrestd import SlurmRest

UNKNOWN = SlurmError(Trouble.REFUSED, "Invalid job id specified", frozenset({2017}))


class OneAnswer(SlurmRest):
    """A slurmrestd with one answer; None is what it says of a job that slurmctld does not know."""

    def __init__(self, jobs: Sequence[Mapping[str, object]] | None) -> None:
        self.jobs = jobs
        self.asked: list[str] = []

    async def _fetch(self, call: str, path: str, params: Mapping[str, str], seconds: float) -> bytearray | None:
        self.asked.append(path)
        if self.jobs is None:
            raise UNKNOWN
        return bytearray(json.dumps({"jobs": self.jobs, "errors": [], "warnings": []}).encode())


@pytest.mark.parametrize(
    ("numbers", "count"),
    [
        (["7"], 1),
        ([7], 1),
        (["7_0", "7_1", "7_12"], 1),  # Waiting tasks share a record.
        (["7_0", "7_1", "8", "9"], 3),
        (["7_0", "70_0"], 2),
        (["21+0", "21+1"], 2),
        ([], 0),
        (None, 0),
    ],
)
def test_records_of_a_job_are_counted_by_their_numbers(numbers: list[str | int] | None, count: int) -> None:
    rows = None if numbers is None else [{"job_id": number, "state": ["PENDING"]} for number in numbers]
    rest = OneAnswer(rows)
    assert asyncio.run(rest.record_count(7)) == count
    assert rest.asked == ["/jobs/state/?job_id=7"]


def test_a_job_is_asked_for_without_each_of_its_cores() -> None:
    rest = OneAnswer(None)
    assert asyncio.run(rest.job("7_0")) == ()
    assert asyncio.run(rest.check_job(8)) is None
    assert asyncio.run(rest.quiet_job(9)) is None
    assert rest.asked == ["/job/7_0?flags=ALL", "/job/8?flags=ALL", "/job/9?flags=ALL"]
