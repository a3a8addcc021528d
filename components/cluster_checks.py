"""Asks Kubernetes, before anything is planned, whether its nodes offer what the configuration asks for."""

from collections.abc import Callable, Mapping
from typing import Any, Final

import pulumi

from components import gpu_checks, kubeconfig, kubernetes_reader, rdma_checks
from components.config import Config, ConfigurationError
from components.gpu_checks import KubernetesNode, Seen, Taint
from components.kubernetes_reader import UnreachableError

DEADLINE_SECONDS: Final = 5.0
"""For all of it: a preview without access to the cluster must not hang."""
_NODES: Final = "/api/v1/nodes"
_RUNTIME_CLASSES: Final = "/apis/node.k8s.io/v1/runtimeclasses"


def node(item: Mapping[str, Any]) -> KubernetesNode:
    """A node as the API gives it."""
    allocatable = item.get("status", {}).get("allocatable") or {}
    return KubernetesNode(
        item["metadata"]["name"],
        labels=item["metadata"].get("labels") or {},
        # Extended resources are whole numbers; memory and the like, with their units, are not looked at.
        allocatable={key: int(value) for key, value in allocatable.items() if str(value).isdecimal()},
        taints=tuple(
            Taint(each["key"], each.get("value", ""), each["effect"])
            for each in item.get("spec", {}).get("taints") or []
        ),
    )


def _ask(config: Config) -> Seen:
    own = config.kubernetes
    access = kubeconfig.read(own.kubeconfig.get_secret_value() if own.kubeconfig else None, own.context)
    with kubernetes_reader.client(access) as connection:
        nodes, classes = (kubernetes_reader.items(connection, path) for path in (_NODES, _RUNTIME_CLASSES))
    return Seen(tuple(node(item) for item in nodes), frozenset(item["metadata"]["name"] for item in classes))


def read(config: Config, ask: Callable[[Config], Seen] = _ask, seconds: float = DEADLINE_SECONDS) -> Seen:
    """What Kubernetes has.

    Args:
        config: The configuration: `kubernetes`.
        ask: Asks it.
        seconds: How long it may take in all, a credential plugin included.

    Raises:
        UnreachableError: It cannot be asked, or does not answer in time.
    """
    return kubernetes_reader.within(seconds, lambda: ask(config))


def run(config: Config, look: Callable[[Config], Seen] = read) -> None:
    """Check what was asked to be checked; a cluster that cannot be asked is a warning.

    Args:
        config: The configuration: `checks`, `nodeSets` and `kubernetes`.
        look: Reads what Kubernetes has.

    Raises:
        ConfigurationError: With everything that its nodes do not offer.
    """
    asks = any(node_set.gpus or node_set.network.rdma for node_set in config.node_sets)
    if not config.checks.cluster or not asks:
        return
    try:
        seen = look(config)
    except UnreachableError as failure:
        pulumi.log.warn(f"checks.cluster: whether nodes offer the devices that are asked for is not known: {failure}")
        return
    if found := [*gpu_checks.problems(config, seen), *rdma_checks.problems(config, seen)]:
        raise ConfigurationError(found)
