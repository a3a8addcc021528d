"""Promises about features and weights: slurmctld gets what a node set declares, at once, and no job notices."""

from __future__ import annotations

import dataclasses
from typing import Any

from slurm_operator.actions import Undrain, UpdateNode
from slurm_operator.decide.node_sets import features, node_set, undrain
from slurm_operator.decide.nodes.workers import NodeSetState
from slurm_operator.parse.k8s_nodes import K8sNodeParser
from slurm_operator.parse.resources import parse_node_set
from slurm_operator.state.kubernetes import K8sNode
from slurm_operator.state.slurm import SlurmNode

from contract import reasons
from tests.operator.states.features import state, worker
from tests.operator.states.sets import node

ZONE = "topology.kubernetes.io/zone"


def record(name: str = "cpu-0", *has: str, weight: int | None = None, **more: Any) -> SlurmNode:
    return dataclasses.replace(node(name, **more), features=frozenset(has or {"cpu"}), weight=weight)


def moves(size: NodeSetState, *records: SlurmNode) -> list[UpdateNode]:
    return features.actions(size.seen({each.name: each for each in records}))


def test_a_node_gets_its_set_and_the_declared_features() -> None:
    declared = state(features=("avx512", "bigmem"))
    assert moves(declared, record()) == [UpdateNode("cpu-0", ("cpu", "avx512", "bigmem"))]
    assert moves(declared, record("cpu-0", "bigmem", "cpu", "avx512")) == []
    assert moves(state(features=()), record("cpu-0", "cpu", "old")) == [UpdateNode("cpu-0", ("cpu",))]


def test_features_that_slurm_would_read_otherwise_are_no_difference_for_ever() -> None:
    spec = {"cluster": "c", "statefulSet": "cpu", "features": ["avx512,bigmem", "", "fast"]}
    read = parse_node_set({"metadata": {"name": "cpu"}, "spec": spec})
    assert read.features == ("avx512", "bigmem", "fast")
    assert parse_node_set({"metadata": {"name": "cpu"}, "spec": {**spec, "features": []}}).features == ()


def test_a_node_with_a_job_gets_them_too() -> None:
    busy = dataclasses.replace(record(), states=frozenset({"ALLOCATED"}), allocated_cpus=4)
    seen = state(features=("avx512",)).seen({"cpu-0": busy})
    assert UpdateNode("cpu-0", ("cpu", "avx512")) in node_set.decide(seen).actions


def test_features_that_administrators_gave_stay_where_none_are_declared() -> None:
    assert moves(state(), record("cpu-0", "cpu", "by-hand")) == []


def test_a_label_of_the_kubernetes_node_is_a_feature_while_it_is_there() -> None:
    by_zone = state(labels={ZONE: "a"}, feature_labels=(ZONE,))
    assert moves(by_zone, record()) == [UpdateNode("cpu-0", ("cpu", "zone=a"))]
    moved = state(labels={ZONE: "b"}, feature_labels=(ZONE,), features=("fast",))
    assert moves(moved, record("cpu-0", "cpu", "fast", "zone=a")) == [UpdateNode("cpu-0", ("cpu", "fast", "zone=b"))]
    gone = state(labels={}, feature_labels=(ZONE,))
    assert moves(gone, record("cpu-0", "cpu", "zone=a")) == [UpdateNode("cpu-0", ("cpu",))]


def test_an_unknown_kubernetes_node_takes_no_feature_away() -> None:
    assert moves(state(feature_labels=(ZONE,)), record("cpu-0", "cpu", "zone=a")) == []


def test_of_kubernetes_nodes_only_the_labels_of_features_are_kept() -> None:
    body = {"metadata": {"name": "a", "labels": {ZONE: "a", "much": "more"}}}
    reader = K8sNodeParser(frozenset({ZONE, "absent"}))
    assert reader(body) == K8sNode(labels=((ZONE, "a"),))
    assert K8sNodeParser()(body) == K8sNode()
    assert reader == K8sNodeParser(frozenset({"absent", ZONE})), "one watch, as long as the labels stay"


def test_a_changed_weight_reaches_each_node_by_its_ordinal() -> None:
    weighed = state(worker("cpu-0"), worker("cpu-1"), weights=(100, 1))
    heavier = [record("cpu-0", weight=7), record("cpu-1", weight=8)]
    assert moves(weighed, *heavier) == [UpdateNode("cpu-0", weight=100), UpdateNode("cpu-1", weight=101)]
    assert moves(weighed, record("cpu-0", weight=100), record("cpu-1", weight=101)) == []


def test_a_new_node_takes_no_job_before_it_has_its_features() -> None:
    new: dict[str, Any] = {"reason": reasons.NEW, "reason_user": "root"}

    def lifted(*has: str) -> list[Any]:
        drained = dataclasses.replace(record("cpu-0", *has, **new), states=frozenset({"IDLE", "DRAIN"}))
        return [*undrain.actions(state(features=("avx512",)).seen({"cpu-0": drained}))]

    assert lifted("cpu") == []
    assert lifted("cpu", "avx512") == [Undrain("cpu-0")]
