"""Which node sets are served, and with which sizes."""

from __future__ import annotations

import datetime
import re
from collections.abc import Iterable, Mapping

from slurm_operator.decide.workers import NodeSetState
from slurm_operator.findings import Finding, Findings, Severity
from slurm_operator.reasons import Reason
from slurm_operator.state import K8sNodes, Kubernetes, NodeSet, Pod, Workload


def refusal(seen: Kubernetes, node_set: NodeSet) -> Findings | None:
    """Why nothing is done for a node set, None if it is served."""
    if node_set.cluster != seen.cluster.name:
        message = f"there is no SlurmCluster {node_set.cluster} that is served here; correct spec.cluster"
        reason = Reason.CLUSTER_MISSING
    elif is_shared(seen.node_sets, node_set):
        message = f"more than one NodeSet names StatefulSet {node_set.stateful_set}; correct spec.statefulSet"
        reason = Reason.STATEFUL_SET_SHARED
    else:
        return None
    return Findings([Finding(reason, message, Severity.BLOCKING | Severity.WRONG)])


def without_cluster(node_set: NodeSet) -> Findings:
    """What is to be said of a node set while there is no SlurmCluster: it comes, or its node sets go soon as well."""
    message = f"there is no SlurmCluster {node_set.cluster}: nobody looks at the nodes of this set"
    return Findings([Finding(Reason.CLUSTER_MISSING, message, Severity.BLOCKING | Severity.MOVING)])


def is_shared(node_sets: Iterable[NodeSet], node_set: NodeSet) -> bool:
    """Whether another NodeSet, which is to stay, names the same StatefulSet."""
    staying = (each for each in node_sets if not each.deleting and each.name != node_set.name)
    return any(each.stateful_set == node_set.stateful_set for each in staying)


def state(
    node_set: NodeSet,
    workloads: Mapping[str, Workload],
    pods: Mapping[str, Pod],
    now: datetime.datetime,
    k8s_nodes: K8sNodes | None = None,
    hold: str = "",
    *,
    repairs_held: bool = True,
) -> NodeSetState | None:
    """A node set as Kubernetes has it; None if it has no StatefulSet and should have one."""
    member = re.compile(re.escape(node_set.stateful_set) + r"-\d+")
    members = {name: pod for name, pod in pods.items() if member.fullmatch(name)}
    workload = workloads.get(node_set.stateful_set)
    if workload is None:
        gone = NodeSetState(node_set.stateful_set, 0, 0, "", members, now, ending=True)
        return gone if node_set.deleting else None
    wanted = workload.replicas if node_set.replicas is None else node_set.replicas
    return NodeSetState(
        *(workload.name, wanted, workload.replicas, workload.resource_version, members, now),
        revision=workload.revision,
        removal=node_set.removal,
        update=node_set.update,
        reactions=node_set.reactions,
        restarts=node_set.restarts,
        updating=node_set.updating,
        approved=node_set.approved,
        k8s_nodes=k8s_nodes,
        ending=node_set.deleting,
        facts=workload.facts,
        hold=hold,
        repairs_held=repairs_held,
    )
