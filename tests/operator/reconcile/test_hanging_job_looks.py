"""Promises about the operator's looks at jobs that hang: each step goes to Slurm, and the status comes before it."""

from __future__ import annotations

import asyncio
import datetime
from collections.abc import Awaitable
from types import SimpleNamespace
from typing import Any, cast

from node_health import notes
from slurm_operator import metrics
from slurm_operator.clients.slurm.job_listing import MOST_ALIVE
from slurm_operator.clients.slurm.slurm_error import SlurmError, Trouble
from slurm_operator.execute import Executor
from slurm_operator.findings import Finding
from slurm_operator.reconcile.health.hanging_jobs import EVERY_SECONDS, HangingJobs
from slurm_operator.reconcile.pass_context import PassContext
from slurm_operator.state.resources import HangPolicy
from slurm_operator.state.slurm import SeenQuietJob, SlurmNode

from contract import node_notes
from tests.operator.played.played_clients import LeaseFor


class Slurm:
    """One job in place of slurmrestd, and what became of it."""

    def __init__(self) -> None:
        self.job = SeenQuietJob(812, frozenset({"RUNNING"}), "main", frozenset({"cpu-0"}), requeues=True)
        self.calls: list[tuple[Any, ...]] = []
        self.reads, self.away = 0, False
        self.records = 1

    async def record_count(self, job_id: int) -> int:
        return self.records

    async def quiet_job(self, job_id: int) -> SeenQuietJob | None:
        self.reads += 1
        if self.away:
            raise SlurmError(Trouble.REFUSED, "no")
        return self.job if job_id == 812 else None

    async def comment_job(self, job_id: int, text: str) -> None:
        self.calls.append(("comment", text.removeprefix(node_notes.HANGS).partition(",")[0]))
        self._become(comment=text)

    async def requeue_held(self, job_id: int) -> None:
        self.calls.append(("requeue", job_id))
        self._become(states=frozenset({"PENDING"}), held=True, nodes=frozenset())

    async def exclude_nodes(self, job_id: int, nodes: tuple[str, ...]) -> None:
        self.calls.append(("exclude", *nodes))
        self._become(excluded=frozenset(nodes))

    async def release(self, job_id: int) -> None:
        self.calls.append(("release", job_id))
        self._become(held=False)

    def _become(self, **changes: Any) -> None:
        fields = {name: getattr(self.job, name) for name in SeenQuietJob.__dataclass_fields__}
        self.job = SeenQuietJob(**{**fields, **changes})


class Attempts:
    """Makes each change at once, and notes the name of its Event."""

    def __init__(self, events: list[str]) -> None:
        self._events = events

    async def attempt(self, body: dict[str, Any], kind: str, work: Awaitable[str | None]) -> list[Finding]:
        await work
        self._events.append(kind)
        return []


class World:
    """Passes over one cluster, whose status is written between them."""

    def __init__(self, *policies: HangPolicy) -> None:
        self.slurm, self.now, self.policies = Slurm(), 0.0, policies
        self.status: dict[str, Any] = {}
        self.events = list[str]()
        since = datetime.datetime.now(datetime.UTC) - datetime.timedelta(hours=2)
        note = notes.quiet({812: f"{since:%Y-%m-%dT%H:%M:%SZ}"})
        self.nodes = {
            "cpu-0": SlurmNode("cpu-0", frozenset({"ALLOCATED"}), extra=note),
            "cpu-1": SlurmNode("cpu-1", frozenset({"IDLE"})),
        }
        self.operator = self.another()

    def another(self) -> HangingJobs:
        return HangingJobs(cast(Executor, Attempts(self.events)), LeaseFor(10**9), lambda: self.now)

    def look(self, *, writes: bool = True) -> None:
        body = {"metadata": {"uid": "u"}, "status": self.status}
        seen = SimpleNamespace(cluster=SimpleNamespace(hangs=self.policies))
        budget = SimpleNamespace(ends=lambda: 0.0, is_over=lambda ends: False)
        context = SimpleNamespace(rest=self.slurm, body=body, seen=seen, budget=budget)
        asyncio.run(self.operator.act(cast(PassContext, context), self.nodes))
        if writes:
            told = self.operator.told(body)
            self.status = {"hangs": told} if told else {}
        self.now += EVERY_SECONDS


def test_a_job_is_told_then_queued_again_then_released_elsewhere_by_operators_that_die_in_between() -> None:
    world = World(HangPolicy("main", 3600, requeues=True))
    for _ in range(6):
        world.look()
        world.operator = world.another()
    assert [call[0] for call in world.slurm.calls] == ["comment", "comment", "requeue", "exclude", "release"]
    assert ("exclude", "cpu-0") in world.slurm.calls
    assert world.events == ["JobHangs", "JobHangs", "RequeueHanging", "ReleaseHanging"]
    assert not world.slurm.job.held
    assert [(row["node"], row["jobs"]) for row in world.status["hangs"]["suspects"]] == [("cpu-0", 1)]
    assert "jobs" not in world.status["hangs"]


def test_no_job_is_queued_again_while_the_status_can_not_be_written() -> None:
    world = World(HangPolicy("main", 3600, requeues=True))
    for _ in range(6):
        world.look(writes=False)
    assert [call[0] for call in world.slurm.calls] == ["comment"]


def test_jobs_are_only_told_without_the_policy_and_nobody_looks_without_any() -> None:
    told, silent = World(HangPolicy("main", 3600, requeues=False)), World()
    for world in (told, silent):
        for _ in range(4):
            world.look()
    assert [call[0] for call in told.slurm.calls] == ["comment"]
    samples = [each for family in metrics.HANGING_JOBS.collect() for each in family.samples]
    assert [(each.labels, each.value) for each in samples] == [({"partition": "main"}, 1)]
    assert (silent.slurm.reads, silent.status) == (0, {})


def test_a_task_is_left_alone_while_it_could_be_read_only_with_more_of_its_array_than_slurmrestd_takes() -> None:
    world = World(HangPolicy("main", 3600, requeues=True))
    world.slurm.records = MOST_ALIVE + 1
    world.look()
    assert (world.slurm.reads, world.status) == (0, {})
    world.slurm.records = MOST_ALIVE
    world.look()
    assert [row["id"] for row in world.status["hangs"]["jobs"]] == [812]
    before, world.slurm.records = world.status, MOST_ALIVE + 1
    world.look()
    assert world.status == before, "what was found stays"


def test_slurms_refusal_is_told_and_changes_nothing() -> None:
    world = World(HangPolicy("main", 3600, requeues=True))
    world.look()
    before = world.status
    world.slurm.away = True
    world.look()
    assert [finding.message for finding in world.operator.problems] == ["jobs that hang: no"]
    assert world.status == before
