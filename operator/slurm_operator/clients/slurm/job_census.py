"""Takes a census of jobs: all that wait or run, read one by one and kept as long as their states stay as they were."""

from __future__ import annotations

import asyncio
import collections
import dataclasses
import time
from collections.abc import Callable, Iterable, Iterator, Sequence

from slurm_operator.clients.slurm import job_listing
from slurm_operator.clients.slurm.job_listing import JobListing
from slurm_operator.clients.slurm.slurm_error import SlurmError, Trouble
from slurm_operator.clients.slurm.slurmrestd import SlurmRest
from slurm_operator.decide.nodes import slurm_nodes
from slurm_operator.state.slurm import Census, SlurmJob, Unknown

_States = collections.Counter[frozenset[str]]
"""State → number of the jobs, tasks or components under one job number that have it."""


@dataclasses.dataclass(frozen=True, slots=True)
class _Read:
    """The records under one number, the states that they were listed with, and when they were read."""

    jobs: tuple[SlurmJob, ...]
    states: _States
    at: float


class JobCensus:
    """The jobs of one cluster. What it keeps spares work, and may be lost at any time."""

    def __init__(self, listing: JobListing, clock: Callable[[], float] = time.monotonic) -> None:
        self._listing = listing
        self._clock = clock
        self._url = ""
        self._known: dict[str, _Read] = {}

    async def take(self, rest: SlurmRest, seconds: float) -> Census | Unknown:
        """Look at all jobs that wait or run; Unknown if there are too many, or nobody tells.

        A look reads some jobs that it does not know, so that many jobs take several looks.
        """
        if rest.url != self._url:
            self._url, self._known = rest.url, {}
        try:
            async with asyncio.timeout(min(seconds, job_listing.MOST_SECONDS)):
                listed = await self._listing.states(rest)
                if isinstance(listed, Unknown):
                    return listed
                records = job_listing.lookups(listed, slurm_nodes.has_not_ended)
                states = _by_number(listed, records)
                self._forget(states)
                new = [number for number in sorted(records) if number not in self._known]
                asked = job_listing.first(new, records, self._listing.room)
                async for number, jobs in self._listing.one_by_one(rest, asked, records):
                    self._known[number] = _Read(tuple(jobs), states[number], self._clock())
        except SlurmError as error:
            return Unknown(error.reason, str(error))
        except TimeoutError:
            return Unknown(Trouble.UNREACHABLE, f"slurmrestd did not tell of jobs within {seconds:.0f} s")
        known = (row for number, read in self._known.items() for row in _alive_of(read.jobs, states[number]))
        unread = sum(_alive(rows) for number, rows in states.items() if number not in self._known)
        return Census(tuple(known), unread)

    def _forget(self, states: dict[str, _States]) -> None:
        """Forget what is over, has changed, or is old: `scontrol update` may change a job without its state."""
        since = self._clock() - job_listing.NAMES_SECONDS
        self._known = {
            number: read
            for number, read in self._known.items()
            if read.at > since and read.states == states.get(number)
        }


def _by_number(listed: Iterable[tuple[str, frozenset[str]]], wanted: collections.Counter[str]) -> dict[str, _States]:
    """Return the states of all jobs, tasks and components under each number to ask for."""
    states: dict[str, _States] = {number: collections.Counter() for number in wanted}
    for number, words in listed:
        if (asked := job_listing.asked_as(number)) in states:
            states[asked][words] += 1
    return states


def _alive(states: _States) -> int:
    return sum(rows for words, rows in states.items() if slurm_nodes.has_not_ended(words))


def _alive_of(jobs: Sequence[SlurmJob], states: _States) -> Iterator[tuple[SlurmJob, int]]:
    """Yield jobs that wait or run, with how many each stands for."""
    rows = sum(times for words, times in states.items() if "PENDING" in words)
    return ((job, job_listing.weight(job, rows)) for job in jobs if slurm_nodes.is_alive(job))
