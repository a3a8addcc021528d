"""Compares GPU node sets with the nodes that Kubernetes has: pure functions of what was read."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from components.config import Config
from components.config.checking.problems import Problem
from components.config.nodes.gpus import NVIDIA_PREFIX, Gpus
from components.config.nodes.node_sets import NodeSet
from components.config.pods import Toleration
from components.preflight.storage_advice import StorageClass

PRODUCT_LABEL = "nvidia.com/gpu.product"
"""Label with the product's name, hyphens for spaces. NVIDIA's GPU feature discovery sets it."""


@dataclass(frozen=True, slots=True)
class Taint:
    """A taint of a Kubernetes node."""

    key: str
    value: str
    effect: str


@dataclass(frozen=True, slots=True)
class KubernetesNode:
    """A Kubernetes node.

    Attributes:
        name: Its name.
        labels: Its labels.
        allocatable: What pods may ask for, by resource; whole numbers alone.
        taints: Its taints, a cordon among them.
    """

    name: str
    labels: Mapping[str, str] = field(default_factory=dict)
    allocatable: Mapping[str, int] = field(default_factory=dict)
    taints: tuple[Taint, ...] = ()


@dataclass(frozen=True, slots=True)
class ClusterState:
    """State of a Kubernetes cluster."""

    nodes: tuple[KubernetesNode, ...]
    runtime_classes: frozenset[str]
    storage_classes: tuple[StorageClass, ...] = ()


def tolerates(toleration: Toleration, taint: Taint) -> bool:
    """Return whether this toleration tolerates this taint, by the scheduler's rules."""
    if toleration.effect not in (None, taint.effect) or toleration.key not in (None, taint.key):
        return False
    return toleration.operator == "Exists" or (toleration.key is not None and (toleration.value or "") == taint.value)


def takes(node: KubernetesNode, node_set: NodeSet) -> bool:
    """Return whether labels and taints let the scheduler place pods of the set there."""
    selected = node_set.node_selector.items() <= node.labels.items()
    hard = (taint for taint in node.taints if taint.effect != "PreferNoSchedule")
    return selected and all(any(tolerates(toleration, taint) for toleration in node_set.tolerations) for taint in hard)


def slurm_product(label: str) -> str:
    """Return a product's name as Slurm's AutoDetect writes it: nvidia_h100_80gb_hbm3 for NVIDIA-H100-80GB-HBM3."""
    return re.sub(r"[^a-z0-9]+", "_", label.lower())


def _of_set(index: int, node_set: NodeSet, gpus: Gpus, state: ClusterState) -> Iterator[Problem]:
    path = ("nodeSets", index)
    name = gpus.kubernetes_runtime_class
    if name and name not in state.runtime_classes:
        there = ", ".join(sorted(state.runtime_classes)) or "none"
        yield Problem((*path, "gpus", "runtimeClass"), name, f"a RuntimeClass that Kubernetes has; there are: {there}")
    taking = [node for node in state.nodes if takes(node, node_set)]
    if not taking:
        want = f"labels, and tolerations, that fit a node; of {len(state.nodes)} in Kubernetes none does"
        yield Problem((*path, "nodeSelector"), dict(node_set.node_selector), want)
        return
    most = max(taking, key=lambda node: node.allocatable.get(gpus.resource, 0))
    offered = most.allocatable.get(gpus.resource, 0)
    if offered < gpus.per_node:
        want = f"at most {offered}: no node that the set may use offers more {gpus.resource} ({most.name} has most)"
        yield Problem((*path, "gpus", "perNode"), gpus.per_node, want)
        return
    fitting = [node for node in taking if node.allocatable.get(gpus.resource, 0) >= gpus.per_node]
    room = sum(node.allocatable[gpus.resource] // gpus.per_node for node in fitting)
    if node_set.replicas is not None and room < node_set.replicas:
        want = f"at most {room}: {len(fitting)} nodes offer {gpus.per_node} or more {gpus.resource} each"
        yield Problem((*path, "replicas"), node_set.replicas, want)
    products = {slurm_product(node.labels[PRODUCT_LABEL]) for node in fitting if PRODUCT_LABEL in node.labels}
    named = gpus.devices is None and gpus.resource.startswith(NVIDIA_PREFIX)
    if named and products and not any(gpus.type in product for product in products):
        want = f"a part of the product's name that the nodes' label {PRODUCT_LABEL} says: {', '.join(sorted(products))}"
        yield Problem((*path, "gpus", "type"), gpus.type, want)


def problems(config: Config, state: ClusterState) -> list[Problem]:
    """Return the violations by GPU node sets that ask for more than these nodes offer.

    Each node set is judged as if it had the nodes to itself.

    Args:
        config: The configuration: `nodeSets`.
        state: What Kubernetes has.
    """
    return [
        problem
        for index, node_set in enumerate(config.node_sets)
        if node_set.gpus
        for problem in _of_set(index, node_set, node_set.gpus, state)
    ]
