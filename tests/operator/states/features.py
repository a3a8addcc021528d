"""Node sets whose nodes get their features of Kubernetes nodes."""

from __future__ import annotations

from typing import Any

from slurm_operator.decide.nodes.workers import NodeSetState
from slurm_operator.state.kubernetes import K8sNode, Pod

from tests.operator.states.sets import NOW, changed, pod
from tests.operator.states.sets import node_set as made


def worker(name: str = "cpu-0", **changes: object) -> Pod:
    return pod(name, k8s_node="k8s-0", **changes)


def state(*pods: Pod, labels: dict[str, str] | None = None, **changes: Any) -> NodeSetState:
    there = pods or (worker(),)
    k8s_nodes = None if labels is None else {"k8s-0": K8sNode(labels=tuple(labels.items()))}
    return changed(made(len(there), len(there), there, NOW, k8s_nodes=k8s_nodes), **changes)
