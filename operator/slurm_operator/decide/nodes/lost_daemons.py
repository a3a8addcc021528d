"""Pods of daemons whose Kubernetes node is not ready or deleted.

Kubernetes starts no second pod of a StatefulSet while the first may run. Only a person knows that a node is off.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

from contract import commands, names
from contract.conditions import Reason
from slurm_operator.decide.nodes.k8s_case import FENCED, fence_command
from slurm_operator.decide.nodes.workers import K8S_NODE_PATIENCE
from slurm_operator.findings import Finding, Severity
from slurm_operator.state.kubernetes import K8sNode, K8sNodes, Pod

_DAEMONS = {
    "controller": "slurmctld",
    "rest": "slurmrestd",
    "accounting": "slurmdbd",
    "database": "MariaDB",
    "login": "a login node",
    names.LOGIN_SET: "a login node",
    "operator": "the operator",
}
"""Components of a cluster → what runs in their pods."""
_OF_DEPLOYMENTS = frozenset({"rest", "operator"})
_OF_SLURM = frozenset({"controller", "rest"})
"""Components without which the operator can't see Slurm."""
_WITHIN = "Kubernetes starts another pod after 5 minutes"
_NEVER = "Kubernetes starts no other pod until it knows that this one is off"


def findings(
    pods: Iterable[Pod], k8s_nodes: K8sNodes | None, now: datetime, namespace: str, *, blind: bool
) -> list[Finding]:
    """Return findings about daemons on lost Kubernetes nodes, with the command that fences a node.

    Args:
        pods: a cluster's pods.
        k8s_nodes: the Kubernetes nodes of the pods; None if nobody knows.
        now: the time.
        namespace: that of the pods.
        blind: whether Slurm cannot be seen.
    """
    if k8s_nodes is None:
        return []
    rows = [(pod, _words(pod, k8s_nodes.get(pod.k8s_node), now, namespace)) for pod in pods if _is_of_interest(pod)]
    severities = {pod.name: _severity(pod, blind=blind) for pod, _ in rows}
    told = [Finding(Reason.DAEMON_LOST, words, severities[pod.name], pod.name) for pod, words in rows if words]
    return sorted(told, key=lambda finding: (Severity.BLOCKING not in finding.severity, finding.node))


def _is_of_interest(pod: Pod) -> bool:
    """Return whether a daemon is meant to run there; a Deployment has another pod for one that ends."""
    if pod.component not in _DAEMONS or not pod.k8s_node:
        return False
    return pod.component not in _OF_DEPLOYMENTS or (pod.running and not pod.terminating)


def _severity(pod: Pod, *, blind: bool) -> Severity:
    blocks = blind and pod.component in _OF_SLURM
    return Severity.WRONG | (Severity.BLOCKING if blocks else Severity.INFORMATION)


def _words(pod: Pod, k8s_node: K8sNode | None, now: datetime, namespace: str) -> str:
    """Return what is wrong with a pod's Kubernetes node, and what helps; empty if nothing is wrong."""
    what = f"{pod.name} ({_DAEMONS[pod.component]}) is on Kubernetes node {pod.k8s_node}, which is"
    if k8s_node is None:
        if pod.created is None or pod.created > now - K8S_NODE_PATIENCE:
            return ""  # The watch may not know a new node yet.
        force = commands.kubectl(namespace, f"delete pod {pod.name} --force")
        return f"{what} deleted; if no other pod comes, and it is surely off: {force}"
    if k8s_node.away_since is None or any(taint.key == FENCED for taint in k8s_node.taints):
        return ""
    since = f"{k8s_node.away_since:%Y-%m-%dT%H:%M:%SZ}"
    waits = _WITHIN if pod.component in _OF_DEPLOYMENTS else _NEVER
    return f"{what} not ready since {since}; {waits}. When it surely is off: {fence_command(pod.k8s_node)}"
