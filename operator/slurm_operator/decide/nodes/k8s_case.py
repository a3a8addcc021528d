"""The state of a Kubernetes node as it matters to a pod."""

from __future__ import annotations

import enum

from slurm_operator.decide.nodes.workers import Worker
from slurm_operator.state.kubernetes import Pod, Taint

_LIFECYCLE = "node.kubernetes.io/"
"""Prefix of Kubernetes' own taints. All but one (FENCED) repeat what the node's fields tell."""
FENCED = "node.kubernetes.io/out-of-service"


class Case(enum.Enum):
    """The state of a pod's Kubernetes node."""

    WELL = "well"
    UNKNOWN = "unknown"
    ENDING = "ending"
    CORDONED = "cordoned"
    TAINTED = "tainted"
    FAILED = "failed"
    """One of its conditions that count as checks fails."""
    AWAY = "away"
    GONE = "gone"


def case_of(worker: Worker) -> tuple[Case, str]:
    """Return the state of a pod's Kubernetes node, and the same in words."""
    pod, k8s_node = worker.pod, worker.k8s_node
    if pod is None or pod.terminating:
        return Case.ENDING, f"pod {worker.name} is ending"
    if not pod.k8s_node:
        return Case.WELL, ""
    if k8s_node is None:
        return (Case.GONE, f"{pod.k8s_node} is gone") if worker.is_lost else (Case.UNKNOWN, "")
    if k8s_node.cordoned:
        return Case.CORDONED, f"{pod.k8s_node} is cordoned"
    if hostile := [taint.key for taint in k8s_node.taints if _empties(taint) and not _is_tolerated(taint, pod)]:
        return Case.TAINTED, f"{pod.k8s_node} is tainted {hostile[0]}"
    if worker.conditions.failed:
        return Case.FAILED, worker.conditions.words(pod.k8s_node)
    return (Case.AWAY, f"{pod.k8s_node} is not ready") if k8s_node.away_since else (Case.WELL, "")


def fence_command(k8s_node: str) -> str:
    """Return the command that tells Kubernetes that a node is off, so that its pods and volumes may go elsewhere.

    Source: Kubernetes' documentation, "Non-graceful node shutdown handling".
    """
    return f"kubectl taint node {k8s_node} {FENCED}=nodeshutdown:NoExecute"


def _empties(taint: Taint) -> bool:
    """Return whether a taint asks for the node to be emptied; Kubernetes' own taints mostly repeat a condition."""
    return taint.effect != "PreferNoSchedule" and (taint.key == FENCED or not taint.key.startswith(_LIFECYCLE))


def _is_tolerated(taint: Taint, pod: Pod) -> bool:
    """As Kubernetes decides (concepts/scheduling-eviction/taint-and-toleration)."""
    return any(
        toleration.key in ("", taint.key)
        and toleration.effect in ("", taint.effect)
        and (toleration.any_value or toleration.value == taint.value)
        for toleration in pod.tolerations
    )
