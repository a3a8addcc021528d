"""The judge finds each canary that did not end well. It lets one off for what a killed slurmctld had not saved."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from bench.faults.verdict import history, judge, report
from tests.unit.bench.faults_history import (
    BEGAN,
    LAST,
    Row,
    as_fault,
    canary_fails,
    canary_never_ends,
    clean,
    each,
    judged,
    rules,
    without,
)


def canary_fails_by_accounting_alone(rows: list[Row]) -> list[Row]:
    rows = without(rows, "slurm", 88, LAST - 60)
    for row in each(rows, "slurm", 88):
        row["jobs"] = []
    next(row for row in rows if row["record"] == "account")["state"] = "CANCELLED"
    return rows


def canary_is_lost(rows: list[Row]) -> list[Row]:
    for row in each(rows, "slurm"):
        row["jobs"] = []
    return [row for row in rows if row["record"] != "account"]


def a_task_is_lost(rows: list[Row]) -> list[Row]:
    next(row for row in rows if row["record"] == "canary")["tasks"] = 2
    return rows


def canary_runs_twice(rows: list[Row]) -> list[Row]:
    next(row for row in rows if row["record"] == "printed")["lines"].insert(0, "begin 1000020")
    return rows


def canary_does_not_come_to_its_end(rows: list[Row]) -> list[Row]:
    next(row for row in rows if row["record"] == "printed")["lines"].pop()
    return rows


def canary_printed_nothing(rows: list[Row]) -> list[Row]:
    return [row for row in rows if row["record"] != "printed"]


def slurmctld_is_killed_at(
    rows: list[Row], second: float, spoil: Callable[[list[Row]], list[Row]] = canary_fails
) -> list[Row]:
    next(row for row in rows if row["record"] == "begin")["began"] = BEGAN + second
    return as_fault(spoil(rows), "slurmctld-killed")


def canary_fails_that_ended_long_before_slurmctld_was_killed(rows: list[Row]) -> list[Row]:
    return slurmctld_is_killed_at(rows, 90 + judge.UNSAVED_SECONDS + 1)


def canary_is_lost_that_was_submitted_long_before_slurmctld_was_killed(rows: list[Row]) -> list[Row]:
    return canary_is_lost(slurmctld_is_killed_at(rows, 10 + judge.UNSAVED_SECONDS + 1))


def canary_waits_for_ever_since_slurmctld_was_killed_right_after_its_submission(rows: list[Row]) -> list[Row]:
    rows = slurmctld_showed_a_canary_that_it_then_lost(rows)
    shown = each(rows, "slurm", 10, 20)[-1]["jobs"]
    for row in each(rows, "slurm", 20):
        row["jobs"] = shown
    return rows


def canary_runs_for_ever_since_slurmctld_was_killed(rows: list[Row]) -> list[Row]:
    return canary_never_ends(slurmctld_is_killed_at(rows, 90))


BROKEN = [
    canary_fails,
    canary_fails_by_accounting_alone,
    canary_never_ends,
    canary_is_lost,
    a_task_is_lost,
    canary_runs_twice,
    canary_does_not_come_to_its_end,
    canary_printed_nothing,
    canary_fails_that_ended_long_before_slurmctld_was_killed,
    canary_runs_for_ever_since_slurmctld_was_killed,
    canary_waits_for_ever_since_slurmctld_was_killed_right_after_its_submission,
    canary_is_lost_that_was_submitted_long_before_slurmctld_was_killed,
]


@pytest.mark.parametrize("spoil", BROKEN, ids=lambda spoil: spoil.__name__)
def test_a_canary_that_does_not_end_well_is_found(spoil: Callable[[list[Row]], list[Row]]) -> None:
    assert "a canary ends but well" in rules(spoil(clean()))


def unsure_submission_never_seen(rows: list[Row]) -> list[Row]:
    return [*rows, {"record": "canary", "at": BEGAN + 20, "name": "canary-x-2", "tasks": 1, "sure": False}]


def slurmctld_is_killed_right_after_a_submission(rows: list[Row]) -> list[Row]:
    return canary_printed_nothing(canary_is_lost(slurmctld_is_killed_at(rows, 10 + judge.UNSAVED_SECONDS - 1)))


def slurmdbd_never_heard_that_tasks_began(rows: list[Row]) -> list[Row]:
    next(row for row in rows if row["record"] == "canary")["tasks"] = 2
    for row in each(rows, "slurm"):
        row["jobs"] = [job | {"id": f"7_{task}"} for job in row["jobs"] for task in (2, 3)]
    next(row for row in rows if row["record"] == "account")["id"] = "7_[2-3%1]"
    return [*rows, *(row for row in rows if row["record"] == "printed")]


def slurmctld_showed_a_canary_that_it_then_lost(rows: list[Row]) -> list[Row]:
    for row in each(rows, "slurm"):
        for job in row["jobs"]:
            job.update(state="PENDING", nodes=[], start=0, end=0)
    for row in each(rows, "slurm", 20):
        row["jobs"] = []
    next(row for row in rows if row["record"] == "account")["state"] = "PENDING"
    return canary_printed_nothing(slurmctld_is_killed_at(rows, 10 + judge.UNSAVED_SECONDS - 1, spoil=list))


def slurmctld_is_killed_right_after_a_canarys_end(rows: list[Row]) -> list[Row]:
    return slurmctld_is_killed_at(rows, 90 + judge.UNSAVED_SECONDS - 1)


ALLOWED = [
    unsure_submission_never_seen,
    slurmctld_is_killed_right_after_a_submission,
    slurmctld_showed_a_canary_that_it_then_lost,
    slurmdbd_never_heard_that_tasks_began,
    slurmctld_is_killed_right_after_a_canarys_end,
]


@pytest.mark.parametrize("change", ALLOWED, ids=lambda change: change.__name__)
def test_what_no_promise_forbids_is_no_violation(change: Callable[[list[Row]], list[Row]]) -> None:
    assert judged(change(clean())) == []


@pytest.mark.parametrize(
    ("number", "expected"),
    [("7", ["7"]), ("7_1", ["7_1"]), ("7_[2-3]", ["7_2", "7_3"]), ("7_[0,2-3%4]", ["7_0", "7_2", "7_3"])],
)
def test_a_number_of_sacct_is_of_these_tasks(number: str, expected: list[str]) -> None:
    assert judge.tasks(number) == expected


def test_the_verdict_names_a_canary_that_slurmctld_forgot() -> None:
    found = history.parse(map(json.dumps, slurmctld_is_killed_right_after_a_canarys_end(clean())))
    assert any(line.startswith("not judged: canary-x-1: ") for line in report.verdict(found, judge.judge(found)))
