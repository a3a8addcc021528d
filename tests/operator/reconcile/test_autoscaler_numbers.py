"""Promises of the numbers that autoscalers read: no operator tells an old one, since absent is safe and old is not."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import cast

import pytest
from prometheus_client import Gauge, generate_latest
from slurm_operator import metrics
from slurm_operator.clients.kubernetes import KubernetesApi, KubernetesError
from slurm_operator.clients.lease import Lease
from slurm_operator.clients.slurm.slurm_error import SlurmError, Trouble

from contract import names
from tests.e2e.operator import autoscaling_page, fake_external_metrics
from tests.operator.worlds.slow_world import SlowRest, SlowWorld, VirtualLoop, at_once, passes

LATER = 30.0


class Ending(Lease):
    """A lease that another operator takes after some time."""

    def __init__(self, loop: VirtualLoop) -> None:
        super().__init__(cast(KubernetesApi, None), "one")
        self._loop = loop

    def held(self) -> bool:
        return self._loop.time() < LATER


def told(gauge: Gauge) -> dict[str, float]:
    """Return a gauge's samples by the value of their one label."""
    return {"".join(each.labels.values()): each.value for family in gauge.collect() for each in family.samples}


@pytest.fixture(autouse=True)
def _no_numbers_of_other_tests() -> None:
    metrics.forget_cluster()


def numbers(
    minutes: float,
    later: Callable[[SlowWorld], None] = lambda world: None,
    lease: Callable[[VirtualLoop], Lease | None] = lambda loop: None,
) -> tuple[dict[str, float], dict[str, float]]:
    """Return how many nodes are told to be allocated and pending after some minutes; `later` happens in the first."""

    async def work(loop: VirtualLoop) -> None:
        world = SlowWorld(loop, {"a": 50, "b": 1}, 0.1, lease=lease(loop))
        for _ in range(60):
            world.slurm.run_job("a-0")
        loop.call_later(LATER, later, world)
        running = asyncio.create_task(passes(world, minutes))
        await asyncio.sleep(LATER - 1)  # By a virtual clock.
        assert told(metrics.ALLOCATED_NODES) == {"a": 1, "b": 0}
        assert told(metrics.PENDING_NODES) == {"main": 0, "side": 0}
        await running

    at_once(work)
    return told(metrics.ALLOCATED_NODES), told(metrics.PENDING_NODES)


def test_an_operator_that_lost_its_lease_tells_none() -> None:
    assert numbers(1, lease=Ending) == ({}, {})


def test_while_slurm_cannot_be_seen_none_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    async def away(*_: object) -> None:
        raise SlurmError(Trouble.UNREACHABLE, "no answer in time")

    def fail(world: SlowWorld) -> None:
        monkeypatch.setattr(world.reconciler._rest.client, "_request", away)

    assert numbers(2, fail) == ({}, {})


def test_a_pass_that_is_too_late_to_count_tells_no_old_number_for_long() -> None:
    def grow_slow(world: SlowWorld) -> None:
        cast(SlowRest, world.reconciler._rest.client).seconds = 4.9
        world.scale("a", 0)

    allocated, pending = numbers(4, grow_slow)
    assert (allocated["a"], pending) == (1, {})


def test_passes_that_come_to_no_end_tell_none_after_two_minutes(monkeypatch: pytest.MonkeyPatch) -> None:
    async def refuse(*_: object) -> None:
        raise KubernetesError(500, "etcd is away")

    def fail(world: SlowWorld) -> None:
        monkeypatch.setattr(world.api, "list_as", refuse)

    assert numbers(4, fail) == ({}, {})


def test_of_a_node_set_that_is_gone_none_is_told() -> None:
    def remove(world: SlowWorld) -> None:
        del world.api.there[names.NODE_SETS, "b"]

    assert numbers(1, remove)[0] == {"a": 1}


def test_no_number_of_waiting_jobs_stays_once_each_set_has_a_declared_size() -> None:
    def declare(world: SlowWorld) -> None:
        for name in ("a", "b"):
            world.api.there[names.NODE_SETS, name]["metadata"]["annotations"][names.ANNOTATION_REPLICAS] = "50"

    assert numbers(1, declare)[1] == {}


SCALED = autoscaling_page.of_kind("ScaledObject")["spec"]["triggers"][0]["metadata"]


def kedas_value(trigger: Mapping[str, str]) -> float | None:
    """Return what KEDA's prometheus scaler makes of the operator's page; None for an error."""
    value = fake_external_metrics.total(generate_latest().decode(), fake_external_metrics.terms(trigger["query"]))
    return 0.0 if value is None and trigger.get("ignoreNullValues", "true") == "true" else value


def seen_by_keda(trigger: Mapping[str, str], deep: int = 0) -> float | None:
    """Let one node work and two jobs wait, one of them for four nodes, and others in a deep queue."""

    async def work(loop: VirtualLoop) -> None:
        world = SlowWorld(loop, {"cpu": 3}, 0.1)
        world.slurm.deep = deep
        world.slurm.run_job("cpu-0")
        for nodes in (1, 4):
            number = world.slurm.run_job("", state="PENDING")
            world.slurm.jobs[number]["node_count"] = {"set": True, "infinite": False, "number": nodes}
        await passes(world, 1)

    at_once(work)
    return kedas_value(trigger)


def test_the_pages_query_adds_in_the_operators_own_metrics_what_works_and_what_jobs_wait_for() -> None:
    assert seen_by_keda(SCALED) == 1 + 1 + 4


def test_in_a_deep_queue_the_pages_scaled_object_has_no_value_and_takes_no_node() -> None:
    assert seen_by_keda(SCALED, deep=100_000) is None
    careless = {key: value for key, value in SCALED.items() if key != "ignoreNullValues"}
    assert kedas_value(careless) == 0, "KEDA's default would take all idle nodes"
