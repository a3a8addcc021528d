"""Promises about progress: what /readyz counts as such, and that no defect ends the task that holds the lease."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import httpx
import pytest
from slurm_operator import handlers, health
from slurm_operator.clients.kubernetes import KubernetesApi, KubernetesError
from slurm_operator.clients.lease import Lease, NotLeading
from slurm_operator.decide.cluster import requeue

from devcluster.apiserver.control_plane import free_ports
from tests.operator.worlds.slow_world import Objects, VirtualLoop, at_once

LATER = 2 * health.STALLED_SECONDS


class Clock:
    """A clock that is set by hand."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


class Outcome:
    """A pass or renewal that takes long and ends in one way; the second one shows that the first has ended."""

    def __init__(self, clock: Clock, error: Exception | None) -> None:
        self.clock, self.error, self.again = clock, error, asyncio.Event()
        self.begun = False

    async def run(self) -> requeue.Outcome:
        if self.begun:
            self.again.set()
            await asyncio.sleep(3600)
        self.begun, self.clock.now = True, LATER
        if isinstance(self.error, TimeoutError):
            await asyncio.sleep(3600)
        if self.error:
            raise self.error
        return requeue.Outcome.PROGRESSING


async def answer_after(task: Any, outcome: Outcome, progress: health.Progress) -> int:
    """Return what /readyz says once the first try of a task is over."""
    port = free_ports(1)[0]
    stop = health.serve(health.Progress(), {"tried": progress}, port)
    running = asyncio.create_task(task)
    try:
        async with asyncio.timeout(60), httpx.AsyncClient(trust_env=False) as client:
            await outcome.again.wait()
            return (await client.get(f"http://127.0.0.1:{port}/readyz")).status_code
    finally:
        running.cancel()
        stop()


AWAY, CONFLICT = KubernetesError(0, "no answer"), KubernetesError(409, "changed")
DENIED, UNKNOWN_TOKEN = KubernetesError(403, "forbidden"), KubernetesError(401, "unauthorized")


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (None, 200),
        (NotLeading(), 200),
        (AWAY, 200),
        (CONFLICT, 200),
        (DENIED, 503),
        (UNKNOWN_TOKEN, 503),
        (TimeoutError(), 503),
        (KeyError("spec"), 503),
    ],
    ids=["done", "another leads", "away", "conflict", "no rights", "no account", "hangs", "defect"],
)
def test_a_pass_that_hangs_fails_or_is_denied_is_no_progress(
    monkeypatch: pytest.MonkeyPatch, error: Exception | None, status: int
) -> None:
    monkeypatch.setattr(handlers, "PASS_DEADLINE_SECONDS", 1.0)
    monkeypatch.setattr(requeue, "PROGRESSING_SECONDS", 0.0)

    async def tried() -> int:
        clock = Clock()
        progress, outcome = health.Progress(clock), Outcome(clock, error)
        passing = handlers._keep_passing("slurm", outcome.run, asyncio.Event(), progress)
        return await answer_after(passing, outcome, progress)

    assert asyncio.run(tried()) == status


@pytest.mark.parametrize(
    ("error", "status"), [(None, 200), (AWAY, 200), (DENIED, 503), (KeyError("spec"), 503)], ids=str
)
def test_a_lease_that_cannot_be_renewed_is_tried_again_and_told(
    monkeypatch: pytest.MonkeyPatch, error: Exception | None, status: int
) -> None:
    monkeypatch.setattr(handlers, "RENEW_SECONDS", 0.0)

    async def tried() -> int:
        clock = Clock()
        progress, outcome = health.Progress(clock), Outcome(clock, error)
        lease = Lease(cast(KubernetesApi, None), "one")
        monkeypatch.setattr(lease, "renew", outcome.run)
        return await answer_after(handlers._keep_lease(lease, progress, lambda: None), outcome, progress)

    assert asyncio.run(tried()) == status


@pytest.mark.parametrize("after_seconds", [60.0, 60.5, 61.0, 61.9])
def test_the_lease_of_a_killed_operator_is_anothers_within_15_seconds(after_seconds: float) -> None:
    async def taken_after(loop: VirtualLoop) -> float:
        api, taken = Objects(loop.time), (asyncio.Event(), asyncio.Event())
        leases = [Lease(api, name, loop.time) for name in ("one", "two")]
        tasks = [
            asyncio.create_task(handlers._keep_lease(lease, health.Progress(), news.set))
            for lease, news in zip(leases, taken, strict=True)
        ]
        await asyncio.sleep(after_seconds)  # By the clock of a virtual loop.
        assert [lease.held() for lease in leases] == [True, False]
        tasks[0].cancel()
        killed = loop.time()
        await taken[1].wait()
        tasks[1].cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        return loop.time() - killed

    assert at_once(taken_after) < 15


def test_one_trouble_with_the_lease_is_told_once_and_again_when_it_comes_back(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(handlers, "RENEW_SECONDS", 0.0)
    outcomes: list[Exception | None] = [AWAY, AWAY, DENIED, DENIED, None, DENIED]

    async def tried() -> None:
        lease, over = Lease(cast(KubernetesApi, None), "one"), asyncio.Event()

        async def renew() -> None:
            if not outcomes:
                over.set()
                await asyncio.sleep(3600)
            if error := outcomes.pop(0):
                raise error

        monkeypatch.setattr(lease, "renew", renew)
        running = asyncio.create_task(handlers._keep_lease(lease, health.Progress(), lambda: None))
        async with asyncio.timeout(60):
            await over.wait()
        running.cancel()

    asyncio.run(tried())
    said = [record.getMessage() for record in caplog.records if "not renewed" in record.getMessage()]
    assert said == [f"lease not renewed: error={each}" for each in (AWAY, DENIED, DENIED)]


def test_a_lease_without_content_is_taken() -> None:
    class Leases:
        """An API server with a Lease that says nothing."""

        async def get(self, *_: object) -> dict[str, Any]:
            return {"metadata": {"name": "slurm-operator", "resourceVersion": "1"}}

        async def replace(self, *_: object) -> None:
            return None

    lease = Lease(cast(KubernetesApi, Leases()), "one")
    asyncio.run(lease.renew())
    assert lease.held()


def test_an_operator_that_takes_the_lease_begins_its_reads_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its earlier reads may be older than the changes by the operator that led meanwhile."""
    monkeypatch.setattr(handlers, "RENEW_SECONDS", 0.0)
    holds, anew = [False, False, True, True, True], []

    async def tried() -> None:
        lease, over = Lease(cast(KubernetesApi, None), "one"), asyncio.Event()
        rounds = 0

        async def renew() -> None:
            nonlocal rounds
            rounds += 1
            if rounds == len(holds):
                over.set()
                await asyncio.Event().wait()

        monkeypatch.setattr(handlers, "LOOK_SECONDS", 0.0)
        monkeypatch.setattr(lease, "renew", renew)
        monkeypatch.setattr(lease, "held", lambda: holds[rounds])
        running = asyncio.create_task(handlers._keep_lease(lease, health.Progress(), lambda: anew.append(rounds)))
        async with asyncio.timeout(60):
            await over.wait()
        running.cancel()

    asyncio.run(tried())
    assert anew == [2], "once, with the renewal that took it"
