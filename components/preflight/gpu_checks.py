"""Compares node sets with GPUs and other devices with Kubernetes' nodes: pure functions of what was read."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from components.config import Config
from components.config.checking.problems import Problem
from components.config.nodes.gpus import NVIDIA_PREFIX, Gpus
from components.config.nodes.node_sets import NodeSet
from components.config.pods.resources import Toleration
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
    """Return a product's name as Slurm's AutoDetect writes it: nvidia_h100_80gb_hbm3 for NVIDIA-H100-80GB-HBM3.

    A label has `-` for spaces, so nobody can tell where the name itself has a hyphen, which Slurm keeps.
    """
    return re.sub(r"[^a-z0-9]+", "_", label.lower())


def _wanted(node_set: NodeSet) -> Iterator[tuple[tuple[str | int, ...], str, int]]:
    """Yield each resource that a pod of the set asks for: where its first count stands, its name, its count."""
    counts: list[tuple[tuple[str | int, ...], str | None]] = [
        (("gpus", *(("more", index - 1) if index else ())), kind.resource)
        for index, kind in enumerate(node_set.gpus.types if node_set.gpus else ())
    ]
    counts += [(("gres", index), one.resource) for index, one in enumerate(node_set.gres)]
    for resource, count in node_set.device_resources.items():
        path = next(path for path, name in counts if name == resource)
        yield (*path, "perNode"), resource, count


def _of_set(index: int, node_set: NodeSet, state: ClusterState) -> Iterator[Problem]:
    path = ("nodeSets", index)
    name = node_set.gpus.kubernetes_runtime_class if node_set.gpus else None
    if name and name not in state.runtime_classes:
        there = ", ".join(sorted(state.runtime_classes)) or "none"
        yield Problem((*path, "gpus", "runtimeClass"), name, f"a RuntimeClass that Kubernetes has; there are: {there}")
    taking = [node for node in state.nodes if takes(node, node_set)]
    if not taking:
        want = f"labels, and tolerations, that fit a node; of {len(state.nodes)} in Kubernetes none does"
        yield Problem((*path, "nodeSelector"), dict(node_set.node_selector), want)
        return
    fitting = taking
    for at, resource, count in _wanted(node_set):
        most = max(taking, key=lambda node: node.allocatable.get(resource, 0))
        offered = most.allocatable.get(resource, 0)
        if offered < count:
            want = f"at most {offered}: no node that the set may use offers more {resource} ({most.name} has most)"
            yield Problem((*path, *at), count, want)
            return
        fitting = [node for node in fitting if node.allocatable.get(resource, 0) >= count]
    yield from _room(path, node_set, fitting)
    if node_set.gpus:
        yield from _products(path, node_set.gpus, fitting)


def _room(path: tuple[str | int, ...], node_set: NodeSet, fitting: Sequence[KubernetesNode]) -> Iterator[Problem]:
    wanted = node_set.device_resources
    room = sum(min(node.allocatable[resource] // count for resource, count in wanted.items()) for node in fitting)
    if node_set.replicas is not None and room < node_set.replicas:
        units = " and ".join(f"{count} or more {resource}" for resource, count in wanted.items())
        want = f"at most {room}: {len(fitting)} nodes offer {units} each"
        yield Problem((*path, "replicas"), node_set.replicas, want)


def _products(path: tuple[str | int, ...], gpus: Gpus, fitting: Sequence[KubernetesNode]) -> Iterator[Problem]:
    """Types of which the nodes' label names none; of several types in a node it names one."""
    products = {slurm_product(node.labels[PRODUCT_LABEL]) for node in fitting if PRODUCT_LABEL in node.labels}
    found_by_slurm = not gpus.is_named and gpus.resource.startswith(NVIDIA_PREFIX)
    types = [slurm_product(kind.type) for kind in gpus.types]
    if found_by_slurm and products and not any(of_type in product for of_type in types for product in products):
        want = f"a part of the product's name that the nodes' label {PRODUCT_LABEL} says: {', '.join(sorted(products))}"
        yield Problem((*path, "gpus", "type"), gpus.type, want)


def problems(config: Config, state: ClusterState) -> list[Problem]:
    """Return the violations by node sets with devices that ask for more than these nodes offer.

    Each node set is judged as if it had the nodes to itself.

    Args:
        config: The configuration: `nodeSets`.
        state: What Kubernetes has.
    """
    return [
        problem
        for index, node_set in enumerate(config.node_sets)
        if node_set.device_resources
        for problem in _of_set(index, node_set, state)
    ]
