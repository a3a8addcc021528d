"""Promises about the operator's looks at jobs of long checks: none is lost or counts twice, whenever it restarts."""

from __future__ import annotations

import asyncio
import dataclasses
import json
import random
from collections.abc import Awaitable, Mapping
from typing import Any, cast

import hypothesis
import pytest
from hypothesis import strategies as st
from slurm_operator.actions import Drain
from slurm_operator.clients.slurm.slurm_error import SlurmError, Trouble
from slurm_operator.decide.cluster.checks import ledger as check_ledger
from slurm_operator.decide.cluster.checks import long_checks
from slurm_operator.decide.cluster.checks.ledger import CheckJob, Ledger, Verdict
from slurm_operator.findings import Finding
from slurm_operator.reconcile.health.long_checks import LongChecks
from slurm_operator.reconcile.pass_budget import PassBudget
from slurm_operator.reconcile.pass_context import PassContext
from slurm_operator.state.slurm import SeenCheckJob, SlurmNode

from contract import names
from contract.conditions import Reason
from tests.operator.states.check_samples import CHECK, NOW, ended, node, state
from tests.operator.worlds.slow_world import SlowWorld, VirtualLoop, at_once, passes

DECLARED = type("Cluster", (), {"long_checks": (CHECK,), "requested_checks": {}, "namespace": "hpc"})()
SEEN = cast(Any, type("Seen", (), {"cluster": DECLARED})())


class Played:
    """slurmctld, an API server and an operator that dies now and then."""

    def __init__(self, seed: int, size: int) -> None:
        self.random = random.Random(seed)
        self.time = 0.0
        self.jobs: dict[int, SeenCheckJob] = {}
        self.drained: dict[str, list[str]] = {}
        self.failed: dict[int, str] = {}
        self.size = size
        self.nodes = state(size, breaker=100)
        self.body: dict[str, Any] = {"metadata": {"uid": "1"}, "status": {}}
        self.away = False
        self.operator = self.new_operator()

    def new_operator(self) -> LongChecks:
        return LongChecks(cast(Any, self), cast(Any, self), lambda: self.time)

    def check(self) -> None:
        """The lease is ours."""

    async def attempt(self, body: Any, kind: str, work: Awaitable[str | None]) -> list[Finding]:
        try:
            await work
        except SlurmError as error:
            return [Finding(Reason.ACTION_FAILED, str(error))]
        return []

    async def execute(self, rest: Any, body: Any, drain: Drain) -> list[Finding]:
        if self.away:
            return [Finding(Reason.ACTION_FAILED, "away")]
        self.drained.setdefault(drain.node, []).append(drain.reason)
        self.set_node(node(drain.node, "IDLE DRAIN", drain.reason))
        return []

    def set_node(self, other: SlurmNode) -> None:
        nodes = {**cast(Mapping[str, SlurmNode], self.nodes.nodes), other.name: other}
        self.nodes = dataclasses.replace(self.nodes, nodes=nodes)

    async def submit(self, asked: Mapping[str, Any]) -> int:
        self._fail_sometimes()
        number = len(self.jobs) + 1
        states = frozenset({"PENDING"})
        user = int(asked["user_id"])
        self.jobs[number] = SeenCheckJob(asked["name"], user, frozenset(asked["required_nodes"]), states, held=True)
        return number

    async def reservations(self) -> tuple[()]:
        return ()

    async def release(self, job_id: int) -> None:
        self._fail_sometimes()
        self.jobs[job_id] = dataclasses.replace(self.jobs[job_id], held=False)

    async def check_job(self, job_id: int) -> SeenCheckJob | None:
        self._fail_sometimes()
        return self.jobs.get(job_id)

    def _fail_sometimes(self) -> None:
        if self.away:
            raise SlurmError(Trouble.UNREACHABLE, "away")

    def end_some(self) -> None:
        """Some jobs that may run end, in any order and in any way."""
        for number, there in self.random.sample([*self.jobs.items()], len(self.jobs)):
            if there.held or there.states != {"PENDING"} or self.random.random() < 0.5:
                continue
            end = self.random.choice(["COMPLETED", "FAILED", "TIMEOUT", "NODE_FAIL", "OUT_OF_MEMORY", "CANCELLED"])
            self.jobs[number] = dataclasses.replace(there, states=frozenset({end}), status=1)
            if end not in ("COMPLETED", "CANCELLED"):
                (self.failed[number],) = there.nodes

    def look(self, *, dies: bool) -> None:
        """A pass: it tells the status as the API server has it from then on, unless the operator dies before."""
        self.time += 11
        if not dies and (told := self.operator.told(self.body, [CHECK])) is not None:
            self.body = json.loads(json.dumps({**self.body, "status": {"longChecks": told}}))
        now = PassContext(cast(Any, self), self.body, SEEN, cast(Any, None), PassBudget(lambda: self.time))
        nodes = cast(Mapping[str, SlurmNode], self.nodes.nodes)
        asyncio.run(self.operator.act(now, {"cpu": self.nodes}, nodes))
        if dies:
            self.operator = self.new_operator()


def test_a_look_at_as_many_jobs_as_there_may_be_takes_less_than_a_second() -> None:
    """Each answer takes 0.03 s, as among 10,000 jobs (docs/operator.md), and a pass has three seconds."""
    jobs = {n: CheckJob(n, "bandwidth", f"cpu-{n - 1}", NOW) for n in range(1, long_checks.MOST_JOBS + 1)}
    body = {"metadata": {"uid": "1"}, "status": {"longChecks": check_ledger.written(Ledger(jobs), ["bandwidth"])}}
    asked: list[int] = []

    class Slow:
        async def check_job(self, job_id: int) -> SeenCheckJob:
            asked.append(job_id)
            await asyncio.sleep(0.03)  # As long as slurmrestd takes.
            return ended("RUNNING", None, f"cpu-{job_id - 1}")

        async def reservations(self) -> tuple[()]:
            return ()

    async def look(loop: VirtualLoop) -> float:
        now = PassContext(cast(Any, Slow()), body, SEEN, cast(Any, None), PassBudget(loop.time))
        checked = state(long_checks.MOST_JOBS)
        nodes = cast(Mapping[str, SlurmNode], checked.nodes)
        await LongChecks(cast(Any, None), cast(Any, None), loop.time).act(now, {"cpu": checked}, nodes)
        return loop.time()

    assert at_once(look) < 1
    assert sorted(asked) == sorted(jobs)


def test_a_pass_names_the_jobs_that_a_requested_check_waits_for() -> None:
    read = {"everySeconds": 3600, "timeLimitMinutes": 5, "sharePercent": 50, "drains": True, "script": ""}
    check = {"name": "bandwidth", "partition": "main", "nodeSets": ["cpu"], **read}

    async def work(loop: VirtualLoop) -> SlowWorld:
        world = SlowWorld(loop, {"cpu": 1}, seconds=0.1)
        cluster = world.api.there[names.SLURM_CLUSTERS, "test"]
        cluster["spec"]["longChecks"] = [check]
        cluster["metadata"]["annotations"] = {f"{names.CHECK_REQUEST_PREFIX}bandwidth": "cpu-0"}
        world.slurm.run_job("cpu-0")
        await passes(world, minutes=1)
        return world

    status = at_once(work).api.there[names.SLURM_CLUSTERS, "test"]["status"]
    (told,) = (each["message"] for each in status["conditions"] if each["type"] == "Progressing")
    assert "cpu-0 (not idle: job 1 (" in told


def test_a_refusal_for_want_of_an_association_says_the_command_that_makes_it(monkeypatch: pytest.MonkeyPatch) -> None:
    async def refuse(asked: Mapping[str, Any]) -> int:
        raise SlurmError(Trouble.REFUSED, "Invalid account or account/partition combination", frozenset({2045}))

    played = Played(0, size=1)
    monkeypatch.setattr(played, "submit", refuse)
    played.look(dies=False)
    (problem,) = played.operator.problems
    assert "kubectl -n hpc exec slurm-accounting-0 -- sacctmgr -i add user nobody account=NAME" in problem.message


@hypothesis.given(seed=st.integers(0, 2**32))
@hypothesis.settings(max_examples=20, deadline=None)
def test_two_hundred_verdicts_in_any_order_with_restarts_lose_none_and_count_once(seed: int) -> None:
    played = Played(seed, size=200)
    for _ in range(400):
        played.away = played.random.random() < 0.1
        played.look(dies=played.random.random() < 0.2)
        played.end_some()
        if len([job for job in played.jobs.values() if job.states != {"PENDING"}]) >= 200:
            break
    played.away = False
    for _ in range(3):
        played.look(dies=False)
    ends = [there for there in played.jobs.values() if there.states != {"PENDING"}]
    assert len(ends) >= 200
    # Each failure drained its node, and nothing else did.
    assert sorted(played.drained) == sorted(set(played.failed.values()))
    assert all(len(reasons_given) == 1 for reasons_given in played.drained.values())
    # Each job counts once.
    counted = check_ledger.read(played.operator.told(played.body, [CHECK]) or ()).counts
    passed = sum(there.states == {"COMPLETED"} for there in ends)
    cancelled = sum(there.states == {"CANCELLED"} for there in ends)
    expected = {Verdict.PASS: passed, Verdict.FAIL: len(played.failed), Verdict.NONE: cancelled}
    assert {verdict: number for (_, verdict), number in counted.items()} == {k: v for k, v in expected.items() if v}
