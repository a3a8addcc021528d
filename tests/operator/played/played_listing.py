"""A slurmrestd and a clock for listings of jobs."""

from __future__ import annotations

import asyncio
import datetime
from collections.abc import Sequence

from slurm_operator.clients.slurm import job_listing
from slurm_operator.clients.slurm.slurm_error import SlurmError, Trouble
from slurm_operator.clients.slurm.slurmrestd import SlurmRest
from slurm_operator.state.slurm import Named, Reservation, SlurmJob

AT = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)


class PlayedRest(SlurmRest):
    """Jobs by id, as the listing of states names them, and what was asked."""

    url = "http://rest"

    def __init__(self, states: dict[str, str], waiting: int | None = 0) -> None:
        self.states, self.waiting = states, waiting
        self.asked: list[str] = []
        self.names: dict[str, str] = {}
        """Job → the node that it asks for."""
        self.lengths: dict[str, int] = {}
        """Array → records of an answer about it."""

    async def job_count(self) -> int | None:
        return self.waiting

    async def job_states(self) -> list[tuple[str, frozenset[str]]]:
        self.asked.append("states")
        return [(number, frozenset(states.split())) for number, states in self.states.items()]

    async def job(self, number: str) -> Sequence[SlurmJob]:
        self.asked.append(number)
        if number == "13":
            raise SlurmError(Trouble.UNREACHABLE, "away")
        named = frozenset({self.names.get(number, "")} - {""})
        state = frozenset(self.states.get(number, "RUNNING").split())
        nodes = frozenset() if "PENDING" in state else frozenset({"cpu-0"})
        return [SlurmJob(int(number), state, frozenset({"main"}), nodes, names=named)]

    async def record_count(self, job_id: int) -> int:
        return self.lengths.get(str(job_id), 1)

    async def reservations(self) -> tuple[Reservation, ...]:
        return (Reservation("later", frozenset({"cpu-9"}), AT, AT),)


class Clock:
    """A clock that is set by hand."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def waiting(number: int, nodes: int = 1, reason: str = "Resources", partitions: str = "main") -> SlurmJob:
    asked = frozenset(partitions.split(","))
    return SlurmJob(number, frozenset({"PENDING"}), asked, frozenset(), node_count=nodes, waits_for=reason)


def named(rest: PlayedRest, listing: job_listing.JobListing, started: datetime.datetime | None = None) -> Named | None:
    rest.asked.clear()
    listing.begin_pass()
    return asyncio.run(listing.named(rest, started=started))
