"""The node sets that the operator serves, and their state in Kubernetes."""

from __future__ import annotations

import datetime
import re
from collections.abc import Iterable, Mapping

from contract.conditions import Reason
from slurm_operator.decide.nodes.workers import NodeSetState
from slurm_operator.findings import Finding, Findings, Severity
from slurm_operator.state.kubernetes import K8sNodes, Kubernetes, Pod, Workload
from slurm_operator.state.resources import NodeSet


def refusal(seen: Kubernetes, node_set: NodeSet) -> Findings:
    """Return why the operator does nothing for a node set; empty if it serves the set."""
    if node_set.cluster != seen.cluster.name:
        message = f"there is no SlurmCluster {node_set.cluster} that is served here; correct spec.cluster"
        reason = Reason.CLUSTER_MISSING
    elif is_shared(seen.node_sets, node_set):
        message = f"more than one NodeSet names StatefulSet {node_set.stateful_set}; correct spec.statefulSet"
        reason = Reason.STATEFUL_SET_SHARED
    else:
        return Findings()
    return Findings([Finding(reason, message, Severity.BLOCKING | Severity.WRONG)])


def without_cluster(node_set: NodeSet) -> Findings:
    """Return the findings about a node set without a SlurmCluster: that comes soon, or its node sets go as well."""
    message = f"there is no SlurmCluster {node_set.cluster}: nobody looks at the nodes of this set"
    return Findings([Finding(Reason.CLUSTER_MISSING, message, Severity.BLOCKING | Severity.PROGRESSING)])


def is_shared(node_sets: Iterable[NodeSet], node_set: NodeSet) -> bool:
    """Return whether another NodeSet that is not being deleted names the same StatefulSet."""
    staying = (other for other in node_sets if not other.deleting and other.name != node_set.name)
    return any(other.stateful_set == node_set.stateful_set for other in staying)


def states(
    node_sets: Iterable[NodeSet],
    workloads: Mapping[str, Workload],
    pods: Mapping[str, Pod],
    now: datetime.datetime,
    k8s_nodes: K8sNodes | None = None,
) -> list[NodeSetState]:
    """Return the state of the node sets in Kubernetes. One without a StatefulSet leaves its Kubernetes nodes alone."""
    rows = []
    for node_set in node_sets:
        member, workload = re.compile(re.escape(node_set.stateful_set) + r"-\d+"), workloads.get(node_set.stateful_set)
        own = {name: pod for name, pod in pods.items() if member.fullmatch(name)}
        rows.append(NodeSetState(node_set, workload, own, now, k8s_nodes if workload else None))
    return rows
