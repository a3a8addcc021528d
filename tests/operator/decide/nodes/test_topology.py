"""Promises about topologies: nodes are where their set says, and slurmctld never reads files without their places."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
from slurm_operator.actions import Undrain, UpdateNode
from slurm_operator.decide.node_sets import features, undrain
from slurm_operator.decide.nodes import topology
from slurm_operator.decide.nodes.topology import Topologies
from slurm_operator.decide.nodes.workers import NodeSetState
from slurm_operator.state.resources import Place

from contract import reasons
from tests.operator.states.features import state
from tests.operator.states.topologies import BLOCK, FILES, KNOWN, OTHER, RACK, moves, placed, to

LEAF, SPINE, NVLINK = (f"network.topology.nvidia.com/{name}" for name in ("leaf", "spine", "accelerator"))


def declared(*places: Place, labels: dict[str, str] | None = None, wanted: dict[str, str] = FILES) -> NodeSetState:
    known = Topologies(KNOWN, topology.of_files(wanted), wanted == FILES)
    return dataclasses.replace(state(labels=labels, topology=places), topologies=known)


BY_LEAF, BY_NVLINK = Place("fabric", "pods", (SPINE, LEAF)), Place("nvlink", "", (NVLINK,))


def test_nodes_are_where_their_set_says() -> None:
    assert moves(declared(RACK, BLOCK), placed()) == to("fabric:rack1,nvlink:b")
    assert moves(declared(RACK, BLOCK), placed(at="fabric:rack1,nvlink:b")) == []
    assert moves(declared(BLOCK), placed(at="fabric:rack1")) == to("nvlink:b")
    assert moves(declared(), placed(at="fabric:rack1")) == to(""), "it left all of them"


def test_a_place_that_administrators_gave_stays_where_no_topology_is_declared() -> None:
    undeclared = dataclasses.replace(state(), topologies=Topologies(KNOWN, KNOWN, settled=True))
    assert moves(undeclared, placed(at="fabric:rack1")) == []


def test_labels_of_the_kubernetes_node_say_the_place_while_it_is_known() -> None:
    labels = {SPINE: "s1", LEAF: "l7", NVLINK: "a"}
    assert moves(declared(BY_LEAF, BY_NVLINK, labels=labels), placed()) == to("fabric:pods:s1:l7,nvlink:a")
    moved = {**labels, LEAF: "l8"}
    assert moves(declared(BY_LEAF, labels=moved), placed(at="fabric:pods:s1:l7")) == to("fabric:pods:s1:l8")
    assert moves(declared(BY_LEAF), placed(at="fabric:pods:s1:l7")) == [], "nobody knows the Kubernetes node"


@pytest.mark.parametrize("labels", [{}, {SPINE: "s1"}, {SPINE: "", LEAF: "l7"}, {SPINE: "s1", LEAF: "core"}])
def test_a_node_without_its_labels_has_a_switch_and_is_told(labels: dict[str, str]) -> None:
    seen = declared(BY_LEAF, labels=labels).seen({"cpu-0": placed()})
    assert features.actions(seen) == to("fabric:pods-unlabeled")
    (told,) = features.unplaced(seen)
    assert told.reason == "NodesUnplaced"
    assert told.message.startswith("cpu-0: labels network.topology.nvidia.com/spine, network.")


def test_a_label_that_names_no_block_is_told() -> None:
    seen = declared(BY_NVLINK, labels={NVLINK: "new"}).seen({"cpu-0": placed(at="nvlink:a")})
    assert features.actions(seen) == to("")
    assert [told.reason for told in features.unplaced(seen)] == ["NodesUnplaced"]
    assert features.unplaced(declared(BY_NVLINK, labels={NVLINK: "a"}).seen({"cpu-0": placed()})) == []


def test_a_new_node_takes_no_job_before_it_has_its_place() -> None:
    def lifted(at: str) -> list[Any]:
        new = placed(at=at, reason=reasons.NEW, reason_user="root")
        drained = dataclasses.replace(new, states=frozenset({"IDLE", "DRAIN"}))
        return [*undrain.actions(declared(RACK).seen({"cpu-0": drained}))]

    assert lifted("") == []
    assert lifted("fabric:rack1") == [Undrain("cpu-0")]


def test_while_the_files_change_places_that_both_have_are_added() -> None:
    assert moves(declared(RACK, wanted=OTHER), placed()) == [], "it goes"
    assert moves(declared(Place("fabric", "rack2"), wanted=OTHER), placed()) == [], "it is to come"
    assert moves(declared(BLOCK, wanted=OTHER), placed()) == to("nvlink:b")
    still_used = placed(at="fabric:rack1")
    assert moves(declared(BLOCK, wanted=OTHER), still_used) == to("nvlink:b,fabric:rack1"), "partitions may use it"
    assert moves(declared(BLOCK, wanted=OTHER), placed(at="nvlink:a")) == [], "it goes to the other block later"
    assert moves(declared(wanted=OTHER), placed(at="fabric:rack1")) == []
    both = declared(BLOCK, Place("fabric", "pods-unlabeled"), wanted=OTHER)
    assert moves(both, placed(at="nvlink:b")) == to("nvlink:b,fabric:pods-unlabeled")
    unread = dataclasses.replace(declared(RACK), topologies=None)
    assert moves(unread, placed()) == [], "nobody knows what slurmctld has read"


@pytest.mark.parametrize(
    ("place", "taken"),
    [
        ("fabric:rack1", True),
        ("fabric:core:rack1", True),
        ("fabric:pods:new", True),
        ("fabric:pods:new:newer", True),
        ("fabric:core", False),
        ("fabric:rack1:new", False),
        ("fabric:new", False),
        ("fabric:new:rack1", False),
        ("nvlink:a", True),
        ("nvlink:c", False),
        ("plain:x", False),
        ("gone:a", False),
        ("fabric", False),
    ],
)
def test_a_place_is_one_that_slurmctld_takes(place: str, taken: bool) -> None:
    assert topology.takes(KNOWN, place) is taken


def test_a_label_for_a_place_is_no_feature() -> None:
    both = declared(BY_LEAF, labels={SPINE: "s1", LEAF: "l7", "zone": "a"})
    record = dataclasses.replace(placed(at="fabric:pods:s1:l7"), features=frozenset({"cpu"}))
    own = dataclasses.replace(both.node_set, feature_labels=("zone",))
    assert moves(dataclasses.replace(both, node_set=own), record) == [UpdateNode("cpu-0", ("cpu", "zone=a"))]
    assert own.labels == {SPINE, LEAF, "zone"}
