"""Compares RDMA node sets with the nodes that Kubernetes has: pure functions of what was read."""

from collections.abc import Iterator

from components.config import Config
from components.config.addons.mode import AddonMode
from components.config.checking.problems import Problem
from components.config.nodes.network import RdmaResource
from components.config.nodes.node_sets import NodeSet
from components.preflight.gpu_checks import ClusterState, takes


def _of_set(index: int, node_set: NodeSet, rdma: RdmaResource, state: ClusterState) -> Iterator[Problem]:
    path = ("nodeSets", index, "network", "rdma")
    offers = {node.name: node.allocatable.get(rdma.resource, 0) for node in state.nodes if takes(node, node_set)}
    most = max(offers.values(), default=0)
    if most == 0:
        want = f"a resource that a node offers which the set may use; of {len(state.nodes)} in Kubernetes none does"
        yield Problem((*path, "resource"), rdma.resource, want)
    elif most < rdma.count:
        want = f"at most {most}: no node that the set may use offers more {rdma.resource}"
        yield Problem((*path, "count"), rdma.count, want)


def problems(config: Config, state: ClusterState) -> list[Problem]:
    """Return the violations by node sets that ask for RDMA resources which these nodes do not offer.

    Pools that this stack declares are skipped: nodes offer them only after the update.

    Args:
        config: The configuration: `nodeSets` and `networkOperator`.
        state: What Kubernetes has.
    """
    operator = config.network_operator
    if operator.mode is not AddonMode.EXISTING or operator.pools:
        return []
    return [
        problem
        for index, node_set in enumerate(config.node_sets)
        if node_set.network.rdma
        for problem in _of_set(index, node_set, node_set.network.rdma, state)
    ]
