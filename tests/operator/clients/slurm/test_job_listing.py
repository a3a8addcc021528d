"""Promises about looking at jobs: what a question is about is found, and a deep queue is left alone."""

from __future__ import annotations

import asyncio
import datetime
from collections.abc import Mapping, Sequence

import pytest
from slurm_operator.clients.slurm import job_listing
from slurm_operator.clients.slurm.slurm_error import Trouble
from slurm_operator.state.slurm import Jobs, Named, SlurmJob, TooDeep, Unknown

from components.config.pods.resources import RestResources
from components.config.values.quantities import memory_bytes
from tests.operator.played.played_listing import Clock, PlayedRest, named, waiting

KIB, MIB = 1 << 10, 1 << 20


class Waiting(PlayedRest):
    """Jobs that wait, each for a reason and for some nodes."""

    def __init__(self, *jobs: SlurmJob, states: dict[str, str] | None = None) -> None:
        super().__init__(states or {str(job.job_id): "PENDING" for job in jobs})
        self.records: dict[str, list[SlurmJob]] = {str(job.job_id): [job] for job in jobs}

    async def job(self, number: str) -> Sequence[SlurmJob]:
        self.asked.append(number)
        return self.records[number]


def pending(rest: PlayedRest) -> Mapping[str, int] | None:
    return asyncio.run(job_listing.JobListing().pending(rest))


def test_waiting_jobs_count_in_nodes_by_partition() -> None:
    jobs = (waiting(1, 4), waiting(2, reason="Priority"), waiting(3, 2, partitions="main,gpu"))
    assert pending(Waiting(*jobs)) == {"main": 7, "gpu": 2}


@pytest.mark.parametrize("reason", ["JobHeldUser", "JobHeldAdmin", "Dependency", "BeginTime", "AssocGrpCpuLimit"])
def test_a_job_that_more_nodes_would_not_start_asks_for_none(reason: str) -> None:
    assert pending(Waiting(waiting(1, 4, reason), waiting(2))) == {"main": 1}


def test_each_waiting_task_of_an_array_asks_for_its_nodes() -> None:
    rest = Waiting(waiting(7, 2), states={"8_1": "RUNNING", "7_2": "PENDING", "7_3": "PENDING", "9_4": "COMPLETED"})
    assert pending(rest) == {"main": 4}
    shared, own = waiting(7), waiting(9)
    rest = Waiting(shared, own, states={**{f"7_{task}": "PENDING" for task in range(4)}, "9_4": "PENDING"})
    rest.records["7"] = [shared, own]
    assert pending(rest) == {"main": 5}, "one was requeued, and has a record of its own"


def test_an_answer_about_an_array_tells_no_task_twice() -> None:
    rest = Waiting(states={"7_1": "RUNNING", "8_0": "RUNNING"})
    whole = [SlurmJob(number, frozenset({"RUNNING"}), frozenset({"main"}), frozenset({"cpu-0"})) for number in (7, 8)]
    rest.records = {"7": whole, "8": whole[1:]}
    found = with_processes(rest)
    assert isinstance(found, Jobs)
    assert sorted(job.job_id for job in found.jobs) == [7, 8]


def test_of_very_many_waiting_jobs_some_tell_for_all_and_of_a_deep_queue_nobody_tells() -> None:
    many = [waiting(number, 2) for number in range(1000, 1000 + 2 * job_listing.MOST_LOOKED_AT)]
    rest = Waiting(*many)
    assert pending(rest) == {"main": 4 * job_listing.MOST_LOOKED_AT}
    assert len(looked_at(rest)) == job_listing.MOST_LOOKED_AT
    rest.waiting = job_listing.MOST_LISTED + 1
    assert pending(rest) is None


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


def test_each_task_and_component_is_asked_for_by_its_own_number() -> None:
    rest = PlayedRest({"8_1": "RUNNING", "9_2": "SUSPENDED", "7_3": "PENDING", "20+0": "RUNNING", "21+1": "RUNNING"})
    with_processes(rest)
    assert sorted(looked_at(rest)) == ["20", "21", "8", "9"]


def test_each_of_as_many_jobs_as_a_look_may_read_is_looked_at() -> None:
    many = {str(number): "RUNNING" for number in range(1000, 1000 + job_listing.MOST_LOOKED_AT)}
    found = with_processes(PlayedRest(many))
    assert isinstance(found, Jobs)
    assert (found.complete, len(found.jobs)) == (True, job_listing.MOST_LOOKED_AT)


def test_of_very_many_only_those_out_of_the_ordinary_are_looked_at() -> None:
    many = {str(number): "RUNNING" for number in range(1000, 1001 + job_listing.MOST_LOOKED_AT)}
    rest = PlayedRest({**many, "7": "SUSPENDED"})
    found = with_processes(rest)
    assert isinstance(found, Jobs)
    assert not found.complete
    assert looked_at(rest) == {"7"}


def test_a_task_whose_answer_would_have_very_many_records_is_not_looked_at() -> None:
    ended = {f"{number}_{number}": "COMPLETED" for number in range(1000, 2000)}
    rest = PlayedRest({**ended, "7_9999": "SUSPENDED"})
    rest.lengths["7"] = job_listing.MOST_ALIVE + 1
    assert isinstance(with_processes(rest), Unknown)
    assert looked_at(rest) == set()
    rest.lengths["7"] = job_listing.MOST_ALIVE
    assert isinstance(with_processes(rest), Jobs)
    assert looked_at(rest) == {"7"}


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


class Counting(PlayedRest):
    """Notes the largest number of records that answers have at a time."""

    now = most = 0

    async def job(self, number: str) -> Sequence[SlurmJob]:
        records = self.lengths.get(number, 1)
        self.now += records
        self.most = max(self.most, self.now)
        await asyncio.sleep(0)  # The others are asked, too.
        self.now -= records
        return await super().job(number)


def arrays(*sizes: int) -> Counting:
    """Arrays whose last tasks run, with answers of so many records, beside many tasks that have ended."""
    rest = Counting({f"{number}_9": "RUNNING" for number, _ in enumerate(sizes, 1)})
    rest.states |= {f"{number}_{number}": "COMPLETED" for number in range(1000, 1100)}
    rest.lengths = {str(number): size for number, size in enumerate(sizes, 1)}
    return rest


@pytest.mark.parametrize(
    ("sizes", "most"),
    [((150, 150, 150, 150), 150), ((90, 90, 90), 180), ((250, 250, 250, 2), 250), ((2,) * 9, 2 * job_listing.AT_ONCE)],
)
def test_slurmrestd_makes_answers_of_few_records_at_a_time(sizes: tuple[int, ...], most: int) -> None:
    rest = arrays(*sizes)
    alive = asyncio.run(job_listing.JobListing().alive(rest))
    assert not isinstance(alive, Unknown)
    assert {job.job_id for job in alive} == {*range(1, len(sizes) + 1)}
    assert rest.most == most


def test_the_longest_answer_about_jobs_takes_slurmrestd_half_of_its_default() -> None:
    """With what docs/operator.md says of an answer's memory; another answer comes before or after it."""
    of_its_own, of_a_record, of_a_state = 28 * MIB, 140 * KIB, 22 * MIB / 10_000
    rest = arrays(job_listing.MOST_ALIVE)
    assert not isinstance(asyncio.run(job_listing.JobListing().alive(rest)), Unknown)
    assert rest.most == job_listing.MOST_ALIVE
    longest = max(rest.most * of_a_record, job_listing.MOST_LISTED * of_a_state)
    assert of_its_own + longest <= memory_bytes(RestResources().memory) / 2


def test_what_waits_or_runs_tells_which_nodes_it_names_and_is_asked_once_an_hour() -> None:
    clock, rest = Clock(), PlayedRest({"7": "PENDING", "8": "RUNNING", "9": "COMPLETED"})
    rest.names = {"7": "cpu-1", "8": "cpu-0", "9": "cpu-5"}
    listing = job_listing.JobListing(clock)
    known = named(rest, listing)
    assert known
    assert known == Named(frozenset({"cpu-0", "cpu-1", "cpu-9"}), frozenset({"cpu-1", "cpu-9"}))
    assert sorted(job.job_id for job in known.jobs) == [7, 8]
    assert looked_at(rest) == {"7", "8"}
    rest.states |= {"10": "PENDING"}
    rest.names["10"] = "cpu-2"
    assert named(rest, listing) == Named(
        frozenset({"cpu-0", "cpu-1", "cpu-2", "cpu-9"}), frozenset({"cpu-1", "cpu-2", "cpu-9"})
    )
    assert looked_at(rest) == {"10"}
    clock.now += job_listing.NAMES_SECONDS
    named(rest, listing)
    assert looked_at(rest) == {"7", "8", "10"}


def test_a_job_that_was_requeued_waits_for_the_node_that_it_had() -> None:
    rest, listing = PlayedRest({"8": "RUNNING"}), job_listing.JobListing()
    rest.names = {"8": "cpu-0"}
    assert named(rest, listing) == Named(frozenset({"cpu-0", "cpu-9"}), frozenset({"cpu-9"}))
    rest.states["8"] = "PENDING"
    assert named(rest, listing) == Named(frozenset({"cpu-0", "cpu-9"}), frozenset({"cpu-0", "cpu-9"}))


def test_jobs_of_another_cluster_with_the_same_numbers_are_others() -> None:
    one, other, listing = PlayedRest({"7": "PENDING"}), PlayedRest({"7": "PENDING"}), job_listing.JobListing()
    one.names, other.names, other.url = {"7": "cpu-1"}, {"7": "cpu-2"}, "http://other"
    for _ in range(2):
        assert named(one, listing) == Named(frozenset({"cpu-1", "cpu-9"}), frozenset({"cpu-1", "cpu-9"}))
        assert named(other, listing) == Named(frozenset({"cpu-2", "cpu-9"}), frozenset({"cpu-2", "cpu-9"}))
    assert (looked_at(one), looked_at(other)) == (set(), set()), "each is asked once"


def test_so_are_jobs_of_a_slurmctld_that_has_started_since_perhaps_with_a_restored_state() -> None:
    rest, other, listing = PlayedRest({"7": "PENDING"}), PlayedRest({"8": "PENDING"}), job_listing.JobListing()
    rest.names, other.url = {"7": "cpu-1"}, "http://other"
    before = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)
    for started in (before, None, before):
        named(rest, listing, started)
        named(other, listing, started)
    assert (looked_at(rest), looked_at(other)) == (set(), set())
    rest.names = {"7": "cpu-2"}
    found = named(rest, listing, before + datetime.timedelta(minutes=1))
    assert found == Named(frozenset({"cpu-2", "cpu-9"}), frozenset({"cpu-2", "cpu-9"}))
    named(other, listing, before)
    assert looked_at(other) == set(), "another cluster's stay known"


def test_many_jobs_are_looked_at_in_several_passes_and_nothing_is_known_before() -> None:
    rest = PlayedRest({str(number): "PENDING" for number in range(1000, 1000 + 2 * job_listing.MOST_LOOKED_AT)})
    listing = job_listing.JobListing()
    assert named(rest, listing) is None
    assert len(looked_at(rest)) == job_listing.MOST_LOOKED_AT
    assert named(rest, listing) == Named(frozenset({"cpu-9"}), frozenset({"cpu-9"}))


def test_an_array_of_very_many_records_leaves_names_unknown() -> None:
    rest = arrays(job_listing.MOST_ALIVE + 1)
    assert named(rest, job_listing.JobListing()) is None
    assert looked_at(rest) == set()


def test_the_looks_of_a_pass_list_states_once_and_read_few_jobs_after_those_that_decide() -> None:
    running = {str(number): "RUNNING" for number in range(1000, 1000 + job_listing.MOST_LOOKED_AT)}
    waiting = {str(number): "PENDING" for number in range(5000, 5000 + job_listing.MOST_LOOKED_AT)}
    rest, listing = PlayedRest({**running, **waiting}), job_listing.JobListing()

    async def look() -> None:
        listing.begin_pass()
        await listing.with_processes(rest)
        await listing.named(rest)
        await listing.pending(rest)

    asyncio.run(look())
    assert rest.asked.count("states") == 1
    assert len(rest.asked) == 1 + job_listing.MOST_LOOKED_AT + 2 * job_listing.LEAST_LOOKED_AT
    asyncio.run(look())
    assert rest.asked.count("states") == 2, "each pass lists them anew"


def test_states_that_a_decision_rests_on_are_listed_after_its_nodes() -> None:
    rest, listing = PlayedRest({"7": "PENDING"}), job_listing.JobListing()

    async def look() -> Jobs | Unknown:
        listing.begin_pass()
        await listing.pending(rest)
        rest.states["7"] = "RUNNING"
        return await listing.with_processes(rest)

    found = asyncio.run(look())
    assert isinstance(found, Jobs)
    assert [job.job_id for job in found.jobs] == [7]


def test_a_deep_queue_and_a_refused_look_leave_names_unknown() -> None:
    assert named(PlayedRest({"7": "PENDING"}, job_listing.MOST_LISTED + 1), job_listing.JobListing()) is None
    assert named(PlayedRest({"13": "PENDING"}), job_listing.JobListing()) is None
