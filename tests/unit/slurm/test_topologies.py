"""Declared topologies: topology.yaml, NodeSets and what a preview shows of them, and sentences about wrong ones."""

from __future__ import annotations

from typing import Any, Final

import pytest
import yaml

from components import slurm_cluster
from components.config import ConfigurationError, parse
from components.slurm.conf import slurm_conf, topology_yaml
from contract import names
from tests.unit.samples import SMALL, changed
from tests.unit.slurm.topology_samples import DECLARED, FABRIC, GPU, LEAF, NVLINK


def test_topology_yaml_has_the_declared_topologies_and_no_nodes() -> None:
    written = slurm_conf.files(parse(DECLARED))
    assert written[names.TOPOLOGY_YAML].startswith(names.TOPOLOGIES_MARK)
    assert yaml.safe_load(written[names.TOPOLOGY_YAML]) == [
        {
            "topology": "fabric",
            "cluster_default": True,
            "tree": {
                "switches": [
                    {"switch": "core", "children": "rack1,pods"},
                    {"switch": "rack1"},
                    {"switch": "pods", "children": "pods-unlabeled"},
                    {"switch": "pods-unlabeled"},
                ]
            },
        },
        {
            "topology": "nvlink",
            "cluster_default": False,
            "block": {"block_sizes": [4, 8], "blocks": [{"block": "a"}, {"block": "b"}]},
        },
        {"topology": "plain", "cluster_default": False, "flat": True},
    ]
    assert "PartitionName=nvl Nodes=ns_gpu" in written[names.SLURM_CONF]
    assert "Topology=nvlink" in written[names.SLURM_CONF].split()


def test_without_topologies_there_is_no_file_and_administrators_place_nodes() -> None:
    plain = parse(SMALL)
    assert names.TOPOLOGY_YAML not in slurm_conf.files(plain)
    assert "topology" not in slurm_cluster.node_set_resource(plain, plain.node_sets[0])["spec"]
    assert topology_yaml.shown(plain) == []


def test_scaling_changes_no_file() -> None:
    larger = changed("nodeSets.1.replicas", 900, DECLARED)
    assert slurm_conf.files(parse(larger))[names.TOPOLOGY_YAML] == slurm_conf.files(parse(DECLARED))["topology.yaml"]


def test_a_node_set_says_where_its_nodes_are() -> None:
    config = parse(DECLARED)
    cpu, gpu = (slurm_cluster.node_set_resource(config, each)["spec"]["topology"] for each in config.node_sets)
    assert cpu == [{"name": "fabric", "unit": "rack1"}]
    assert gpu == [{"name": "fabric", "unit": "pods", "labels": [LEAF]}, {"name": "nvlink", "labels": [NVLINK]}]
    outside = changed("nodeSets.0.topology", [], changed("partitions.0.nodeSets", ["gpu"], DECLARED))
    outside = changed("partitions.2.nodeSets", ["gpu"], outside)
    config = parse(outside)
    assert slurm_cluster.node_set_resource(config, config.node_sets[0])["spec"]["topology"] == [], "its nodes leave"


def test_a_preview_shows_each_topology_as_a_tree() -> None:
    assert topology_yaml.shown(parse(DECLARED)) == [
        "topology fabric: tree (default)",
        "  core",
        "    rack1: cpu-[0-1]",
        f"    pods: gpu-[0-7] by {LEAF}",
        "      pods-unlabeled",
        "topology nvlink: block of 4, 8",
        "  a",
        "  b",
        f"  gpu-[0-7] by {NVLINK}",
        "topology plain: flat",
    ]
    sized = [changed("nodeSets.0.replicas", count, DECLARED) for count in (None, 0, 1)]
    lines = [topology_yaml.shown(parse(raw))[2] for raw in sized]
    assert lines == ["    rack1: cpu-*", "    rack1: cpu (no nodes yet)", "    rack1: cpu-0"]


def test_one_topology_is_the_default() -> None:
    only = changed("slurm.topologies", [FABRIC | {"default": False}], changed("partitions", [], DECLARED))
    only = changed("nodeSets.1.topology", [GPU["topology"][0]], only)
    assert yaml.safe_load(slurm_conf.files(parse(only))["topology.yaml"])[0]["cluster_default"] is True


WRONG: Final[list[tuple[str, Any, str]]] = [
    ("slurm.topologies.0.type", "ring", "slurm.topologies[0].type: got 'ring'; want one of 'tree', 'block' or 'flat'"),
    ("slurm.topologies.0.name", "a:b", "slurm.topologies[0].name: got 'a:b'; want at most 53 letters"),
    ("slurm.topologies.0.name", "nvlink", "topologies[1].name: got 'nvlink'; want another name"),
    ("slurm.topologies.0.default", False, "slurm.topologies: got [{"),
    ("slurm.topologies.1.default", True, "topologies[1].default: got true; want one default; topologies[0] is one"),
    ("slurm.topologies.0.blocks", ["a"], 'topologies[0].blocks: got ["a"]; want nothing with type: tree; type: block'),
    ("slurm.topologies.2.switches", {"a": []}, "topologies[2].switches: got {"),
    ("slurm.topologies.0.switches", {}, "topologies[0].switches: got {}; want one or more: slurmctld ends without"),
    (
        "slurm.topologies.1",
        {"name": "nvlink", "type": "block"},
        "blocks: got nothing; want one or more: type: block has",
    ),
    (
        "slurm.topologies.0.switches",
        {"core": ["rack1"], "rack1": ["core"], "pods": []},
        'topologies[0].switches.core: got ["rack1"]; want switches that are below no switch of their own: core below '
        "rack1 below core",
    ),
    ("slurm.topologies.0.switches", {"core": ["core", "rack1", "pods"]}, "of their own: core below core"),
    (
        "slurm.topologies.0.switches",
        {"core": ["rack1", "pods"], "other": ["rack1"]},
        "topologies[0].switches.other[0]: got 'rack1'; want each switch below one other; rack1 is below core already",
    ),
    (
        "slurm.topologies.0.switches",
        {f"s{at}": [f"s{at + 1}"] for at in range(22)} | {"core": ["rack1", "pods"]},
        'topologies[0].switches.s21: got ["s22"]; want at most 20 switches above one another',
    ),
    ("slurm.topologies.0.switches", {"a[1-2]": []}, "switches.a[1-2]: got 'a[1-2]'; want at most 53 letters, digits"),
    ("slurm.topologies.1.blocks", ["a", "a"], "topologies[1].blocks[1]: got 'a'; want each of them once"),
    ("slurm.topologies.1.blockSizes", [4, 12], "blockSizes[1]: got 12; want 4 times a power of two: 8, 16, 32, 64 …"),
    ("slurm.topologies.1.blockSizes", [4, 16, 8], "blockSizes[2]: got 8; want a larger size than the one before"),
    ("slurm.topologies.1.blockSizes", [0], "blockSizes[0]: got 0; want 1 or more"),
    ("nodeSets.1.topology", [GPU["topology"][0]], "topologies[1].name: got 'nvlink'; want one that a node set names"),
    ("nodeSets.0.topology.0.name", "gone", "nodeSets[0].topology[0].name: got 'gone'; want the name of one of slurm"),
    ("nodeSets.0.topology.0.name", "plain", "topology[0].name: got 'plain'; want a topology of type tree or block"),
    ("nodeSets.0.topology.0.unit", "core", "unit: got 'core'; want a leaf switch: core has switches below it (rack1"),
    ("nodeSets.0.topology.0.unit", "pods", "unit: got 'pods'; want another switch: labels of node set gpu make swi"),
    ("nodeSets.0.topology.0.unit", "gone", "a switch of topology fabric; there are: core, rack1, pods"),
    ("nodeSets.0.topology.0.unit", None, "topology[0].unit: got nothing; want a switch or block, or labels"),
    ("nodeSets.1.topology.0.unit", None, "topology[0].unit: got nothing; want the switch of topology fabric that is"),
    (
        "nodeSets.1.topology.0.labels",
        [LEAF, LEAF],
        "topology[0].labels[1]: got 'network.topology.nvidia.com/leaf'; want",
    ),
    ("nodeSets.1.topology.1.labels", [NVLINK, LEAF], 'topology[1].labels: got ["network'),
    ("nodeSets.1.topology.1.unit", "a", 'topology[1].labels: got ["network'),
    ("nodeSets.1.topology.1", {"name": "nvlink", "unit": "c"}, "a block of topology nvlink; there are: a, b"),
    (
        "nodeSets.1.topology",
        [*GPU["topology"], {"name": "nvlink", "unit": "a"}],
        "topology[2].name: got 'nvlink'; want",
    ),
    ("operator.watchNodes", False, 'topology[0].labels: got ["network.topology.nvidia.com/leaf"]; want nothing beside'),
    ("partitions.1.options.Topology", "gone", "options.Topology: got 'gone'; want the name of one of slurm.topologies"),
    (
        "partitions.1.nodeSets",
        ["gpu", "cpu"],
        "partitions[1].nodeSets[1]: got 'cpu'; want a node set with nvlink in its topology, or another topology",
    ),
    (
        "slurm.files",
        {"topology.yaml": "- x\n"},
        "slurm.files.topology.yaml: got '- x\\n'; want nothing beside slurm.top",
    ),
    (
        "slurm.options",
        {"TopologyPlugin": "topology/tree"},
        "options.TopologyPlugin: got 'topology/tree'; want nothing b",
    ),
    ("nodeSets.0.options", {"Topology": 1}, "options.Topology: got 'Topology'; want nodeSets[].topology in its place"),
]


@pytest.mark.parametrize(("path", "value", "told"), WRONG, ids=[f"{path}-{n}" for n, (path, *_) in enumerate(WRONG)])
def test_a_wrong_topology_is_told_with_its_path(path: str, value: Any, told: str) -> None:
    with pytest.raises(ConfigurationError) as refused:
        parse(changed(path, value, DECLARED))
    assert told in str(refused.value)


def test_all_errors_are_told_at_once() -> None:
    raw = changed("slurm.topologies.1.blockSizes", [3, 7], changed("slurm.topologies.1.default", True, DECLARED))
    raw = changed("nodeSets.0.topology.0.unit", "gone", changed("partitions.1.options.Topology", "none", raw))
    with pytest.raises(ConfigurationError) as refused:
        parse(raw)
    paths = [str(problem).split(": got")[0].removeprefix("pulumi-slurm:") for problem in refused.value.problems]
    assert paths == [
        "nodeSets[0].topology[0].unit",
        "partitions[1].options.Topology",
        "slurm.topologies[1].blockSizes[1]",
        "slurm.topologies[1].default",
    ]
