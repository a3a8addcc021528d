"""A warning of GPUs without thresholds: with `health.checks.unknown: drain` their nodes would never take jobs."""

import re
from collections.abc import Iterable, Iterator, Mapping

from components.config import Config
from components.config.nodes.gpus import MIG_PREFIX, NVIDIA_PREFIX
from components.config.nodes.health import UnknownPolicy
from components.config.nodes.node_sets import NodeSet
from components.control.gpu_checks import published
from components.preflight.gpu_checks import PRODUCT_LABEL, ClusterState, slurm_product, takes
from contract.reasons import Check
from contract.thresholds import OF_PRODUCTS

_PART = re.compile(r"-(SHARED|MIG-.*)$")
"""Ends of the label's value where GPUs are shared or divided."""
_CHECKS: Mapping[str, Check] = {
    "gpu.pcieGeneration": Check.GPU_PCIE,
    "gpu.pcieWidth": Check.GPU_PCIE,
    "gpu.powerLimit": Check.GPU_POWER,
    "gpu.smClock": Check.GPU_CLOCKS,
    "infiniband.rate": Check.IB_RATE,
    "nvlink.links": Check.NVLINK,
}
"""Threshold of a product → the check that is UNKNOWN without it."""

Numbers = Mapping[str, Mapping[str, float | None]]
"""Product as Slurm writes it → threshold → number."""


def sentences(config: Config, state: ClusterState | None = None) -> list[str]:
    """Return a sentence for each node set whose GPUs have no thresholds, if that drains its nodes.

    Args:
        config: The configuration: `health` and `nodeSets`.
        state: What Kubernetes has. Without it the types of GPUs alone tell the product.
    """
    if config.health.checks.unknown is not UnknownPolicy.DRAIN:
        return []
    numbers = {slurm_product(product): {**known} for product, known in published().items()}
    for own in config.health.thresholds:
        numbers.setdefault(slurm_product(own.product), {}).update(own.numbers)
    made = [key for key in OF_PRODUCTS if _CHECKS[key] not in config.health.checks.disabled]
    return [said for node_set in config.node_sets for said in _of_set(node_set, made, numbers, state)]


def _of_set(node_set: NodeSet, made: Iterable[str], numbers: Numbers, state: ClusterState | None) -> Iterator[str]:
    """Yield the sentences about a set, of thresholds whose checks are made."""
    needless = set[Check]() if node_set.network.rdma else {Check.IB_RATE}
    needless |= {Check.NVLINK} if node_set.gpus and node_set.gpus.whole == 1 else set()
    wanted = [key for key in made if _CHECKS[key] not in needless]
    for product, candidates in _products(node_set, numbers, state).items():
        lacks = [[key for key in wanted if known.get(key) is None] for known in candidates]
        if missing := min(lacks, key=len, default=wanted):
            yield (
                f"health.checks.unknown: drain may keep all nodes of {node_set.name} out of service: {product} has no "
                f"threshold {', '.join(missing)}; set it in health.thresholds, or switch its check off "
                "(health.checks.disabled)"
            )


def _products(
    node_set: NodeSet, numbers: Numbers, state: ClusterState | None
) -> dict[str, list[Mapping[str, float | None]]]:
    """Return the products of a set, each with the thresholds of those that it may be."""
    kinds = node_set.gpus.types if node_set.gpus and node_set.gpus.is_nvidia else ()
    nodes = state.nodes if state and kinds else ()
    labels = {node.labels[PRODUCT_LABEL] for node in nodes if PRODUCT_LABEL in node.labels and takes(node, node_set)}
    if labels:
        named = {_PART.sub("", label) for label in labels}
        return {label: [numbers[slurm_product(label)]] if slurm_product(label) in numbers else [] for label in named}
    whole = [kind for kind in kinds if not (kind.multiple_files or kind.resource.startswith(MIG_PREFIX))]
    types = [kind.type for kind in whole if kind.resource.startswith(NVIDIA_PREFIX)]
    return {f"a GPU of the type {of_type}": _of_type(of_type, numbers) for of_type in types}


def _of_type(of_type: str, numbers: Numbers) -> list[Mapping[str, float | None]]:
    """Return the thresholds of products with a type in their name: a10 is no a100."""
    part = re.compile(rf"{re.escape(slurm_product(of_type))}(?![0-9])")
    return [known for name, known in numbers.items() if part.search(name)]
