"""Features and weights of nodes: slurmctld changes them at once, under running jobs.

slurmctld takes both from the registration that makes a node's record, and from no later one. A new node stays drained
until it has its features, so that no job misses them.
"""

from __future__ import annotations

from contract.weights import node_weight
from slurm_operator.actions import UpdateNode
from slurm_operator.decide.nodes.workers import NodeSetState, Worker
from slurm_operator.state.kubernetes import K8sNode


def actions(state: NodeSetState) -> list[UpdateNode]:
    """Return the changes of records to make now."""
    changes = [_change(state, worker) for worker in state.members()]
    return [change for change in changes if change.features is not None or change.weight is not None]


def has_its_features(state: NodeSetState, worker: Worker) -> bool:
    """Return True if a node's record has the features of its set, as far as both are known."""
    return _change(state, worker).features is None


def _change(state: NodeSetState, worker: Worker) -> UpdateNode:
    """Return the differences of a node's record from what its set declares; None where nothing differs or is known."""
    node, weights = worker.node, state.workload.weights if state.workload else None
    wanted = _features(state, worker)
    if node is None:
        return UpdateNode(worker.name)
    differ = wanted is not None and node.features is not None and frozenset(wanted) != node.features
    weight = node_weight(*weights, _ordinal(worker.name)) if weights else None
    return UpdateNode(
        worker.name,
        wanted if differ else None,
        weight if weight is not None and node.weight not in (None, weight) else None,
    )


def _features(state: NodeSetState, worker: Worker) -> tuple[str, ...] | None:
    """Return the features of a node; None where administrators give them, or its Kubernetes node is not known."""
    own = state.node_set
    if own.features is None and not own.feature_labels:
        return None
    if own.feature_labels and worker.k8s_node is None:
        return None
    labels = _of_labels(worker.k8s_node) if worker.k8s_node else ()
    return tuple(dict.fromkeys([own.stateful_set, *(own.features or ()), *labels]))


def _of_labels(k8s_node: K8sNode) -> tuple[str, ...]:
    """Features made of labels, such as zone=a. With the `=`, none of them is the name of a node set."""
    return tuple(f"{key.rpartition('/')[2]}={value}" for key, value in k8s_node.labels if value)


def _ordinal(node: str) -> int:
    return int(node.rpartition("-")[2])
