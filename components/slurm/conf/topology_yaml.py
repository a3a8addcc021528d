"""topology.yaml, and the tree that a preview shows of it.

The file names no nodes. The operator gives each node's record its place, and slurmctld keeps it. So scaling changes no
file, and slurmctld logs no complaint about names that no node has yet.
"""

from collections.abc import Iterator
from typing import Any, Final

import yaml

from components.config.nodes.node_sets import NodeSet
from components.config.program import Config
from components.config.topologies import Place, Topology, TopologyType, default_topology, unlabeled
from contract import names

_HEAD: Final = f"{names.TOPOLOGIES_MARK}\n"


def topology_yaml(config: Config) -> str:
    """Return topology.yaml; empty without topologies."""
    topologies = config.slurm.topologies
    default = default_topology(topologies)
    rows = [
        {"topology": topology.name, "cluster_default": topology is default, **_body(config, topology)}
        for topology in topologies
    ]
    return _HEAD + yaml.safe_dump(rows, sort_keys=False) if rows else ""


def node_set_topology(node_set: NodeSet) -> list[dict[str, Any]]:
    """Return spec.topology of a NodeSet: where its nodes are."""
    return [place.model_dump(by_alias=True, exclude_none=True, exclude_defaults=True) for place in node_set.topology]


def _body(config: Config, topology: Topology) -> dict[str, Any]:
    match topology.type:
        case TopologyType.FLAT:
            return {"flat": True}
        case TopologyType.BLOCK:
            blocks = [{"block": block} for block in topology.blocks]
            return {"block": {"block_sizes": list(topology.block_sizes), "blocks": blocks}}
        case TopologyType.TREE:
            below = _below(config, topology)
            return {"tree": {"switches": [_switch(name, children) for name, children in below.items()]}}


def _switch(name: str, children: list[str]) -> dict[str, str]:
    return {"switch": name, **({"children": ",".join(children)} if children else {})}


def _below(config: Config, topology: Topology) -> dict[str, list[str]]:
    """Return switch → the switches below it. One above switches of labels has another for nodes without a label."""
    below = {unit: list(topology.switches.get(unit, ())) for unit in topology.units}
    for unit in dict.fromkeys(place.unit for _, place in _placed(config, topology) if place.unit and place.labels):
        below[unit].append(unlabeled(unit))
        below[unlabeled(unit)] = []
    return below


def _placed(config: Config, topology: Topology) -> list[tuple[NodeSet, Place]]:
    both = [(node_set, place) for node_set in config.node_sets for place in node_set.topology]
    return [(node_set, place) for node_set, place in both if place.name == topology.name]


def shown(config: Config) -> list[str]:
    """Return the topologies as lines for people, each a tree with the node sets in it."""
    default = default_topology(config.slurm.topologies)
    return [line for topology in config.slurm.topologies for line in _shown(config, topology, topology is default)]


def _shown(config: Config, topology: Topology, is_default: bool) -> Iterator[str]:
    sizes = f" of {', '.join(map(str, topology.block_sizes))}" if topology.block_sizes else ""
    yield f"topology {topology.name}: {topology.type}{sizes}{' (default)' if is_default else ''}"
    if topology.type is TopologyType.FLAT:
        return
    below = _below(config, topology) if topology.type is TopologyType.TREE else {unit: [] for unit in topology.units}
    children = {child for others in below.values() for child in others}
    nodes: dict[str, list[str]] = {}
    for node_set, place in _placed(config, topology):
        nodes.setdefault(place.unit or "", []).append(_nodes(node_set, place))
    for unit in below:
        if unit not in children:
            yield from _lines(unit, below, nodes, "  ")
    for words in nodes.get("", ()):
        yield f"  {words}"


def _lines(unit: str, below: dict[str, list[str]], nodes: dict[str, list[str]], indent: str) -> Iterator[str]:
    there = f": {', '.join(nodes[unit])}" if unit in nodes else ""
    yield f"{indent}{unit}{there}"
    for child in below[unit]:
        yield from _lines(child, below, nodes, f"{indent}  ")


def _nodes(node_set: NodeSet, place: Place) -> str:
    """Return the nodes of a set, as far as their number is declared, and the labels of their places."""
    count = node_set.replicas
    numbers = "*" if count is None else "0" if count == 1 else f"[0-{count - 1}]"
    by = f" by {', '.join(place.labels)}" if place.labels else ""
    return f"{node_set.name} (no nodes yet){by}" if count == 0 else f"{node_set.name}-{numbers}{by}"
