"""Users hide no job from the operator by what they write into Slurm."""

from __future__ import annotations

import datetime
import json

import pytest
from slurm_operator.clients.slurm import slurmrestd_answers as answers
from slurm_operator.clients.slurm import slurmrestd_records as records

NEW_YEAR_10000 = 253_402_300_800


def job(**fields: object) -> dict[str, object]:
    return {
        "job_id": 7,
        "job_state": ["PENDING"],
        "nodes": "",
        "partition": "main",
        "name": "x",
        "user_id": 1,
        **fields,
    }


@pytest.mark.parametrize("seconds", [NEW_YEAR_10000, 2**62])
def test_a_job_that_begins_in_a_year_without_dates_ends_with_the_last_one(seconds: int) -> None:
    """`sbatch --begin=9999-12-31` with a time limit."""
    end = {"set": True, "infinite": False, "number": seconds}
    answer = answers.decoded(
        "job", bytearray(json.dumps({"errors": [], "jobs": [job(end_time=end)]}), "utf-8"), answers.Jobs
    )
    read = [records.job(item) for item in answers.listed("job", answer.jobs)]
    assert [each.ends for each in read] == [records.LAST]
    assert records.LAST + datetime.timedelta(days=100_000) > records.LAST, "there is room for what is added"


def test_a_comment_in_any_bytes_is_read() -> None:
    """slurmrestd passes them on as they are, which is no JSON."""
    text = json.dumps({"errors": [], "jobs": [job(comment="BYTES")]}).encode().replace(b"BYTES", b"\xff\\u00e9\xc3")
    answer = answers.decoded("job", bytearray(text), answers.CheckJobs)
    assert [item.comment for item in answers.listed("job", answer.jobs)] == ["\ufffdé\ufffd"]
