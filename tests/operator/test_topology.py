"""Promises about topologies: nodes are where their set says, and slurmctld never reads files without their places."""

from __future__ import annotations

import asyncio
import dataclasses
import math
from typing import Any, cast

import pytest
from slurm_operator import execute, report
from slurm_operator.actions import Undrain, UpdateNode
from slurm_operator.clients.kubernetes import KubernetesApi
from slurm_operator.clients.slurm import dry_run
from slurm_operator.clients.slurm.slurm_error import SlurmError, Trouble
from slurm_operator.configure import Configurer
from slurm_operator.decide.cluster import config, topologies
from slurm_operator.decide.node_sets import features, undrain
from slurm_operator.decide.nodes import topology
from slurm_operator.decide.nodes.topology import Topologies
from slurm_operator.decide.nodes.workers import NodeSetState
from slurm_operator.findings import Finding
from slurm_operator.reconcile.configuration import Configuration
from slurm_operator.state.resources import Place
from slurm_operator.state.slurm import SlurmNode, Unknown

from contract import names, reasons
from contract.conditions import NO_USE_TO_WAIT
from tests.operator.played_clients import LeaseFor
from tests.operator.test_configuring import CLUSTER, READS, SEEN, this_pass
from tests.operator.test_features import state
from tests.operator.test_scale import node

LEAF, SPINE, NVLINK = (f"network.topology.nvidia.com/{name}" for name in ("leaf", "spine", "accelerator"))
FILES = {
    names.TOPOLOGY_YAML: f"""{names.TOPOLOGIES_MARK}
- topology: fabric
  cluster_default: true
  tree:
    switches:
    - {{switch: core, children: 'rack1,pods'}}
    - {{switch: rack1}}
    - {{switch: pods, children: pods-unlabeled}}
    - {{switch: pods-unlabeled}}
- topology: nvlink
  block: {{block_sizes: [4], blocks: [{{block: a}}, {{block: b}}]}}
- topology: plain
  flat: true
""",
    names.SLURM_CONF: "PartitionName=main Nodes=ns_cpu\nPartitionName=plain Nodes=ns_cpu Topology=plain\n",
}
OTHER = FILES | {names.TOPOLOGY_YAML: FILES[names.TOPOLOGY_YAML].replace("rack1", "rack2")}
KNOWN = topology.of_files(FILES)


def placed(name: str = "cpu-0", at: str = "", **more: Any) -> SlurmNode:
    return dataclasses.replace(node(name, **more), topology=at)


def declared(*places: Place, labels: dict[str, str] | None = None, wanted: dict[str, str] = FILES) -> NodeSetState:
    known = Topologies(KNOWN, topology.of_files(wanted), wanted == FILES)
    return dataclasses.replace(state(labels=labels, topology=places), topologies=known)


def moves(size: NodeSetState, *records: SlurmNode) -> list[UpdateNode]:
    return features.actions(size.seen({each.name: each for each in records}))


def to(place: str) -> list[UpdateNode]:
    return [UpdateNode("cpu-0", topology=place)]


RACK, BLOCK = Place("fabric", "rack1"), Place("nvlink", "b")
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
    assert moves(declared(BLOCK, wanted=OTHER), placed(at="fabric:rack1")) == [], "partitions may still use it"
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


def before(wanted: dict[str, str], at: str, files: dict[str, str] = FILES) -> list[UpdateNode] | str:
    """Return what is done with a node before slurmctld reads the wanted files, or why these wait."""
    decided = topologies.before_reading(wanted, files, {"cpu-0": placed(at=at)})
    return decided.message if isinstance(decided, Finding) else decided


@pytest.mark.parametrize("at", ["", "fabric:pods:s1:l7", "nvlink:a", "fabric:pods-unlabeled,nvlink:b"])
def test_places_that_the_new_files_have_change_nothing(at: str) -> None:
    assert before(OTHER, at) == []


def test_files_wait_that_lose_a_place_in_a_topology_of_partitions() -> None:
    told = before(OTHER, "nvlink:a,fabric:rack1")
    assert isinstance(told, str)
    assert told.startswith("topology fabric would lose the places of cpu-0 while partitions use it, and Slurm would")
    assert isinstance(before({names.TOPOLOGY_YAML: "- ["}, "fabric:rack1"), str)
    assert isinstance(before({}, "fabric:rack1"), str)


@pytest.mark.parametrize(
    "nvlink", ["", "- topology: nvlink\n  flat: true\n", "- topology: nvlink\n  block: {blocks: [{block: c}]}\n"]
)
def test_a_node_leaves_places_that_no_partition_uses_before_the_files_lose_them(nvlink: str) -> None:
    text = FILES[names.TOPOLOGY_YAML]
    kept = text[: text.index("- topology: nvlink")] + nvlink + text[text.index("- topology: plain") :]
    wanted = FILES | {names.TOPOLOGY_YAML: kept}
    assert before(wanted, "fabric:rack1,nvlink:a") == to("fabric:rack1")
    assert before(wanted, "nvlink:a") == to("")


def test_partitions_do_not_use_a_tree_before_their_nodes_are_in_it() -> None:
    conf = FILES[names.SLURM_CONF]
    on_flat = FILES | {names.SLURM_CONF: conf.replace("Nodes=ns_cpu\n", "Nodes=ns_cpu Topology=plain\n", 1)}
    on_blocks = FILES | {names.SLURM_CONF: conf.replace("Topology=plain", "Topology=nvlink")}
    others = FILES | {names.SLURM_CONF: conf.replace("Nodes=ns_cpu\n", "Nodes=ns_gpu_a\n", 1)}
    early = "partitions would use topology fabric before cpu-0 are in it, and Slurm would hold waiting jobs: "
    for active in (on_flat, others):
        assert before(FILES, "nvlink:a", active) == f"{early}it waits for their places"
        assert isinstance(before(FILES, "", active), str)
        assert before(FILES, "nvlink:a,fabric:rack1", active) == []
    new = topologies.before_reading(FILES, {names.SLURM_CONF: conf}, {"cpu-0": placed(at="")})
    assert isinstance(new, Finding)
    assert new.reason in NO_USE_TO_WAIT, "no node comes into a tree that slurmctld does not have"
    assert f"{early}declare fabric beside a flat topology that is the default; in a second" in new.message
    assert before(on_blocks, "fabric:rack1") == [], "Slurm uses nodes outside of blocks, too"
    assert before(others, "") == [], "those of another set"
    by_hand = FILES[names.TOPOLOGY_YAML].removeprefix(names.TOPOLOGIES_MARK)
    assert before(FILES | {names.TOPOLOGY_YAML: by_hand}, "", on_flat) == [], "such a file may name its nodes"


def test_a_place_that_this_operator_cannot_judge_stays_while_its_topology_does() -> None:
    ring = "- topology: r\n  ring: {rings: [{ring: a, nodes: 'cpu-[0-1]'}]}\n"
    assert before({names.TOPOLOGY_YAML: f"{ring}# new\n"}, "r:a:0", {names.TOPOLOGY_YAML: ring}) == []
    others = {names.TOPOLOGY_YAML: ring.replace("[0-1]", "[0-3]")}
    assert before(others, "r:a:0", {names.TOPOLOGY_YAML: ring}) == to("")


def test_topologies_do_not_change_while_nodes_cannot_be_seen() -> None:
    away = Unknown("SlurmUnreachable", "slurmrestd is away")
    held = topologies.before_reading(OTHER, FILES, away)
    assert isinstance(held, Finding)
    assert (held.reason, held.message.split(":")[0]) == ("ConfigurationHeld", "topology fabric changes")
    assert topologies.before_reading(FILES, FILES, away) == []
    assert topologies.before_reading(FILES, None, away) == [], "a new cluster has no places"
    handwritten = {names.TOPOLOGY_YAML: "- topology: fabric\n  flat: true\n"}
    assert topologies.before_reading({}, handwritten, away) == [], "its nodes have places only by hand"


def test_a_label_for_a_place_is_no_feature() -> None:
    both = declared(BY_LEAF, labels={SPINE: "s1", LEAF: "l7", "zone": "a"})
    record = dataclasses.replace(placed(at="fabric:pods:s1:l7"), features=frozenset({"cpu"}))
    own = dataclasses.replace(both.node_set, feature_labels=("zone",))
    assert moves(dataclasses.replace(both, node_set=own), record) == [UpdateNode("cpu-0", ("cpu", "zone=a"))]
    assert own.labels == {SPINE, LEAF, "zone"}


@pytest.mark.parametrize(
    ("at", "refuses", "done"),
    [
        ("nvlink:a", False, ["cpu-0 is in ''", "copied"]),
        ("nvlink:a", True, []),
        ("fabric:rack1", False, []),
        ("", False, ["copied"]),
    ],
)
def test_a_node_is_out_of_a_topology_before_the_files_that_lack_it_are_copied(
    at: str, refuses: bool, done: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    log: list[str] = []

    async def accept(*_: object) -> config.Verdict:
        return config.Verdict(True, "")

    async def promote(*_: object) -> str:
        log.append("copied")
        return ""

    async def told(*_: object) -> None:
        pass

    class Nodes:
        async def node(self, name: str) -> SlurmNode:
            return placed(name, at)

        async def update_node(self, name: str, features: object, weight: object, topology: str) -> None:
            if refuses:
                raise SlurmError(Trouble.REFUSED, name)
            log.append(f"{name} is in {topology!r}")

    monkeypatch.setattr(dry_run, "ask", accept)
    monkeypatch.setattr(Configurer, "promote", promote)
    monkeypatch.setattr(report.Reporter, "event", told)
    text = FILES[names.TOPOLOGY_YAML].replace("rack1", "rack2")
    flat = text[: text.index("- topology: nvlink")] + text[text.index("- topology: plain") :]
    wanted = FILES | {names.TOPOLOGY_YAML: flat}
    cluster = dataclasses.replace(CLUSTER, closed=frozenset())
    seen = dataclasses.replace(SEEN, cluster=cluster, desired_config=wanted, active_config=FILES)
    nobody, lease = cast(KubernetesApi, None), LeaseFor(math.inf)
    configuration = Configuration(execute.Executor(nobody, lease), Configurer(nobody, lease))
    there = {"cpu-0": placed(at=at)}
    reads = dataclasses.replace(READS, parameters="")
    asyncio.run(configuration.bring(this_pass(Nodes(), seen, reads), there, (), declared=True))
    assert log == done
