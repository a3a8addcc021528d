"""Promises about what a pass joins: each node of a set once, with all that is known of it, and nothing of others."""

from __future__ import annotations

import dataclasses

import pytest
from slurm_operator.actions import DeleteRecord, Drain, SetEvictable, SetReplicas
from slurm_operator.decide.node_sets import records
from slurm_operator.decide.node_sets.node_set import decide
from slurm_operator.decide.nodes import workers
from slurm_operator.decide.nodes.workers import NodeSetState, Worker
from slurm_operator.state.kubernetes import K8sNode
from slurm_operator.state.resources import Restart
from slurm_operator.state.slurm import FullListing, Named, Unknown

from tests.operator.states.sets import NOW, changed, job, leaving, node, node_set, pod

WELL = K8sNode()


def test_a_node_is_joined_with_its_pod_its_records_and_its_kubernetes_node() -> None:
    there = pod("cpu-0", k8s_node="k8s-0")
    before, after = node("cpu-0"), leaving("cpu-0")
    state = node_set(1, 1, [there], NOW, k8s_nodes={"k8s-0": WELL}).seen(
        {"cpu-0": before}, FullListing({"cpu-0": after}, ())
    )
    worker = state.workers["cpu-0"]
    assert (worker.pod, worker.node, worker.full, worker.k8s_node) == (there, before, after, WELL)


def test_nodes_stay_leave_and_come_in_the_order_of_their_numbers() -> None:
    shrinks = node_set(2, 11, [pod(f"cpu-{n}") for n in range(11)], NOW)
    assert [each.name for each in shrinks.members()] == ["cpu-0", "cpu-1"]
    assert [each.name for each in shrinks.leaving()][:2] == ["cpu-10", "cpu-9"]
    grows = node_set(2, 1, [pod("cpu-0")], NOW)
    assert [each.name for each in grows.expected()] == ["cpu-0", "cpu-1"]
    assert grows.leaving() == []


def test_what_only_looks_like_a_node_of_the_set_is_none() -> None:
    others = [node(name) for name in ("cpu-1-0", "gpu-5", "cpu-05", "cpux-3", "cpu-")]
    assert node_set(0, 0, [], NOW).seen({each.name: each for each in others}).workers == {}


def test_a_job_that_was_listed_later_shows_on_the_later_record_alone() -> None:
    both = {"cpu-0": leaving("cpu-0")}
    worker = (
        node_set(0, 1, [pod("cpu-0")], NOW)
        .seen(both, FullListing(both, (job(1, "SUSPENDED", "cpu-0"),)))
        .workers["cpu-0"]
    )
    assert worker.node
    assert worker.full
    assert (worker.node.busy, worker.full.busy, worker.is_free) == (False, True, False)


@pytest.mark.parametrize("full_listing", [None, FullListing({}, ())])
def test_as_long_as_nobody_tells_a_node_counts_as_named_and_awaited(full_listing: FullListing | None) -> None:
    (worker,) = node_set(1, 1, [pod("cpu-0")], NOW).seen({}, full_listing).workers.values()
    assert worker.is_named
    assert worker.is_awaited


def test_a_node_that_only_its_own_job_names_is_not_awaited() -> None:
    named = Named(by_any=frozenset({"cpu-0"}), awaited=frozenset())
    (worker,) = node_set(1, 1, [pod("cpu-0")], NOW).seen({}, FullListing({}, (), named)).workers.values()
    assert (worker.is_named, worker.is_awaited) == (True, False)


def test_nothing_is_free_while_slurm_is_out_of_sight() -> None:
    pending = pod("cpu-0", ready=False, running=False)
    unseen = node_set(0, 1, [pending], NOW).seen(Unknown("RestUnreachable", ""))
    assert not unseen.workers["cpu-0"].is_free
    assert unseen.seen({}, FullListing({}, ())).workers["cpu-0"].is_free


def test_a_repair_is_under_way_until_the_pod_is_younger_than_its_note() -> None:
    noted = changed(node_set(1, 1, [pod("cpu-0")], NOW), restarts=(Restart("cpu-0", NOW),))
    assert noted.workers["cpu-0"].repair == Restart("cpu-0", NOW)
    anew = {"cpu-0": pod("cpu-0", created=NOW.replace(hour=1))}
    assert dataclasses.replace(noted, pods=anew).workers["cpu-0"].repair is None


def cpu_1_leaves(monkeypatch: pytest.MonkeyPatch, *, is_there: bool) -> None:
    """As if a node set named the node that it no longer wants; today it says a number."""
    join = workers._join

    def with_one_that_leaves(state: NodeSetState) -> list[Worker]:
        joined = {worker.name: worker for worker in join(state)}
        leaver = dataclasses.replace(joined["cpu-1"], is_wanted=False, is_there=is_there)
        return [*(joined | {"cpu-1": leaver}).values()]

    monkeypatch.setattr(workers, "_join", with_one_that_leaves)


def test_a_node_in_the_middle_may_leave_and_no_other_is_touched(monkeypatch: pytest.MonkeyPatch) -> None:
    cpu_1_leaves(monkeypatch, is_there=True)
    pods, k8s_nodes = [pod(f"cpu-{n}", k8s_node=f"k8s-{n}") for n in range(3)], {f"k8s-{n}": WELL for n in range(3)}
    state = node_set(3, 3, pods, NOW, k8s_nodes=k8s_nodes | {"k8s-1": K8sNode(cordoned=True)})
    serving = {each.name: node(each.name) for each in pods}
    assert decide(state.seen(serving)).actions == [Drain("cpu-1")]
    drained = serving | {"cpu-1": leaving("cpu-1")}
    goes = [SetReplicas("cpu", 2, 3, "7", going=("cpu-1",)), SetEvictable("cpu-1", "", evictable=True)]
    assert decide(state.seen(drained, FullListing(drained, ()))).actions == goes


def test_the_record_of_a_node_in_the_middle_goes_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    cpu_1_leaves(monkeypatch, is_there=False)
    left = {"cpu-0": node("cpu-0"), "cpu-1": leaving("cpu-1"), "cpu-2": node("cpu-2")}
    state = node_set(3, 3, [pod("cpu-0"), pod("cpu-2")], NOW)
    known = state.seen(left, FullListing(left, (), records.named((), ())))
    assert decide(known).actions == [DeleteRecord("cpu-1")]
