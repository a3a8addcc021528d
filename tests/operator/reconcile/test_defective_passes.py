"""Promises about defects of the operator in a pass: each stops its own part alone, and is told and logged."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from slurm_operator.decide.cluster import status
from slurm_operator.decide.node_sets import full_listing, k8s_nodes
from slurm_operator.reconcile.configuration import Configuration
from slurm_operator.reconcile.health.outages import Outages
from slurm_operator.reconcile.job_counts import JobCounts

from contract import names
from tests.operator.worlds.slow_world import SlowWorld, VirtualLoop, at_once, passes


def played(minutes: float) -> SlowWorld:
    async def work(loop: VirtualLoop) -> SlowWorld:
        world = SlowWorld(loop, {"cpu": 3, "gpu": 3}, 0.01)
        world.scale("cpu", 2)
        world.scale("gpu", 1)
        await passes(world, minutes)
        return world

    return at_once(work)


def conditions(world: SlowWorld, plural: str = names.SLURM_CLUSTERS, name: str = "test") -> dict[str, tuple[str, str]]:
    told = world.api.there[plural, name]["status"]["conditions"]
    return {each["type"]: (each["status"], each["message"]) for each in told}


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
    degraded, told = conditions(world)["Degraded"]
    assert degraded == "True"
    assert f"a defect of the operator stops {part} (KeyError: 'odd')" in told
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
    told = "a defect of the operator stops Kubernetes nodes of node set cpu (KeyError: 'odd')"
    assert told in conditions(world, names.NODE_SETS, "cpu")["Degraded"][1]
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
