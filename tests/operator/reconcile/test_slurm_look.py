"""Promises about a pass's look at Slurm: jobs are looked at seldom, and told in each pass that has words about them."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Mapping

from slurm_operator.clients.slurm.job_listing import JobListing
from slurm_operator.decide.nodes.workers import NodeSetState
from slurm_operator.reconcile.defects import Defects
from slurm_operator.reconcile.pass_budget import PassBudget
from slurm_operator.reconcile.slurm_look import RECORDS_SECONDS, TOLD_SECONDS, SlurmLook
from slurm_operator.state.slurm import SlurmNode, Unknown

from tests.operator.played.played_listing import Clock, PlayedRest
from tests.operator.states.record_sizes import LARGE, SMALL, declares, sized
from tests.operator.states.seen_clusters import BLIND
from tests.operator.states.sets import node, state
from tests.operator.states.updates import NEW, pod
from tests.operator.states.updates import state as updated


class Nodes(PlayedRest):
    """One node, and jobs."""

    def __init__(self, record: SlurmNode, states: dict[str, str]) -> None:
        super().__init__(states)
        self.record = record

    async def nodes(self, *, full: bool) -> Mapping[str, SlurmNode]:
        return {self.record.name: self.record}


def test_the_job_that_keeps_a_record_is_told_between_looks_at_jobs_too_but_not_for_ever() -> None:
    clock, rest = Clock(), Nodes(sized(node("cpu-0"), SMALL), {"7": "PENDING"})
    rest.names = {"7": "cpu-0"}
    look = SlurmLook(JobListing(clock), Defects(), clock)

    def told(size: NodeSetState) -> list[int]:
        rest.asked.clear()
        seen = look.look(rest, [size], BLIND, PassBudget(clock), jobs_told=False)
        jobs = asyncio.run(seen).jobs
        return [] if isinstance(jobs, Unknown) else [job.job_id for job in jobs]

    assert told(declares(LARGE, NEW)) == [7]
    assert rest.asked
    clock.now += RECORDS_SECONDS / 2
    assert (told(declares(LARGE, NEW)), rest.asked) == ([7], [])
    rest.record = node("cpu-0", "DOWN", "RESERVED")
    assert told(state(0, 0)) == [7]
    clock.now += TOLD_SECONDS
    assert told(state(0, 0)) == []


def seen_jobs(record: SlurmNode, size: NodeSetState) -> list[int]:
    clock = Clock()
    look = SlurmLook(JobListing(clock), Defects(), clock)
    seen = look.look(Nodes(record, {"7": "RUNNING"}), [size], BLIND, PassBudget(clock), jobs_told=False)
    jobs = asyncio.run(seen).jobs
    return [] if isinstance(jobs, Unknown) else [job.job_id for job in jobs]


def test_the_job_that_a_reboot_waits_for_is_looked_at() -> None:
    asked = node("cpu-0", "MIXED", "DRAIN", "REBOOT_REQUESTED", cpus=1, reason="Reboot ASAP", reason_user="alice")
    assert seen_jobs(asked, updated([pod("cpu-0", NEW)])) == [7]


def test_the_job_that_a_requested_long_check_waits_for_is_looked_at() -> None:
    size, busy = updated([pod("cpu-0", NEW)]), node("cpu-0", "MIXED", cpus=1)
    assert seen_jobs(busy, size) == []
    assert seen_jobs(busy, dataclasses.replace(size, asked_for=frozenset({"cpu-0"}))) == [7]
    assert seen_jobs(node("cpu-0"), dataclasses.replace(size, asked_for=frozenset({"cpu-0"}))) == []
