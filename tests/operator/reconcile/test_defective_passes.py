"""Promises about defects of the operator in a pass: each stops its own part alone, and is told and logged."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from slurm_operator import observe
from slurm_operator.clients.pod_refusals import PodRefusals
from slurm_operator.decide.cluster import accounting, status
from slurm_operator.decide.cluster.drift import rounds
from slurm_operator.decide.cluster.requeue import Outcome
from slurm_operator.decide.node_sets import full_listing, k8s_nodes
from slurm_operator.findings import Condition
from slurm_operator.reconcile.configuration import Configuration
from slurm_operator.reconcile.drift import DriftReconciler
from slurm_operator.reconcile.health.hanging_jobs import HangingJobs
from slurm_operator.reconcile.health.long_checks import LongChecks
from slurm_operator.reconcile.health.outages import Outages
from slurm_operator.reconcile.job_counts import JobCounts

from contract import names
from contract.conditions import Reason
from tests.operator.played.played_clients import LeaseFor
from tests.operator.worlds.slow_world import SlowWorld, VirtualLoop, at_once, passes


def played(minutes: float, spoil: Callable[[SlowWorld], object] = lambda _: None) -> SlowWorld:
    async def work(loop: VirtualLoop) -> SlowWorld:
        world = SlowWorld(loop, {"cpu": 3, "gpu": 3}, 0.01)
        world.scale("cpu", 2)
        world.scale("gpu", 1)
        spoil(world)
        await passes(world, minutes)
        return world

    return at_once(work)


def conditions(world: SlowWorld, plural: str = names.SLURM_CLUSTERS, name: str = "test") -> dict[str, tuple[str, str]]:
    listed = world.api.there[plural, name]["status"]["conditions"]
    return {each["type"]: (each["status"], each["message"]) for each in listed}


def told(world: SlowWorld, name: str) -> dict[str, Any]:
    """Return the latest status of a resource as it was sent: an apply takes away what it leaves out."""
    return [status for _, of, status in world.api.told if of == name][-1]


def defects(caplog: pytest.LogCaptureFixture) -> Iterator[str]:
    for record in caplog.records:
        assert not record.getMessage().startswith("pass "), "the whole pass ended"
        if record.getMessage().startswith("part of a pass failed: "):
            assert record.exc_info
            yield record.getMessage().removeprefix("part of a pass failed: ")


@pytest.mark.parametrize(
    ("owner", "function", "part", "available"),
    [
        (Outages, "look", "outages", "True"),
        (JobCounts, "count", "counts of jobs", "True"),
        (PodRefusals, "look", "look at refused pods", "True"),
        (JobCounts, "told", "status.jobs", "True"),
        (LongChecks, "told", "status.longChecks", "True"),
        (Outages, "told", "status.outages", "True"),
        (HangingJobs, "told", "status.hangs", "True"),
        (accounting, "findings", "findings about the cluster", "Unknown"),
        (Configuration, "bring", "accounts and configuration", "Unknown"),
        (full_listing, "is_needed", "full listings", "True"),
    ],
)
def test_a_part_that_fails_is_told_and_logged_once_and_the_others_go_on(
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    owner: Any,
    function: str,
    part: str,
    available: str,
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise KeyError("odd")

    monkeypatch.setattr(owner, function, fail)
    world = played(minutes=2)
    assert [*defects(caplog)] == [f"{part}: {part}"]
    degraded, message = conditions(world)["Degraded"]
    assert degraded == "True"
    assert f"a defect of the operator stops {part} (KeyError: 'odd')" in message
    assert conditions(world)["Available"][0] == available
    sizes = world.size("cpu"), world.size("gpu")
    assert sizes == ((3, 3) if owner is full_listing else (2, 1)), "without full listings no node is removed"


def test_a_defect_in_the_decision_about_one_node_set_is_told_on_it(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(*_: object) -> None:
        raise KeyError("odd")

    monkeypatch.setattr(k8s_nodes, "actions", fail)
    world = played(minutes=2)
    assert sorted(defects(caplog)) == [f"node set {name}: Kubernetes nodes" for name in ("cpu", "gpu")]
    words = "a defect of the operator stops Kubernetes nodes of node set cpu (KeyError: 'odd')"
    assert words in conditions(world, names.NODE_SETS, "cpu")["Degraded"][1]
    assert (world.size("cpu"), world.size("gpu")) == (2, 1)


def test_a_node_set_whose_status_can_not_be_told_is_left_alone_and_another_is_not(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    tells = status.node_set

    def fail(state: Any) -> Any:
        if state.node_set.name == "cpu":
            raise KeyError("odd")
        return tells(state)

    monkeypatch.setattr(status, "node_set", fail)
    world = played(minutes=2)
    part = "status of node set cpu"
    assert [*defects(caplog)] == [f"{part}: {part}"]
    assert conditions(world)["Available"][0] == "Unknown"
    assert (world.size("cpu"), world.size("gpu")) == (3, 1)


def odd_set(world: SlowWorld) -> None:
    """A resource of a CRD that took more than this operator can read."""
    world.api.there[names.NODE_SETS, "cpu"]["spec"]["update"] = {"maxUnavailable": "many"}
    world.api.there[names.NODE_SETS, "cpu"]["status"] = {"updating": ["cpu-1"], "message": "all is well"}


def test_a_node_set_that_can_not_be_read_is_told_left_alone_and_holds_up_no_other(
    caplog: pytest.LogCaptureFixture,
) -> None:
    world = played(2, odd_set)
    part = "reading of node set cpu"
    assert [*defects(caplog)] == [f"{part}: {part}"]
    words = f"a defect of the operator stops {part} (ValueError: "
    assert conditions(world)["Available"][0] == "Unknown"
    assert words in conditions(world)["Degraded"][1]
    assert (world.size("cpu"), world.size("gpu")) == (3, 1)
    assert conditions(world, names.NODE_SETS, "cpu")["Available"][0] == "Unknown"
    assert words in conditions(world, names.NODE_SETS, "cpu")["Degraded"][1]
    assert told(world, "cpu")["updating"] == ["cpu-1"], "what it remembers stays"


def test_what_the_status_remembers_stays_when_nobody_can_tell_it(monkeypatch: pytest.MonkeyPatch) -> None:
    hangs = {"suspects": [{"node": "cpu-0", "jobs": 2, "last": "2026-01-01T00:00:00Z"}]}

    def remember(world: SlowWorld) -> None:
        world.api.there[names.SLURM_CLUSTERS, "test"]["status"] = {"hangs": hangs}

    def fail(*_: object) -> None:
        raise KeyError("odd")

    monkeypatch.setattr(HangingJobs, "told", fail)
    assert told(played(1, remember), "test")["hangs"] == hangs


def test_a_node_set_with_a_defect_that_goes_is_told_of_no_more() -> None:
    async def work(loop: VirtualLoop) -> SlowWorld:
        world = SlowWorld(loop, {"cpu": 1, "gpu": 1}, 0.01)
        odd_set(world)
        assert await world.reconciler.run() is Outcome.PROGRESSING, "Slurm is seen"
        assert conditions(world)["Degraded"][0] == "True"
        del world.api.there[names.NODE_SETS, "cpu"]
        await passes(world, 1)
        return world

    world = at_once(work)
    assert conditions(world)["Degraded"] == ("False", "nothing is wrong")


def test_a_pass_that_can_do_nothing_says_so_in_the_status(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(*_: object) -> None:
        raise KeyError("odd")

    def remember(world: SlowWorld) -> None:
        world.api.there[names.SLURM_CLUSTERS, "test"]["status"] = {"revision": "r1"}

    monkeypatch.setattr(observe, "parse_cluster", fail)
    world = played(1, remember)
    assert conditions(world)["Available"][0] == "Unknown"
    assert conditions(world)["Degraded"] == (
        "True",
        "a defect of the operator stops all that it does (KeyError: 'odd'); its log has more",
    )
    assert told(world, "test")["revision"] == "r1"
    assert caplog.text.count("pass failed: subject=slurm") == 1, "it lasts, and is logged once"


def test_what_restores_nothing_for_a_defect_does_not_say_that_all_is_held(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise KeyError("odd")

    async def work(loop: VirtualLoop) -> tuple[DriftReconciler, list[None]]:
        world, news = SlowWorld(loop, {"cpu": 1}), list[None]()
        healing = DriftReconciler(world.api, LeaseFor(1e9), lambda: None, lambda: news.append(None))
        await healing.run()
        assert healing.condition
        assert healing.condition.reason == "LedgerMissing"
        monkeypatch.setattr(rounds, "standing", fail)
        with pytest.raises(KeyError):
            await healing.run()
        return healing, news

    healing, news = at_once(work)
    words = "a defect of the operator stops what restores declared objects (KeyError: 'odd'); its log has more"
    assert healing.condition == Condition("Healing", "Unknown", Reason.OPERATOR_DEFECT, words)
    assert [finding.message for finding in healing.problems] == [words]
    assert len(news) == 2, "a pass writes it"
