"""Topology files, and nodes with their places in them."""

from __future__ import annotations

import dataclasses
from typing import Any

from slurm_operator.actions import UpdateNode
from slurm_operator.decide.node_sets import features
from slurm_operator.decide.nodes import topology
from slurm_operator.decide.nodes.workers import NodeSetState
from slurm_operator.state.resources import Place
from slurm_operator.state.slurm import SlurmNode

from contract import names
from tests.operator.states.sets import node

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


def moves(size: NodeSetState, *records: SlurmNode) -> list[UpdateNode]:
    return features.actions(size.seen({each.name: each for each in records}))


def to(place: str) -> list[UpdateNode]:
    return [UpdateNode("cpu-0", topology=place)]


RACK, BLOCK = Place("fabric", "rack1"), Place("nvlink", "b")
