"""Topologies of topology.yaml, and the place of nodes in them.

A node's record names its place, `topology:unit`, and slurmctld saves that. A slurmctld that reads a topology.yaml
without that unit ends at once (read_config.c of 26.05). So a place is given only if the files have it, and taken away
before they lose it.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import yaml

from contract import names
from slurm_operator.state import K8sNode, Nodes, Place

Topologies = Mapping[str, Mapping[str, Any]]
"""Name of a topology → its entry in topology.yaml."""


def of_files(files: Mapping[str, str] | None) -> Topologies:
    """Return the topologies of a configuration; none if its topology.yaml is missing or is no list of them."""
    return _parsed((files or {}).get(names.TOPOLOGY_YAML, ""))


@functools.lru_cache(4)
def _parsed(text: str) -> Topologies:
    try:
        # All scalars stay the text that Slurm reads.
        rows = yaml.load(text, yaml.BaseLoader)  # noqa: S506 - it makes plain lists, maps and texts alone
    except yaml.YAMLError:
        return {}
    listed = rows if isinstance(rows, list) else [rows]
    return {row["topology"]: row for row in listed if isinstance(row, dict) and isinstance(row.get("topology"), str)}


def takes(topologies: Topologies, pair: str) -> bool:
    """Return whether slurmctld takes a place such as fabric:root:rack1 with these topologies."""
    name, _, unit = pair.partition(":")
    match topologies.get(name):
        case {"tree": {"switches": [*switches]}}:
            return _is_in_tree({row["switch"]: "children" in row for row in switches}, unit.split(":"))
        case {"block": {"blocks": [*blocks]}}:
            return any(row["block"] == unit for row in blocks)
    return False


def _is_in_tree(has_children: Mapping[str, bool], way: Sequence[str]) -> bool:
    """Return whether a way ends at a leaf: a declared one, or a new one below a declared switch that is none."""
    if way[0] not in has_children or has_children.get(way[-1], False):
        return False
    return all(after in has_children or has_children.get(before, True) for before, after in itertools.pairwise(way))


def place(own: Sequence[Place], k8s_node: K8sNode | None, active: Topologies, wanted: Topologies) -> str | None:
    """Return a node's place, as slurm.conf(5) has it; None if what it has stays for now.

    Args:
        own: the places that its node set declares.
        k8s_node: its Kubernetes node; None if nobody knows it.
        active: topologies that slurmctld runs with.
        wanted: topologies that it is to run with; the same if there is nothing new.
    """
    if k8s_node is None and any(of.labels for of in own):
        return None
    pairs = [_pair(of, k8s_node, active) for of in own]
    # The files may change before this is done: only what both take is safe, and what one lacks may come.
    if wanted != active and not all(pair and takes(wanted, pair) for pair in pairs):
        return None
    return ",".join(pair for pair in pairs if pair)


def _pair(own: Place, k8s_node: K8sNode | None, topologies: Topologies) -> str:
    """Return the place in one topology; empty if there is none for the node."""
    labels = dict(k8s_node.labels) if k8s_node else {}
    values = [labels.get(key, "") for key in own.labels]
    ways = [":".join([own.name, *([own.unit] if own.unit else []), *values])] if all(values) else []
    ways += [f"{own.name}:{own.unit}-{names.UNLABELED}"] if own.labels else []
    return next((way for way in ways if takes(topologies, way)), "")


def is_placed(own: Place, k8s_node: K8sNode, topologies: Topologies) -> bool:
    """Return whether a node is where its labels say, and not outside of the topology or with the unlabeled."""
    pair = _pair(own, k8s_node, topologies)
    return bool(pair) and not (own.labels and pair.endswith(f":{own.unit}-{names.UNLABELED}"))


def changed(active: Topologies, wanted: Topologies) -> frozenset[str]:
    """Return the active topologies that are others, or not there, in the wanted configuration."""
    return frozenset(name for name, entry in active.items() if wanted.get(name) != entry)


def misplaced(active: Topologies, wanted: Topologies, nodes: Nodes) -> Iterator[str]:
    """Yield the nodes with whose places a slurmctld with the wanted topologies would end."""
    kept = wanted.keys() - changed(active, wanted) - (wanted.keys() - active.keys())
    for name, node in nodes.items():
        pairs = (node.topology or "").split(",") if node.topology else []
        if not all(pair.partition(":")[0] in kept or takes(wanted, pair) for pair in pairs):
            yield name
