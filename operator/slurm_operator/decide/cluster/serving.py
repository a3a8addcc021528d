"""Which node sets are served, and with which sizes."""

from __future__ import annotations

import datetime
import re
from collections.abc import Iterable, Mapping

from slurm_operator.decide.nodes.workers import NodeSetState
from slurm_operator.findings import Finding, Findings, Severity
from slurm_operator.reasons import Reason
from slurm_operator.state import K8sNodes, Kubernetes, NodeSet, Pod, Workload


def refusal(seen: Kubernetes, node_set: NodeSet) -> Findings:
    """Why nothing is done for a node set; empty if it is served."""
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
    """What is to be said of a node set while there is no SlurmCluster: it comes, or its node sets go soon as well."""
    message = f"there is no SlurmCluster {node_set.cluster}: nobody looks at the nodes of this set"
    return Findings([Finding(Reason.CLUSTER_MISSING, message, Severity.BLOCKING | Severity.MOVING)])


def is_shared(node_sets: Iterable[NodeSet], node_set: NodeSet) -> bool:
    """Whether another NodeSet, which is to stay, names the same StatefulSet."""
    staying = (each for each in node_sets if not each.deleting and each.name != node_set.name)
    return any(each.stateful_set == node_set.stateful_set for each in staying)


def states(
    node_sets: Iterable[NodeSet],
    workloads: Mapping[str, Workload],
    pods: Mapping[str, Pod],
    now: datetime.datetime,
    k8s_nodes: K8sNodes | None = None,
) -> list[NodeSetState]:
    """Node sets as Kubernetes has them; one that has no StatefulSet leaves its Kubernetes nodes alone."""
    found = []
    for each in node_sets:
        member, workload = re.compile(re.escape(each.stateful_set) + r"-\d+"), workloads.get(each.stateful_set)
        own = {name: pod for name, pod in pods.items() if member.fullmatch(name)}
        found.append(NodeSetState(each, workload, own, now, k8s_nodes if workload else None))
    return found
