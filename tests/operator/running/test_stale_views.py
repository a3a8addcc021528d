"""Drift is repaired safely where an object changed since it was seen, or the API server refuses the repair."""

from __future__ import annotations

import asyncio
import copy
import itertools
from collections.abc import Callable, Coroutine, Iterable, Iterator
from typing import Any

import pytest
from slurm_operator.clients.informer import Informer
from slurm_operator.clients.kubernetes import KubernetesApi, KubernetesError, Object
from slurm_operator.decide.cluster.drift import rounds as decisions
from slurm_operator.decide.cluster.drift.restore import Key
from slurm_operator.reconcile import drift as drift_rounds
from slurm_operator.reconcile.drift import DriftReconciler

from contract import names
from tests.operator.fakes import fake_slurmrestd
from tests.operator.fakes.fake_workloads import FakeWorkloads
from tests.operator.played.played_clients import LeaseFor
from tests.operator.worlds.healed_world import CONFIG, HELD, POLICY, begin, finish, heals
from tests.operator.worlds.world import KEY, Admin, World, until

pytestmark = pytest.mark.apiserver

Body = dict[str, Any]
SET: Key = ("StatefulSet", "cpu")
WANTED: Key = ("ConfigMap", CONFIG[1])
_NUMBERS = itertools.count()


class LateInformer(Informer):
    """An informer whose watches are late for some objects: it shows an earlier state of them."""

    late: dict[Key, Body]

    def snapshot(self, keys: Iterable[Key]) -> dict[Key, Body | None]:
        found = super().snapshot(keys)
        return {**found, **{key: self.late[key] for key in found.keys() & self.late.keys()}}


@pytest.fixture
def late(monkeypatch: pytest.MonkeyPatch) -> dict[Key, Body]:
    found: dict[Key, Body] = {}
    monkeypatch.setattr(LateInformer, "late", found, raising=False)
    monkeypatch.setattr(drift_rounds, "Informer", LateInformer)
    return found


@pytest.fixture
def world(admin: Admin) -> Iterator[World]:
    """A declared cluster with two nodes and no operator."""
    with fake_slurmrestd.running(KEY) as slurm:
        found = World(admin, f"stale-{next(_NUMBERS)}", slurm.slurm, slurm.url)
        with FakeWorkloads(found):
            begin(found, "r1")
            finish(found, "r1")
            found.patch("statefulsets", "cpu", {"spec": {"replicas": 2}}, manager="pulumi-slurm-operator")
            until(lambda: {"cpu-0", "cpu-1"} <= set(found.names("pods")), "both nodes")
            yield found


def heal(
    world: World,
    story: Callable[[DriftReconciler], Coroutine[Any, Any, None]],
    kind: type[KubernetesApi] = KubernetesApi,
) -> None:
    """Let the drift reconciler run the story, once it has seen everything and found it as declared."""

    async def whole() -> None:
        api = kind(lambda: world.admin.access, world.namespace)
        drift_reconciler = DriftReconciler(api, LeaseFor(float("inf")), lambda: None, lambda: None)
        try:
            await rounds(drift_reconciler, lambda: len(drift_reconciler._clean) == len(HELD))
            await story(drift_reconciler)
        finally:
            await drift_reconciler.close()
            await api.close()

    asyncio.run(whole())


async def rounds(drift_reconciler: DriftReconciler, enough: Callable[[], bool]) -> None:
    async with asyncio.timeout(60):
        while not enough():
            await drift_reconciler.run()
            await asyncio.sleep(0.05)  # Watches bring the next change meanwhile.


def test_a_worker_set_that_goes_while_it_is_looked_at_comes_again_around_its_pods(
    world: World, late: dict[Key, Body]
) -> None:
    """An apply to the version that was seen would end all pods but one, with their jobs."""
    pods = {name: world.uid("pods", name) for name in ("cpu-0", "cpu-1")}

    async def story(drift_reconciler: DriftReconciler) -> None:
        late[SET] = world.patch("statefulsets", "cpu", {"spec": {"minReadySeconds": 7}})
        world.admin.call("DELETE", world.path("statefulsets", "cpu"), {"propagationPolicy": "Orphan"})
        world.patch("statefulsets", "cpu", {"metadata": {"finalizers": None}})
        await drift_reconciler.run()
        assert "cpu" not in world.names("statefulsets"), "nothing is made of what has gone"
        late.clear()
        await rounds(drift_reconciler, lambda: "cpu" in world.names("statefulsets"))
        assert world.size() == 2

    heal(world, story)
    assert {name: world.uid("pods", name) for name in pods} == pods
    assert world.slurm.killed == []


def test_an_object_that_is_seen_late_holds_up_no_other_and_is_told(world: World, late: dict[Key, Body]) -> None:
    async def story(drift_reconciler: DriftReconciler) -> None:
        late[WANTED] = {"kind": "ConfigMap", **copy.deepcopy(world.get(*CONFIG))}
        world.patch(*CONFIG, {"data": {"slurm.conf": "ClusterName=mine\n"}})
        late[WANTED]["data"] = {"slurm.conf": "ClusterName=other\n"}
        world.patch("services", "slurm-login", {"spec": {"selector": {"a": "c"}}})
        await rounds(drift_reconciler, lambda: world.get("services", "slurm-login")["spec"]["selector"] == {"a": "b"})
        await rounds(drift_reconciler, lambda: bool(drift_reconciler.problems))
        (problem,) = drift_reconciler.problems
        assert f"ConfigMap {CONFIG[1]}" in problem.message
        for _ in range(5):
            await drift_reconciler.run()
            assert drift_reconciler.problems == (problem,), "it stays told while it is looked at anew"
        late.clear()
        await rounds(drift_reconciler, lambda: not drift_reconciler.problems)
        assert world.get(*CONFIG)["data"]["slurm.conf"] == "ClusterName=test\n"

    heal(world, story)


WORDS = 'admission webhook "other" denied the request'


class RefusingApi(KubernetesApi):
    """Refuses to change one object while it is told to."""

    name = ""
    asked = 0

    async def apply(
        self, api: str, plural: str, body: Object, subresource: str = "", manager: str = names.OPERATOR_FIELD_MANAGER
    ) -> Object:
        if body["metadata"]["name"] == RefusingApi.name:
            RefusingApi.asked += 1
            raise KubernetesError(403, f"PATCH {plural}/{RefusingApi.name}: {WORDS}")
        return await super().apply(api, plural, body, subresource, manager)


def test_a_refused_heal_is_told_and_tried_with_pauses_and_at_once_when_the_object_changes(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def story(drift_reconciler: DriftReconciler) -> None:
        monkeypatch.setattr(RefusingApi, "name", POLICY[1])
        with monkeypatch.context() as patient:
            # Ten runs take longer than the first pause on a busy machine.
            patient.setattr(decisions, "FIRST_PAUSE", decisions.LONGEST_PAUSE)
            world.patch(*POLICY, {"spec": {"ingress": [{}]}})
            await rounds(drift_reconciler, lambda: bool(drift_reconciler.problems))
            assert (drift_reconciler.problems[0].reason, RefusingApi.asked) == ("ActionRefused", 1)
            assert f"NetworkPolicy {POLICY[1]} cannot be restored" in drift_reconciler.problems[0].message
            assert WORDS in drift_reconciler.problems[0].message
            for _ in range(10):
                await drift_reconciler.run()
            assert RefusingApi.asked == 1, "within a pause nothing is asked"
            assert drift_reconciler.problems, "and it stays told"
        world.patch(*POLICY, {"spec": {"ingress": [{}, {}]}})
        await rounds(drift_reconciler, lambda: RefusingApi.asked == 2)
        monkeypatch.setattr(RefusingApi, "name", "")
        await rounds(drift_reconciler, lambda: not drift_reconciler.problems)
        assert "ingress" not in world.get(*POLICY)["spec"]

    heal(world, story, RefusingApi)


class Raced(KubernetesApi):
    """A controller writes to each object between the two requests of its repair: the second one is refused once."""

    async def merge(self, api: str, plural: str, name: str, change: Object) -> Object:
        found = await super().merge(api, plural, name, change)
        note = {"metadata": {"annotations": {"note": found["metadata"]["resourceVersion"]}}}
        await super().merge(api, plural, name, note)
        return found


def test_who_edited_is_told_when_a_controller_writes_during_the_repair(world: World) -> None:
    async def story(drift_reconciler: DriftReconciler) -> None:
        world.patch("services", "slurm-login", {"spec": {"selector": {"b": "c"}}})
        await rounds(drift_reconciler, lambda: any("spec.selector" in note for note in heals(world)))

    heal(world, story, Raced)
    (told,) = heals(world)
    assert "spec.selector (by kubectl-edit)" in told
