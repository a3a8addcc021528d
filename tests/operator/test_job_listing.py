"""Promises about looking at jobs: what a question is about is found, and a deep queue is left alone."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest
from slurm_operator import job_listing
from slurm_operator.seen import Jobs, SlurmJob, TooDeep, Unknown
from slurm_operator.slurm_rest import SlurmError, SlurmRest, Trouble


class PlayedRest(SlurmRest):
    """Jobs by id, as the listing of states names them, and what was asked."""

    def __init__(self, states: dict[str, str], waiting: int | None = 0) -> None:
        self.states, self.waiting = states, waiting
        self.asked: list[str] = []

    async def job_count(self) -> int | None:
        return self.waiting

    async def job_states(self) -> list[tuple[str, frozenset[str]]]:
        self.asked.append("states")
        return [(number, frozenset(states.split())) for number, states in self.states.items()]

    async def job(self, number: str) -> Sequence[SlurmJob]:
        self.asked.append(number)
        if number == "13":
            raise SlurmError(Trouble.UNREACHABLE, "away")
        return [SlurmJob(int(number), frozenset({"RUNNING"}), frozenset({"main"}), frozenset({"cpu-0"}))]


class Clock:
    """A clock that is set by hand."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def with_processes(rest: PlayedRest, listing: job_listing.JobListing | None = None) -> Jobs | Unknown:
    return asyncio.run((listing or job_listing.JobListing()).with_processes(rest))


def looked_at(rest: PlayedRest) -> set[str]:
    return {*rest.asked} - {"states"}


@pytest.mark.parametrize(
    "states", ["RUNNING", "RUNNING CONFIGURING", "SUSPENDED", "COMPLETED COMPLETING", "RUNNING STOPPED", "UNHEARD_OF"]
)
def test_a_job_that_may_have_processes_is_looked_at(states: str) -> None:
    rest = PlayedRest({"7": states, "8": "PENDING", "9": "COMPLETED"})
    found = with_processes(rest)
    assert isinstance(found, Jobs)
    assert found.complete
    assert looked_at(rest) == {"7"}


def test_tasks_and_components_are_asked_for_as_one() -> None:
    rest = PlayedRest({"7_1": "RUNNING", "7_2": "SUSPENDED", "7_3": "PENDING", "20": "RUNNING", "20+1": "RUNNING"})
    with_processes(rest)
    assert sorted(looked_at(rest)) == ["20", "7"]


def test_of_very_many_only_those_out_of_the_ordinary_are_looked_at() -> None:
    many = {str(number): "RUNNING" for number in range(1000, 1001 + job_listing.MOST_LOOKED_AT)}
    rest = PlayedRest({**many, "7": "SUSPENDED"})
    found = with_processes(rest)
    assert isinstance(found, Jobs)
    assert not found.complete
    assert looked_at(rest) == {"7"}


def test_a_task_of_an_array_of_very_many_records_is_not_looked_at() -> None:
    ended = {f"7_{number}": "COMPLETED" for number in range(job_listing.MOST_LOOKED_AT)}
    rest = PlayedRest({**ended, "7_9999": "SUSPENDED"})
    assert isinstance(with_processes(rest), Unknown)
    assert looked_at(rest) == set()
    waiting = PlayedRest({**dict.fromkeys(ended, "PENDING"), "7_9999": "SUSPENDED"})
    assert isinstance(with_processes(waiting), Jobs), "tasks that wait share one record"


@pytest.mark.parametrize("waiting", [job_listing.MOST_LISTED + 1, None])
def test_a_deep_queue_and_one_that_was_not_counted_yet_are_not_listed(waiting: int | None) -> None:
    rest = PlayedRest({"7": "RUNNING"}, waiting)
    found = with_processes(rest)
    assert isinstance(found, TooDeep)
    assert rest.asked == []


def test_a_list_that_was_too_long_is_left_for_a_while() -> None:
    clock = Clock()
    listing = job_listing.JobListing(clock)
    rest = PlayedRest({str(number): "COMPLETED" for number in range(job_listing.MOST_LISTED + 1)})
    assert isinstance(with_processes(rest, listing), Jobs), "it was made, so it is used"
    assert isinstance(with_processes(rest, listing), Unknown)
    clock.now += job_listing.REST_SECONDS
    with_processes(rest, listing)
    assert rest.asked == ["states", "states"]


def test_a_refused_look_leaves_all_unknown() -> None:
    found = with_processes(PlayedRest({"7": "RUNNING", "13": "RUNNING"}))
    assert found == Unknown(Trouble.UNREACHABLE, "away")


def test_all_that_wait_or_run_are_looked_at_or_none() -> None:
    rest = PlayedRest({"7": "PENDING", "8": "RUNNING", "9": "COMPLETED"})
    alive = asyncio.run(job_listing.JobListing().alive(rest))
    assert not isinstance(alive, Unknown)
    assert sorted(job.job_id for job in alive) == [7, 8]
    many = PlayedRest({str(number): "PENDING" for number in range(job_listing.MOST_ALIVE + 1)})
    assert isinstance(asyncio.run(job_listing.JobListing().alive(many)), Unknown)
