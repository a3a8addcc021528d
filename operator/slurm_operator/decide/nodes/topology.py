"""Topologies of topology.yaml, and the place of nodes in them.

A node's record names its place, `topology:unit`, and slurmctld saves that. A slurmctld that reads a topology.yaml
without that unit ends at once (read_config.c of 26.05). Waiting jobs that find too few nodes in their partition's tree
are held (job_scheduler.c). So places change only while slurmctld has the old one and the new one. Files without a place
that partitions use have to wait.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
from collections.abc import Mapping, Sequence
from typing import Any

import yaml

from contract import names
from slurm_operator.state.kubernetes import K8sNode
from slurm_operator.state.resources import Place

Entries = Mapping[str, Mapping[str, Any]]
"""Name of a topology → its entry in topology.yaml."""


@dataclasses.dataclass(frozen=True, slots=True)
class Topologies:
    """Topologies that slurmctld runs with, and those that it is to run with. `settled`: with the same files."""

    active: Entries
    wanted: Entries
    settled: bool


def of_files(files: Mapping[str, str] | None) -> Entries:
    """Return the topologies of a configuration; none if its topology.yaml is missing or is no list of them."""
    return _parsed((files or {}).get(names.TOPOLOGY_YAML, ""))


@functools.lru_cache(4)
def _parsed(text: str) -> Entries:
    try:
        # All scalars stay the text that Slurm reads.
        rows = yaml.load(text, yaml.BaseLoader)  # noqa: S506 - it makes plain lists, maps and texts alone
    except yaml.YAMLError:
        return {}
    listed = rows if isinstance(rows, list) else [rows]
    return {row["topology"]: row for row in listed if isinstance(row, dict) and isinstance(row.get("topology"), str)}


def takes(entries: Entries, pair: str) -> bool:
    """Return whether slurmctld takes a place such as fabric:root:rack1 with these topologies."""
    name, _, unit = pair.partition(":")
    match entries.get(name):
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


def place(own: Sequence[Place], k8s_node: K8sNode | None, now: str, known: Topologies) -> str | None:
    """Return the place that a node is to have, as slurm.conf(5) has it; None if what it has stays for now.

    Args:
        own: the places that its node set declares.
        k8s_node: its Kubernetes node; None if nobody knows it.
        now: the place that its record has.
        known: what slurmctld runs with.
    """
    if k8s_node is None and any(of.labels for of in own):
        return None
    pairs = [_pair(of, k8s_node, known.active) for of in own]
    if known.settled:
        return ",".join(pair for pair in pairs if pair)
    if not all(pair and takes(known.wanted, pair) for pair in pairs):
        return None
    # slurmctld may read the wanted files before this is done, and until then partitions use the old places.
    places = {_name(pair): pair for pair in [*pairs, *now.split(",")] if pair}
    return ",".join(places.values())


def _pair(own: Place, k8s_node: K8sNode | None, entries: Entries) -> str:
    """Return the place in one topology; empty if there is none for the node."""
    labels = dict(k8s_node.labels) if k8s_node else {}
    values = [labels.get(key, "") for key in own.labels]
    ways = [":".join([own.name, *([own.unit] if own.unit else []), *values])] if all(values) else []
    ways += [f"{own.name}:{own.unit}-{names.UNLABELED}"] if own.labels else []
    return next((way for way in ways if takes(entries, way)), "")


def is_placed(own: Place, k8s_node: K8sNode, entries: Entries) -> bool:
    """Return whether a node is where its labels say, and not outside of the topology or with the unlabeled."""
    pair = _pair(own, k8s_node, entries)
    return bool(pair) and not (own.labels and pair.endswith(f":{own.unit}-{names.UNLABELED}"))


def changed(active: Entries, wanted: Entries) -> frozenset[str]:
    """Return the active topologies that are others, or not there, in the wanted configuration."""
    return frozenset(name for name, entry in active.items() if wanted.get(name) != entry)


def without(place: str, active: Entries, wanted: Entries) -> tuple[str, frozenset[str]]:
    """Return what of a place slurmctld takes with the wanted topologies, and the topologies of what it does not."""
    gone, pairs = changed(active, wanted), place.split(",") if place else []
    kept = [pair for pair in pairs if _name(pair) in active.keys() - gone or takes(wanted, pair)]
    return ",".join(kept), frozenset(_name(pair) for pair in pairs if pair not in kept)


def is_in(place: str, topology: str) -> bool:
    """Return whether a place has one in a topology."""
    return topology in map(_name, place.split(","))


def default(entries: Entries) -> frozenset[str]:
    """Return the topology of partitions that name none. Where none is marked it may be any."""
    marked = [name for name, entry in entries.items() if str(entry.get("cluster_default")).lower() == "true"]
    return frozenset(marked[:1] or entries)


def _name(pair: str) -> str:
    return pair.partition(":")[0]
