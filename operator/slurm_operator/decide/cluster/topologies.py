"""Decides what a configuration means for the places of nodes in topologies."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from typing import Any, Final

import yaml

from contract import names
from contract.conditions import Reason
from contract.slurm_conf import slurm_node_set
from slurm_operator.actions import UpdateNode
from slurm_operator.decide.cluster import config
from slurm_operator.decide.nodes import topology
from slurm_operator.decide.nodes.topology import Topologies
from slurm_operator.findings import Finding, Severity, shown, under_way
from slurm_operator.state.slurm import Nodes, Running, Unknown

_PARTITION = re.compile(r"^\s*PartitionName\s*=(.*)", re.IGNORECASE | re.MULTILINE)
_TOPOLOGY = re.compile(r"\sTopology\s*=\s*([^\s#]+)", re.IGNORECASE)
_NODES = re.compile(r"\sNodes\s*=\s*([^\s#]+)", re.IGNORECASE)
_DEFAULT: Final = "cluster_default"
_FLAT: Final = "_flat"
"""Topology of partitions until their nodes are in the first tree. A declared name begins with a letter or digit."""


@dataclasses.dataclass(frozen=True, slots=True)
class Step:
    """Files that slurmctld may read next, once nodes have left places that these lack.

    Attributes:
        files: the wanted ones; or before them the active ones with new trees, and the wanted ones with those that
            partitions leave.
        leaving: what to change of nodes first.
    """

    files: Mapping[str, str]
    leaving: tuple[UpdateNode, ...] = ()


def known(
    wanted: Mapping[str, str] | None, active: Mapping[str, str] | None, running: Running | Unknown
) -> Topologies | None:
    """Return the topologies that slurmctld runs with; None if nobody knows.

    Args:
        wanted: files that Pulumi declared.
        active: files that are mounted.
        running: what slurmctld runs with.
    """
    if active is None or isinstance(running, Unknown) or not config.is_read(active, running):
        return None
    after = active if wanted is None else wanted
    return Topologies(topology.of_files(active), topology.of_files(after), dict(after) == dict(active))


def before_reading(
    wanted: Mapping[str, str], active: Mapping[str, str] | None, nodes: Nodes | Unknown
) -> Step | Finding:
    """Return the next step to the wanted files, or why they wait.

    Args:
        wanted: files that Pulumi declared.
        active: files that are mounted; None if there are none yet.
        nodes: all of slurmctld's nodes.
    """
    if active is None:
        return Step(wanted)
    before, after = topology.of_files(active), topology.of_files(wanted)
    if isinstance(nodes, Unknown):
        return _unseen(sorted(topology.changed(before, after)), active, nodes) or Step(wanted)
    in_use, used = _used(active), _used(wanted)
    left = {name: topology.without(node.topology or "", before, after) for name, node in nodes.items()}
    needed = {name for name, _ in in_use}
    losing = {name: gone & needed for name, (_, gone) in left.items() if gone & needed}
    lost = frozenset[str]().union(*losing.values())
    if lost & after.keys() or (lost and not (_is_ours(active) and _is_ours(wanted))):
        return _losing(losing)
    places = [(name, kept, slurm_node_set(name.rpartition("-")[0])) for name, (kept, _) in left.items()]
    there = {of for of in in_use if "tree" in before.get(of[0], {})}
    new = {of for of in used - there if _is_ours(wanted) and "tree" in after.get(of[0], {})}
    late = [
        (name, tree) for name, kept, own in places for tree, of in new if of == own and not topology.is_in(kept, tree)
    ]
    files: Mapping[str, str] | Finding = wanted
    if late:
        files = _before_their_nodes(wanted, active, late, needed)
    elif lost:
        files = _with(wanted, [row for row in _rows(active) if row["topology"] in lost])
    return files if isinstance(files, Finding) else Step(files, tuple(_leaving(nodes, before, files)))


def _losing(losing: Mapping[str, frozenset[str]]) -> Finding:
    """Return why nodes keep files from slurmctld: each with the topologies in which it would have no place."""
    lost = ", ".join(sorted(frozenset[str]().union(*losing.values())))
    why = f"topology {lost} would lose the places of {shown(sorted(losing))} while partitions use it"
    ways = "first move the node sets to places that stay, or partitions to another topology; then take these away"
    return Finding(config.HELD, f"{why}, and Slurm would hold waiting jobs: {ways}")


def _leaving(nodes: Nodes, before: topology.Entries, files: Mapping[str, str]) -> Iterator[UpdateNode]:
    """Yield the nodes to take out of places that slurmctld would not find in some files."""
    after = topology.of_files(files)
    for name, node in nodes.items():
        kept, gone = topology.without(node.topology or "", before, after)
        if gone:
            yield UpdateNode(name, topology=kept)


def _before_their_nodes(
    wanted: Mapping[str, str], active: Mapping[str, str], late: Sequence[tuple[str, str]], needed: Set[str]
) -> Mapping[str, str] | Finding:
    """Return the active files with the wanted topologies, or a finding if these are there, or cannot be.

    Nodes only come into a tree that slurmctld has, and partitions use the topologies of before until all are there.

    Args:
        wanted: files that Pulumi declared.
        active: files that are mounted.
        late: nodes, each with a tree that it is not in.
        needed: topologies that partitions use.
    """
    before, after = topology.of_files(active), topology.of_files(wanted)
    trees, nodes = sorted({tree for _, tree in late}), sorted({name for name, _ in late})
    early = f"partitions would use topology {', '.join(trees)} before {shown(nodes)} are in it"
    why = f"{early}, and Slurm would hold waiting jobs"
    if all(_body(before, tree) == _body(after, tree) for tree in trees):
        return under_way(config.HELD, f"{why}: it waits for their places")
    if others := [tree for tree in trees if tree in needed and "tree" not in before.get(tree, {})]:
        return _refused(f"{why}: give {', '.join(others)} another name than the topology that partitions use")
    if not _is_ours(active):
        steps = f"first declare {', '.join(trees)} beside a flat topology that is the default; then change that"
        return _refused(f"{why}: {steps}")
    return _with(active, _rows(wanted))


def _refused(why: str) -> Finding:
    message = f"the declared configuration is not used: {why}"
    return Finding(Reason.CONFIGURATION_REFUSED, message, Severity.WRONG | Severity.BLOCKING)


def _body(entries: topology.Entries, name: str) -> dict[str, Any]:
    """Return a topology without whether it is the default."""
    return {key: value for key, value in entries.get(name, {}).items() if key != _DEFAULT}


def _with(files: Mapping[str, str], more: Iterable[Mapping[str, Any]]) -> dict[str, str]:
    """Return files with more topologies. Partitions use those of before, which is a flat one where there was none."""
    default = topology.default(topology.of_files(files)) or {_FLAT}
    rows = [*(_rows(files) or [{"topology": _FLAT, "flat": True}]), *more]
    both = [{**row, _DEFAULT: name in default} for name, row in {row["topology"]: row for row in rows}.items()]
    text = f"{names.TOPOLOGIES_MARK}\n{yaml.safe_dump(both, sort_keys=False)}"
    return config.marked({**files, names.TOPOLOGY_YAML: text})


def _rows(files: Mapping[str, str]) -> list[Mapping[str, Any]]:
    """Return the topologies of a file that the program wrote, with the types that Slurm reads."""
    return list(yaml.safe_load(files.get(names.TOPOLOGY_YAML, "")) or ())


def _is_ours(files: Mapping[str, str]) -> bool:
    """Return whether the program wrote the topologies: nodes have places in them only by their records."""
    return files.get(names.TOPOLOGY_YAML, names.TOPOLOGIES_MARK).startswith(names.TOPOLOGIES_MARK)


def _unseen(changed: list[str], active: Mapping[str, str], nodes: Unknown) -> Finding | None:
    """Return why a change of topologies waits while nodes cannot be seen. Nodes have places only in declared ones."""
    if not changed or not active.get(names.TOPOLOGY_YAML, "").startswith(names.TOPOLOGIES_MARK):
        return None
    why = "slurmctld does not start if a node's place is gone, and nodes cannot be seen"
    return Finding(config.HELD, f"topology {', '.join(changed)} changes: {why}: {nodes.message}")


def _used(files: Mapping[str, str]) -> frozenset[tuple[str, str]]:
    """Return the topologies that the partitions of a configuration use, each with a node set of slurm.conf."""
    default, used = topology.default(topology.of_files(files)), set[tuple[str, str]]()
    for line in _PARTITION.findall(files.get(names.SLURM_CONF, "")):
        named, nodes = _TOPOLOGY.search(line), _NODES.search(line)
        own = {named[1]} if named else default
        used |= {(name, node_set) for name in own for node_set in (nodes[1] if nodes else "").split(",")}
    return frozenset(used)
