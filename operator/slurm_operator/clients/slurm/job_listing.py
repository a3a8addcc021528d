"""Looks at jobs: at the states of all, then at those few that a question is about, one by one.

A queue that is too deep for that is left alone: nothing that takes a node away needs it
(decide/node_sets/full_listing.py).
"""

from __future__ import annotations

import asyncio
import collections
import dataclasses
import datetime
import itertools
import math
import time
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence

from contract.conditions import Reason
from slurm_operator.clients.slurm.slurm_error import SlurmError
from slurm_operator.clients.slurm.slurmrestd import SlurmRest
from slurm_operator.decide.node_sets import records
from slurm_operator.decide.nodes import slurm_nodes
from slurm_operator.state.slurm import Jobs, Named, SlurmJob, TooDeep, Unknown

MOST_LISTED = 10_000
"""Longest list of jobs: slurmrestd takes 20 MiB for 10,000 of them, and time by the square of their number."""
MOST_LOOKED_AT = 200
"""Job records that a look reads: each costs slurmrestd 140 KiB and some milliseconds, and a pass has three seconds."""
LEAST_LOOKED_AT = 40
"""Job records that a look for counts reads in a pass that has read many: it gets on, and the pass ends in time."""
MOST_ALIVE = 1_000
"""Job records that a pass reads before a partition is removed: that is rare, and may take longer.

So many an answer about one array may have, too: one about its own number has all tasks, and MaxArraySize is 1001 by
default.
"""
MOST_SECONDS = 20.0
"""Deadline of one look at jobs. A pass that is late allows less."""
JUDGED_FROM_SECONDS = 10.0
"""A look that had this time and did not finish pauses further looks for REST_SECONDS."""
REST_SECONDS = 600.0
"""Pause after a list that was too long or too slow: slurmctld's own count leaves out ended jobs, and may be old."""
NAMES_SECONDS = 3600.0
"""Only `scontrol update` changes the nodes that a job asks for, so each slurmctld's jobs are read once an hour."""
_FOR_NODES = frozenset({"None", "Resources", "Priority", "ReqNodeNotAvail", "PartitionConfig", "PartitionNodeLimit"})
"""Slurm's reasons of jobs that more nodes would let run; one that is held, or waits for another job, has others."""
AT_ONCE = 4
"""Questions about single jobs that slurmrestd gets at a time."""
MOST_AT_ONCE = 200
"""Job records of the answers that slurmrestd makes at a time, 28 MiB; an array with more is asked for alone."""
_States = list[tuple[str, frozenset[str]]]
"""The number and the states of each job, as slurmrestd lists them: a task's is `2_0`, a component's `21+1`.

The number before `_` and `+` is that of the record. Waiting tasks share the record with their array's number.
"""


class JobListing:
    """The jobs of the clusters of one namespace. What it keeps spares work, and may be lost at any time."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._rests_until: dict[str, float] = {}
        self._known: dict[tuple[str, str], tuple[float, tuple[SlurmJob, ...]]] = {}
        """By slurmrestd and job: when it was looked at, and what was seen."""
        self._started: dict[str, datetime.datetime] = {}
        """By slurmrestd: when the slurmctld started whose jobs are known."""
        self._read = 0
        """Job records that this pass has read."""
        self._listed: tuple[str, _States] | None = None
        """The slurmrestd, and the states that this pass has listed last."""

    def begin_pass(self) -> None:
        """Forget what the pass before has read and listed."""
        self._read, self._listed = 0, None

    @property
    def room(self) -> int:
        """The number of job records that a look for counts may read in this pass."""
        return max(LEAST_LOOKED_AT, MOST_LOOKED_AT - self._read)

    async def with_processes(self, rest: SlurmRest, seconds: float = MOST_SECONDS) -> Jobs | Unknown:
        """Look at jobs that may have processes; if they are too many, at suspended, completing and unheard-of ones."""
        kinds = (slurm_nodes.may_have_processes, slurm_nodes.is_out_of_the_ordinary)
        return await self._look(rest, seconds, MOST_LOOKED_AT, *kinds)

    async def alive(self, rest: SlurmRest, seconds: float = MOST_SECONDS) -> tuple[SlurmJob, ...] | Unknown:
        """Look at all jobs that wait or run; Unknown if there are too many."""
        listed = await self._look(rest, seconds, MOST_ALIVE, slurm_nodes.has_not_ended)
        return listed if isinstance(listed, Unknown) else listed.jobs

    async def named(
        self, rest: SlurmRest, seconds: float = MOST_SECONDS, started: datetime.datetime | None = None
    ) -> Named | None:
        """Sum up which nodes waiting and running jobs and reservations name; None as long as it is not all known.

        A pass looks at some jobs that it does not know yet, so that many jobs take several passes.

        Args:
            rest: the cluster's slurmrestd.
            seconds: the time that the pass has left for it.
            started: when slurmctld did, if that is known. With a restored state other jobs have the numbers of before.
        """
        if started and self._started.setdefault(rest.url, started) != started:
            self._started[rest.url] = started
            self._known = {key: read for key, read in self._known.items() if key[0] != rest.url}
        try:
            async with asyncio.timeout(min(seconds, MOST_SECONDS)):
                states = await self.states(rest)
                if isinstance(states, Unknown):
                    return None
                alive = lookups(states, slurm_nodes.has_not_ended)
                known = self._keep_known(rest.url, alive)
                left = [number for number in sorted(alive) if number not in known]
                async for number, read in self.one_by_one(rest, first(left, alive, self.room), alive):
                    known[number] = tuple(read)
                    self._known[rest.url, number] = (self._clock(), known[number])
                if len(known) < len(alive):
                    return None
                waiting = {asked_as(number) for number, words in states if "PENDING" in words}
                jobs = [job for number, read in known.items() for job in _as_now(read, number in waiting)]
                return records.named(jobs, await rest.reservations())
        except (SlurmError, TimeoutError):
            return None

    def _keep_known(self, url: str, alive: Iterable[str]) -> dict[str, tuple[SlurmJob, ...]]:
        """Forget what is old or over, and return what is known of a cluster's jobs."""
        since, there = self._clock() - NAMES_SECONDS, set(alive)
        self._known = {
            (of, job): read
            for (of, job), read in self._known.items()
            if read[0] > since and (of != url or job in there)
        }
        return {job: jobs for (of, job), (_, jobs) in self._known.items() if of == url}

    async def pending(self, rest: SlurmRest, seconds: float = MOST_SECONDS) -> Mapping[str, int] | None:
        """Return by partition how many nodes waiting jobs ask for, of those jobs that more nodes would let start.

        A job that may run in several partitions counts in each. A task of an array counts once for its node, although
        many may share one. None if there are too many jobs, or nobody tells.
        """
        try:
            async with asyncio.timeout(min(seconds, MOST_SECONDS)):
                states = await self.states(rest)
                if isinstance(states, Unknown):
                    return None
                waiting = lookups(states, lambda words: "PENDING" in words)
                counted: collections.Counter[str] = collections.Counter()
                asked = first(sorted(waiting), waiting, self.room)
                rows = collections.Counter(asked_as(number) for number, words in states if "PENDING" in words)
                looked_at = 0
                async for number, jobs in self.one_by_one(rest, asked, waiting):
                    looked_at += 1
                    for job in filter(_could_start, jobs):
                        counted.update(dict.fromkeys(job.partitions, weight(job, rows[number]) * job.node_count))
                if looked_at == len(waiting):
                    return counted
                if not looked_at:
                    return None
                times = len(waiting) / looked_at  # Some of the jobs stand for all.
                return {partition: math.ceil(nodes * times) for partition, nodes in counted.items()}
        except (SlurmError, TimeoutError):
            return None

    async def _look(
        self, rest: SlurmRest, seconds: float, most: int, *kinds: Callable[[frozenset[str]], bool]
    ) -> Jobs | Unknown:
        """Read the jobs whose states are of the first kind, or if these are too many, of the next.

        Args:
            rest: the cluster's slurmrestd.
            seconds: the time that the pass has left for it.
            most: the largest number of jobs to read.
            kinds: each tells from a job's states whether it is to be read, the widest first.

        Returns:
            The jobs, complete if they are those of the first kind; TooDeep if each kind has too many.
        """
        try:
            async with asyncio.timeout(min(seconds, MOST_SECONDS)):
                self._listed = None  # What takes a node away rests on states that were listed after its nodes.
                states = await self.states(rest)
                if isinstance(states, Unknown):
                    return states
                for kind in kinds:
                    numbers = lookups(states, kind)
                    if len(numbers) <= most:
                        read = [jobs async for _, jobs in self.one_by_one(rest, sorted(numbers), numbers)]
                        if len(read) == len(numbers):
                            return Jobs(tuple(itertools.chain(*read)), complete=kind is kinds[0])
        except SlurmError as error:
            return Unknown(error.reason, str(error))
        except TimeoutError:
            limit = min(seconds, MOST_SECONDS)
            if limit >= JUDGED_FROM_SECONDS:
                self._rests_until[rest.url] = self._clock() + REST_SECONDS
            return TooDeep(Reason.JOBS_NOT_LISTED, f"slurmrestd did not tell of all jobs within {limit:.0f} s")
        return TooDeep(Reason.TOO_MANY_JOBS, f"more than {most} jobs would have to be looked at")

    async def states(self, rest: SlurmRest) -> _States | Unknown:
        """List the states of all jobs once a pass, unless the queue is too deep or was not counted yet.

        Raises:
            SlurmError: slurmrestd does not tell.
        """
        if self._listed and self._listed[0] == rest.url:
            return self._listed[1]
        deep = TooDeep(Reason.TOO_MANY_JOBS, f"the queue is not listed, for it has more than {MOST_LISTED:,} jobs")
        if self._clock() < self._rests_until.get(rest.url, 0.0):
            return deep
        count = await rest.job_count()
        if count is None:
            return TooDeep(Reason.JOBS_NOT_LISTED, "slurmctld has not counted its jobs yet")
        if count > MOST_LISTED:
            return deep
        states = await rest.job_states()
        if len(states) > MOST_LISTED:
            self._rests_until[rest.url] = self._clock() + REST_SECONDS
        self._listed = (rest.url, states)
        return states

    async def one_by_one(
        self, rest: SlurmRest, numbers: Sequence[str], records_of: collections.Counter[str]
    ) -> AsyncIterator[tuple[str, Sequence[SlurmJob]]]:
        """Read jobs by their numbers, a few at a time, without those whose answers are too long for slurmrestd.

        Args:
            rest: the cluster's slurmrestd.
            numbers: the numbers of the records.
            records_of: how many records each answer has, 0 where that is to be asked.
        """
        left = list(numbers)
        while left:
            unknown = [number for number in left[:AT_ONCE] if not records_of[number]]
            counts = await asyncio.gather(*(rest.record_count(int(number)) for number in unknown))
            records_of.update({number: max(1, count) for number, count in zip(unknown, counts, strict=True)})
            some = first(left[:AT_ONCE], records_of, MOST_AT_ONCE)
            del left[: max(1, len(some))]
            for number, jobs in zip(some, await asyncio.gather(*map(rest.job, some)), strict=True):
                self._read += len(jobs)
                # The other tasks and components of an answer have numbers of their own.
                yield number, [job for job in jobs if str(job.job_id) == number]


def _could_start(job: SlurmJob) -> bool:
    """Return whether a job waits for nodes: Slurm's only reason is that they are taken or missing."""
    return "PENDING" in job.states and "COMPLETING" not in job.states and job.waits_for in _FOR_NODES


def weight(job: SlurmJob, rows: int) -> int:
    """Return how many tasks a job's record stands for, if so many rows with its number wait."""
    return max(1, rows) if "PENDING" in job.states else 1


def asked_as(number: str) -> str:
    """Return the number of the record that a row of the listing shows."""
    return number.replace("+", "_").partition("_")[0]


def first(numbers: Iterable[str], records_of: collections.Counter[str], most: int) -> list[str]:
    """Return the numbers that this pass looks at: one alone if its answer is long, none if it is too long."""
    chosen: list[str] = []
    total = 0
    for number in numbers:
        total += max(1, records_of[number])
        if total > most:
            return chosen or ([number] if total <= MOST_ALIVE else [])
        chosen.append(number)
    return chosen


def _as_now(read: Iterable[SlurmJob], waits: bool) -> list[SlurmJob]:
    """Return jobs that were read earlier. One that waits by now has lost the nodes that it had then."""
    return [dataclasses.replace(job, nodes=frozenset()) if waits else job for job in read]


def lookups(
    states: Iterable[tuple[str, frozenset[str]]], kind: Callable[[frozenset[str]], bool]
) -> collections.Counter[str]:
    """Return the numbers of the records to read, and how many records each answer has; 0 where that is to be asked.

    An answer about the number of an array has all its tasks, and one about another task only that. Which it is shows in
    no state (slurm 26.05, pack_one_job in src/slurmctld/job_mgr.c). Of few tasks all together are no long answer.
    """
    tasks, asked = set[str](), set[str]()
    for number, words in states:
        if "_" in number:
            tasks.add(asked_as(number))
        if kind(words):
            asked.add(asked_as(number))
    are_few = len(tasks) * AT_ONCE <= MOST_AT_ONCE
    return collections.Counter({number: int(are_few or number not in tasks) for number in asked})
