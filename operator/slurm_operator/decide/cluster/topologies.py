"""What a configuration means for the places of nodes in topologies."""

from __future__ import annotations

import re
from collections.abc import Mapping

from contract import names
from slurm_operator.actions import UpdateNode
from slurm_operator.decide.cluster import config
from slurm_operator.decide.nodes import topology
from slurm_operator.decide.nodes.topology import Topologies
from slurm_operator.findings import Finding, shown
from slurm_operator.state import Nodes, Running, Unknown

_PARTITION = re.compile(r"^\s*PartitionName\s*=(.*)", re.IGNORECASE | re.MULTILINE)
_TOPOLOGY = re.compile(r"\sTopology\s*=\s*([^\s#]+)", re.IGNORECASE)


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
) -> list[UpdateNode] | Finding:
    """Return the nodes to take out of topologies before slurmctld may read the wanted files, or why those wait.

    Args:
        wanted: files that Pulumi declared.
        active: files that are mounted; None if there are none yet.
        nodes: all of slurmctld's nodes.
    """
    if active is None:
        return []
    before, after = topology.of_files(active), topology.of_files(wanted)
    if isinstance(nodes, Unknown):
        return _unseen(sorted(topology.changed(before, after)), active, nodes)
    in_use, used = _used(active), _used(wanted)
    left = {name: topology.without(node.topology or "", before, after) for name, node in nodes.items()}
    if held := sorted(name for name, (_, gone) in left.items() if gone & in_use):
        lost = ", ".join(sorted({gone for name in held for gone in left[name][1] & in_use}))
        why = f"topology {lost} would lose the places of {shown(held)} while partitions use it"
        ways = "first move the node sets to places that stay, or partitions to another topology; then take these away"
        return Finding(config.HELD, f"{why}, and Slurm would hold waiting jobs: {ways}")
    for name in sorted((used - in_use) & after.keys()):
        if late := sorted(node for node, (kept, _) in left.items() if topology.comes(after, name, node, kept)):
            why = f"partitions would use topology {name} before {shown(late)} have their places in it"
            ways = "first declare it with the places of its nodes; then let partitions use it"
            return Finding(config.HELD, f"{why}, and Slurm would hold waiting jobs: {ways}")
    return [UpdateNode(name, topology=kept) for name, (kept, gone) in left.items() if gone]


def _unseen(changed: list[str], active: Mapping[str, str], nodes: Unknown) -> list[UpdateNode] | Finding:
    """Return why a change of topologies waits while nodes cannot be seen. Nodes have places only in declared ones."""
    if not changed or not active.get(names.TOPOLOGY_YAML, "").startswith(names.TOPOLOGIES_MARK):
        return []
    why = "slurmctld does not start if a node's place is gone, and nodes cannot be seen"
    return Finding(config.HELD, f"topology {', '.join(changed)} changes: {why}: {nodes.message}")


def _used(files: Mapping[str, str]) -> frozenset[str]:
    """Return the topologies that the partitions of a configuration use."""
    default, used = topology.default(topology.of_files(files)), frozenset[str]()
    for line in _PARTITION.findall(files.get(names.SLURM_CONF, "")):
        named = _TOPOLOGY.search(line)
        used |= {named[1]} if named else default
    return used
