"""Promises about files with topologies: slurmctld never reads some without a node's place, and new trees come first."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

import pytest
from slurm_operator.actions import UpdateNode
from slurm_operator.decide.cluster import config, topologies
from slurm_operator.decide.nodes import topology
from slurm_operator.decide.nodes.topology import Topologies
from slurm_operator.findings import Finding, Severity
from slurm_operator.state.resources import Place
from slurm_operator.state.slurm import Unknown

from contract import names
from contract.conditions import NO_USE_TO_WAIT
from tests.operator.states.features import state
from tests.operator.states.topologies import BLOCK, FILES, KNOWN, OTHER, RACK, moves, placed, to


def before(wanted: dict[str, str], at: str, files: dict[str, str] = FILES) -> list[UpdateNode] | str:
    """Return what is done with a node before slurmctld reads the wanted files, or why these wait."""
    decided = topologies.before_reading(wanted, files, {"cpu-0": placed(at=at)})
    if isinstance(decided, Finding):
        return decided.message
    assert decided.files == wanted
    return [*decided.leaving]


@pytest.mark.parametrize("at", ["", "fabric:pods:s1:l7", "nvlink:a", "fabric:pods-unlabeled,nvlink:b"])
def test_places_that_the_new_files_have_change_nothing(at: str) -> None:
    assert before(OTHER, at) == []


def test_files_wait_that_lose_a_place_in_a_topology_of_partitions() -> None:
    told = before(OTHER, "nvlink:a,fabric:rack1")
    assert isinstance(told, str)
    assert told.startswith("topology fabric would lose the places of cpu-0 while partitions use it, and Slurm would")
    assert isinstance(before({names.TOPOLOGY_YAML: "- ["}, "fabric:rack1"), str)


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
    assert before(on_blocks, "fabric:rack1") == [], "Slurm uses nodes outside of blocks, too"
    assert before(others, "") == [], "those of another set"
    by_hand = FILES[names.TOPOLOGY_YAML].removeprefix(names.TOPOLOGIES_MARK)
    assert before(FILES | {names.TOPOLOGY_YAML: by_hand}, "", on_flat) == [], "such a file may name its nodes"


MARKED = f"SlurmctldParameters=enable_configless,{names.CONFIG_MARK}=%s\n{FILES[names.SLURM_CONF]}"
"""A slurm.conf with a mark, as the program renders it."""
NEW = FILES | {names.SLURM_CONF: MARKED % "after"}


@pytest.mark.parametrize(
    ("active", "default", "kept"),
    [
        ({}, "_flat", {"_flat"}),
        ({names.TOPOLOGY_YAML: f"{names.TOPOLOGIES_MARK}\n- {{topology: old, flat: true}}\n"}, "old", {"old"}),
    ],
)
def test_a_new_tree_comes_before_partitions_use_it_in_one_pulumi_up(
    active: dict[str, str], default: str, kept: set[str]
) -> None:
    active = {"other.conf": "x", names.SLURM_CONF: MARKED % "before", **active}
    first = topologies.before_reading(NEW, active, {"cpu-0": placed(at="")})
    assert isinstance(first, topologies.Step)
    entries = topology.of_files(first.files)
    assert topology.default(entries) == {default}, "partitions use what they used"
    assert entries.keys() == kept | KNOWN.keys()
    assert topology.takes(entries, "fabric:pods:s1:l7")
    assert config.mark(first.files[names.SLURM_CONF]) not in ("before", "after"), "slurmctld shows that it has read it"
    same = {names.SLURM_CONF, names.TOPOLOGY_YAML}
    assert {name: text for name, text in first.files.items() if name not in same} == {"other.conf": "x"}

    known = Topologies(entries, KNOWN, settled=False)
    placing = dataclasses.replace(state(topology=(RACK, BLOCK)), topologies=known)
    assert moves(placing, placed()) == to("fabric:rack1,nvlink:b")
    waits = topologies.before_reading(NEW, first.files, {"cpu-0": placed(at="nvlink:b")})
    assert isinstance(waits, Finding)
    assert (waits.reason, waits.severity) == (config.HELD, Severity.PROGRESSING)
    assert before(NEW, "fabric:rack1,nvlink:b", dict(first.files)) == []


def step(wanted: Mapping[str, str], active: Mapping[str, str], at: str) -> dict[str, str]:
    """Return the files that come before the wanted ones, which no node has to leave a place for."""
    found = topologies.before_reading(wanted, active, {"cpu-0": placed(at=at)})
    assert isinstance(found, topologies.Step), found
    assert found.files != wanted
    assert found.leaving == ()
    return dict(found.files)


OTHER_TREE = {
    names.SLURM_CONF: MARKED % "other",
    names.TOPOLOGY_YAML: FILES[names.TOPOLOGY_YAML].replace("fabric", "another"),
}
NO_TOPOLOGY = {names.SLURM_CONF: (MARKED % "none").replace(" Topology=plain", "")}


def test_a_tree_takes_the_place_of_another_while_nodes_are_in_both() -> None:
    first = step(OTHER_TREE, NEW, "fabric:rack1")
    assert topology.default(topology.of_files(first)) == {"fabric"}
    known = Topologies(topology.of_files(first), topology.of_files(OTHER_TREE), settled=False)
    moving = dataclasses.replace(state(topology=(Place("another", "pods-unlabeled"),)), topologies=known)
    both = "another:pods-unlabeled,fabric:rack1"
    assert moves(moving, placed(at="fabric:rack1")) == to(both)
    second = step(OTHER_TREE, first, both)
    assert topology.default(topology.of_files(second)) == {"another"}, "partitions use the new one"
    assert topology.takes(topology.of_files(second), "fabric:rack1")
    assert len({config.mark(each[names.SLURM_CONF]) for each in (NEW, first, second, OTHER_TREE)}) == 4
    assert before(OTHER_TREE, both, second) == to("another:pods-unlabeled")


def test_partitions_leave_a_topology_before_nodes_do() -> None:
    first = step(NO_TOPOLOGY, NEW, "fabric:rack1")
    assert topology.default(topology.of_files(first)) == {"_flat"}
    assert first[names.SLURM_CONF].partition("\n")[2] == NO_TOPOLOGY[names.SLURM_CONF].partition("\n")[2]
    assert before(NO_TOPOLOGY, "fabric:rack1", first) == to("")


def test_a_tree_that_partitions_do_not_use_yet_may_be_another_one_when_they_do() -> None:
    text = FILES[names.TOPOLOGY_YAML].replace("  cluster_default: true\n", "").replace("rack1", "rack2")
    flat = text.replace("  flat: true\n", "  flat: true\n  cluster_default: true\n")
    active = NEW | {names.TOPOLOGY_YAML: flat}
    assert topology.takes(topology.of_files(step(NEW, active, "")), "fabric:rack1")
    found = topologies.before_reading(NEW, active, {"cpu-0": placed(at="fabric:rack2")})
    assert isinstance(found, topologies.Step)
    assert [*found.leaving] == to("")


def test_nodes_come_into_two_new_trees() -> None:
    second = FILES[names.TOPOLOGY_YAML].replace("- topology: plain\n  flat: true\n", "")
    second += "- topology: plain\n  tree: {switches: [{switch: a}]}\n"
    active = NO_TOPOLOGY
    first = step(NEW | {names.TOPOLOGY_YAML: second}, active, "")
    again = topologies.before_reading(NEW | {names.TOPOLOGY_YAML: second}, first, {"cpu-0": placed(at="fabric:rack1")})
    assert isinstance(again, Finding)
    assert again.message.startswith("partitions would use topology plain before cpu-0 are in it")


def test_a_new_tree_is_taken_back_before_partitions_use_it() -> None:
    active = {names.SLURM_CONF: MARKED % "before"}
    first = topologies.before_reading(NEW, active, {"cpu-0": placed(at="")})
    assert isinstance(first, topologies.Step)
    assert before(active, "fabric:rack1,nvlink:b", dict(first.files)) == to("")


def test_places_that_new_trees_files_lack_are_left_before_slurmctld_reads_these() -> None:
    blocks = FILES[names.TOPOLOGY_YAML].replace("block: b", "block: c")
    flat = f"{names.TOPOLOGIES_MARK}\n- {{topology: old, cluster_default: true, flat: true}}\n"
    active = FILES | {names.TOPOLOGY_YAML: flat + blocks[blocks.index("- topology: nvlink") :]}
    first = topologies.before_reading(FILES, active, {"cpu-0": placed(at="nvlink:c")})
    assert isinstance(first, topologies.Step)
    assert [*first.leaving] == to("")


@pytest.mark.parametrize(
    ("active", "ways"),
    [
        (f"{names.TOPOLOGIES_MARK}\n- {{topology: fabric, flat: true}}\n", "give fabric another name than"),
        ("- {topology: mine, flat: true}\n", "first declare fabric beside a flat topology that is the default;"),
    ],
)
def test_a_new_tree_is_refused_where_no_files_lead_to_it(active: str, ways: str) -> None:
    files = FILES | {names.TOPOLOGY_YAML: active}
    refused = topologies.before_reading(FILES, files, {"cpu-0": placed(at="")})
    assert isinstance(refused, Finding)
    assert refused.reason in NO_USE_TO_WAIT
    assert ways in refused.message


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
    goes_on = topologies.Step(FILES)
    assert topologies.before_reading(FILES, FILES, away) == goes_on
    assert topologies.before_reading(FILES, None, away) == goes_on, "a new cluster has no places"
    handwritten = {names.TOPOLOGY_YAML: "- topology: other\n  flat: true\n"}
    assert topologies.before_reading(FILES, handwritten, away) == goes_on, "its nodes have places only by hand"
