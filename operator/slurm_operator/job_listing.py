"""Looks at jobs: at the states of all, then at those few that a question is about, one by one.

A queue that is too deep for that is left alone: nothing that takes a node away needs it (decisions/evidence.py).
"""

from __future__ import annotations

import asyncio
import collections
import time
from collections.abc import Callable, Iterable

from slurm_operator.decisions import nodes as slurm_nodes
from slurm_operator.seen import Jobs, SlurmJob, TooDeep, Unknown
from slurm_operator.slurm_rest import SlurmError, SlurmRest

MOST_LISTED = 10_000
"""A longer list costs slurmrestd seconds, which grow with the square of its length, and 20 MiB for each 10,000 jobs."""
MOST_LOOKED_AT = 200
"""A record costs slurmrestd 140 KiB and some milliseconds, and a pass is to take at most three seconds."""
MOST_ALIVE = 1_000
"""A configuration that takes a partition away is rare, and may wait longer."""
REST_SECONDS = 600.0
"""Only jobs that wait or run are counted, and not at once; a list that is found to be too long is left for so long."""
_AT_ONCE = 4
_SECONDS = 20.0


class JobListing:
    """The jobs of one cluster. What it keeps spares work, and may be lost at any time."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._rests_until = 0.0

    async def with_processes(self, rest: SlurmRest) -> Jobs | Unknown:
        """Look at the jobs that may have processes; of very many only at those in states that are no plain running."""
        kinds = (slurm_nodes.may_have_processes, slurm_nodes.is_out_of_the_ordinary)
        return await self._look(rest, MOST_LOOKED_AT, *kinds)

    async def alive(self, rest: SlurmRest) -> tuple[SlurmJob, ...] | Unknown:
        """Look at all jobs that wait or run; Unknown if there are too many."""
        found = await self._look(rest, MOST_ALIVE, slurm_nodes.has_not_ended)
        return found if isinstance(found, Unknown) else found.jobs

    async def _look(self, rest: SlurmRest, most: int, *kinds: Callable[[frozenset[str]], bool]) -> Jobs | Unknown:
        """Look at the jobs whose states are of the first kind, or if these are too many, of the next."""
        try:
            async with asyncio.timeout(_SECONDS):
                states = await self._states(rest)
                if isinstance(states, Unknown):
                    return states
                for kind in kinds:
                    numbers = _lookups(states, kind)
                    if sum(numbers.values()) <= most:
                        return Jobs(await _each(rest, numbers), complete=kind is kinds[0])
        except SlurmError as error:
            return Unknown(error.reason, str(error))
        except TimeoutError:
            self._rests_until = self._clock() + REST_SECONDS
            return TooDeep("JobsNotListed", f"slurmrestd did not tell of all jobs within {_SECONDS:.0f} s")
        return TooDeep("TooManyJobs", f"more than {most} jobs would have to be looked at")

    async def _states(self, rest: SlurmRest) -> list[tuple[str, frozenset[str]]] | Unknown:
        count = None if self._clock() < self._rests_until else await rest.job_count()
        if count is None or count > MOST_LISTED:
            return TooDeep("TooManyJobs", f"the queue is not listed, for it has more than {MOST_LISTED:,} jobs")
        states = await rest.job_states()
        if len(states) > MOST_LISTED:
            self._rests_until = self._clock() + REST_SECONDS
        return states


def _lookups(
    states: Iterable[tuple[str, frozenset[str]]], kind: Callable[[frozenset[str]], bool]
) -> collections.Counter[str]:
    """What to ask for, and how many records each answer has.

    The answer about a task has the whole array, one about a component the whole heterogeneous job. The waiting tasks of
    an array are one record.
    """
    records: collections.Counter[str] = collections.Counter()
    asked = set()
    for number, each in states:
        whole = number.replace("+", "_").partition("_")[0]
        records[whole] = max(1, records[whole]) + (each != {"PENDING"})
        if kind(each):
            asked.add(whole)
    return collections.Counter({whole: records[whole] for whole in asked})


async def _each(rest: SlurmRest, numbers: Iterable[str]) -> tuple[SlurmJob, ...]:
    found: dict[int, SlurmJob] = {}
    left = sorted(numbers)
    for begin in range(0, len(left), _AT_ONCE):
        for jobs in await asyncio.gather(*(rest.job(number) for number in left[begin : begin + _AT_ONCE])):
            found |= {job.job_id: job for job in jobs}
    return tuple(found.values())
