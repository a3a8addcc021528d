"""Features, weights and places in topologies: slurmctld changes them at once, under running jobs.

slurmctld takes features and weight from the registration that makes a node's record, and from no later one. A place is
given here alone: one that a node registers with could not be taken back before topology.yaml loses it. A new node stays
drained until it has its features and place, so that no job misses them.
"""

from __future__ import annotations

from collections.abc import Container

from contract.conditions import Reason
from contract.slurm_conf import node_weight
from slurm_operator.actions import UpdateNode
from slurm_operator.decide.nodes import topology
from slurm_operator.decide.nodes.workers import NodeSetState, Worker
from slurm_operator.findings import Finding, shown
from slurm_operator.state.kubernetes import K8sNode


def actions(state: NodeSetState) -> list[UpdateNode]:
    """Return the changes of records to make now."""
    changes = [_change(state, worker) for worker in state.members()]
    return [change for change in changes if change != UpdateNode(change.node)]


def has_its_features(state: NodeSetState, worker: Worker) -> bool:
    """Return whether a node's record has the features and place of its set, as far as both are known."""
    change = _change(state, worker)
    return change.features is None and change.topology is None


def unplaced(state: NodeSetState) -> list[Finding]:
    """Return the nodes whose Kubernetes nodes' labels name no place, for each topology that takes it from them."""
    if state.topologies is None:
        return []
    active, findings = state.topologies.active, list[Finding]()
    for place in state.node_set.topology or ():
        known = [(worker.name, worker.k8s_node) for worker in state.expected() if worker.k8s_node]
        missing = [name for name, k8s_node in known if not topology.is_placed(place, k8s_node, active)]
        if place.labels and missing:
            why = f"{', '.join(place.labels)} of their Kubernetes nodes name no place in topology {place.name}"
            findings.append(Finding(Reason.NODES_UNPLACED, f"{shown(missing)}: labels {why}"))
    return findings


def _change(state: NodeSetState, worker: Worker) -> UpdateNode:
    """Return the differences of a node's record from what its set declares; None where nothing differs or is known."""
    node, weights = worker.node, state.workload.weights if state.workload else None
    wanted = _features(state, worker)
    if node is None:
        return UpdateNode(worker.name)
    differ = wanted is not None and node.features is not None and frozenset(wanted) != node.features
    weight = node_weight(*weights, int(worker.name.rpartition("-")[2])) if weights else None
    return UpdateNode(
        worker.name,
        wanted if differ else None,
        weight if weight is not None and node.weight not in (None, weight) else None,
        _place(state, worker),
    )


def _place(state: NodeSetState, worker: Worker) -> str | None:
    """Return the other place of a node in topologies; None if it has it, or administrators place it."""
    own, node = state.node_set.topology, worker.node
    if own is None or state.topologies is None or node is None or node.topology is None:
        return None
    wanted = topology.place(own, worker.k8s_node, node.topology, state.topologies)
    return wanted if wanted != node.topology else None


def _features(state: NodeSetState, worker: Worker) -> tuple[str, ...] | None:
    """Return the features of a node; None where administrators give them, or its Kubernetes node is not known."""
    own = state.node_set
    if own.features is None and not own.feature_labels:
        return None
    if own.feature_labels and worker.k8s_node is None:
        return None
    labels = _of_labels(worker.k8s_node, own.feature_labels) if worker.k8s_node else ()
    return tuple(dict.fromkeys([own.stateful_set, *(own.features or ()), *labels]))


def _of_labels(k8s_node: K8sNode, keys: Container[str]) -> tuple[str, ...]:
    """Features made of labels, such as zone=a. With the `=`, none of them is the name of a node set."""
    return tuple(f"{key.rpartition('/')[2]}={value}" for key, value in k8s_node.labels if value and key in keys)
