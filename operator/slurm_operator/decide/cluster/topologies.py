"""Decides what a configuration means for the places of nodes in topologies."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence, Set

from contract import names
from contract.conditions import Reason
from contract.slurm_names import slurm_node_set
from slurm_operator.actions import UpdateNode
from slurm_operator.decide.cluster import config
from slurm_operator.decide.nodes import topology
from slurm_operator.decide.nodes.topology import Topologies
from slurm_operator.findings import Finding, Severity, shown
from slurm_operator.state.slurm import Nodes, Running, Unknown

_PARTITION = re.compile(r"^\s*PartitionName\s*=(.*)", re.IGNORECASE | re.MULTILINE)
_TOPOLOGY = re.compile(r"\sTopology\s*=\s*([^\s#]+)", re.IGNORECASE)
_NODES = re.compile(r"\sNodes\s*=\s*([^\s#]+)", re.IGNORECASE)


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
    needed = {name for name, _ in in_use}
    if held := sorted(name for name, (_, gone) in left.items() if gone & needed):
        lost = ", ".join(sorted({gone for name in held for gone in left[name][1] & needed}))
        why = f"topology {lost} would lose the places of {shown(held)} while partitions use it"
        ways = "first move the node sets to places that stay, or partitions to another topology; then take these away"
        return Finding(config.HELD, f"{why}, and Slurm would hold waiting jobs: {ways}")
    new = {of for of in used - in_use if _is_our_tree(wanted, of[0])}
    places = [(name, kept, slurm_node_set(name.rpartition("-")[0])) for name, (kept, _) in left.items()]
    late = [
        (name, tree) for name, kept, own in places for tree, of in new if of == own and not topology.is_in(kept, tree)
    ]
    if late:
        return _before_their_nodes(late, before.keys())
    return [UpdateNode(name, topology=kept) for name, (kept, gone) in left.items() if gone]


def _before_their_nodes(late: Sequence[tuple[str, str]], active: Set[str]) -> Finding:
    """Return why partitions may not use trees yet; nodes only come into a tree that slurmctld has.

    Args:
        late: nodes, each with a tree that it is not in.
        active: names of the topologies that slurmctld has.
    """
    trees = sorted({tree for _, tree in late})
    why = (
        f"partitions would use topology {', '.join(trees)} before {shown(sorted({name for name, _ in late}))} are in it"
    )
    message = f"{why}, and Slurm would hold waiting jobs"
    if new := [tree for tree in trees if tree not in active]:
        steps = (
            f"declare {', '.join(new)} beside a flat topology that is the default; in a second `pulumi up` change that"
        )
        severity = Severity.WRONG | Severity.BLOCKING
        return Finding(
            Reason.CONFIGURATION_REFUSED, f"the declared configuration is not used: {message}: {steps}", severity
        )
    return Finding(config.HELD, f"{message}: it waits for their places")


def _is_our_tree(files: Mapping[str, str], name: str) -> bool:
    """Return whether the program wrote a tree: nodes have places in it only by their records."""
    ours = files.get(names.TOPOLOGY_YAML, "").startswith(names.TOPOLOGIES_MARK)
    return ours and "tree" in topology.of_files(files).get(name, {})


def _unseen(changed: list[str], active: Mapping[str, str], nodes: Unknown) -> list[UpdateNode] | Finding:
    """Return why a change of topologies waits while nodes cannot be seen. Nodes have places only in declared ones."""
    if not changed or not active.get(names.TOPOLOGY_YAML, "").startswith(names.TOPOLOGIES_MARK):
        return []
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
