"""Asks Kubernetes before the plan whether its nodes and storage fit the configuration."""

import functools
from collections.abc import Callable, Mapping
from typing import Any, Final

import httpx
import pulumi

from components.config import Config, ConfigurationError
from components.kubernetes import configured_cluster, kubernetes_reader
from components.kubernetes.kubernetes_reader import UnreachableError
from components.preflight import gpu_checks, rdma_checks, storage_advice, unknown_products
from components.preflight.gpu_checks import ClusterState, KubernetesNode, Taint

_NODES: Final = "/api/v1/nodes"
_RUNTIME_CLASSES: Final = "/apis/node.k8s.io/v1/runtimeclasses"
_STORAGE_CLASSES: Final = "/apis/storage.k8s.io/v1/storageclasses"


def node(item: Mapping[str, Any]) -> KubernetesNode:
    """Return a node as the API gives it."""
    allocatable = item.get("status", {}).get("allocatable") or {}
    return KubernetesNode(
        item["metadata"]["name"],
        labels=item["metadata"].get("labels") or {},
        # Extended resources are whole numbers. Memory and other amounts with units are ignored.
        allocatable={key: int(value) for key, value in allocatable.items() if str(value).isdecimal()},
        taints=tuple(
            Taint(taint["key"], taint.get("value", ""), taint["effect"])
            for taint in item.get("spec", {}).get("taints") or []
        ),
    )


def _ask(config: Config, connection: httpx.Client) -> ClusterState:
    nodes, classes = (
        kubernetes_reader.items(connection, path) if _asks_devices(config) else []
        for path in (_NODES, _RUNTIME_CLASSES)
    )
    storage = _storage_classes(connection) if storage_advice.by_class(config) else []
    return ClusterState(
        tuple(node(item) for item in nodes),
        frozenset(item["metadata"]["name"] for item in classes),
        tuple(storage_advice.storage_class(item) for item in storage),
    )


def _storage_classes(connection: httpx.Client) -> list[Mapping[str, Any]]:
    """Return all storage classes; none if listing them is forbidden, since they are only used for advice."""
    try:
        return kubernetes_reader.items(connection, _STORAGE_CLASSES)
    except UnreachableError:
        return []


def _asks_devices(config: Config) -> bool:
    return any(node_set.device_resources or node_set.network.rdma for node_set in config.node_sets)


def read(config: Config) -> ClusterState:
    """Reads nodes and storage classes from Kubernetes.

    Args:
        config: The configuration: `kubernetes`.

    Raises:
        UnreachableError: The API server cannot be asked, or does not answer in time.
    """
    return configured_cluster.answer(config, functools.partial(_ask, config))


def _asked(config: Config, look: Callable[[Config], ClusterState]) -> ClusterState | None:
    """Return what Kubernetes has; None where nobody is to ask, or after a warning that it cannot be asked."""
    if not config.checks.cluster or not (_asks_devices(config) or storage_advice.by_class(config)):
        return None
    try:
        return look(config)
    except UnreachableError as failure:
        what = "whether nodes offer the devices that are asked for" if _asks_devices(config) else "the storage class"
        pulumi.log.warn(f"checks.cluster: {what} is not known: {failure}")
        return None


def run(config: Config, look: Callable[[Config], ClusterState] = read) -> None:
    """Check the configuration against the cluster. An unreachable cluster and advice are warnings.

    Storage that nobody asks the cluster about gets its advice as a remark.

    Args:
        config: The configuration: `checks`, `health`, `nodeSets`, `jail.storage` and `kubernetes`.
        look: Reads what Kubernetes has.

    Raises:
        ConfigurationError: Lists everything that the nodes do not offer.
    """
    if sentence := storage_advice.version_advice(config):
        pulumi.log.warn(f"jail.storage.nfs.version: {sentence}")
    if sentence := storage_advice.unasked(config):
        pulumi.log.info(f"jail.storage: {sentence}")
    state = _asked(config, look)
    for sentence in unknown_products.sentences(config, state):
        pulumi.log.warn(sentence)
    if state is None:
        return
    if sentence := storage_advice.advice(config, state.storage_classes):
        pulumi.log.warn(f"jail.storage: {sentence}")
    if problems := [*gpu_checks.problems(config, state), *rdma_checks.problems(config, state)]:
        raise ConfigurationError(problems)
