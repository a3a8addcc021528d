"""Rules about other makers' operators: GPUs, networks and certificates, and what needs them."""

from collections.abc import Iterator

from components.config.addons.mode import AddonMode
from components.config.addons.network_operator import NEEDS_OPERATOR
from components.config.nodes.node_sets import NodeSet
from components.config.program import Config
from components.config.rule import Violation, one_of


def rest_tls(config: Config) -> Iterator[Violation]:
    """A certificate of slurmrestd's needs somebody to issue it."""
    if config.rest.tls and not config.certificates.is_on:
        want = "nothing, or certificates.mode: install or existing: there is nobody to issue a certificate"
        yield Violation("rest", "tls", want=want)


def feature_discovery(config: Config) -> Iterator[Violation]:
    """One chart alone brings Node Feature Discovery."""
    if config.gpu_operator.brings_feature_discovery and config.network_operator.brings_feature_discovery:
        want = "false for one of gpuOperator and networkOperator: both charts would bring Node Feature Discovery"
        yield Violation("gpuOperator", "nodeFeatureDiscovery", want=want)
        want = (
            "false, or gpuOperator.nodeFeatureDiscovery: false: two of them in one Kubernetes undo each other's labels"
        )
        yield Violation("networkOperator", "nodeFeatureDiscovery", want=want)


def gpus_to_come(config: Config) -> Iterator[Violation]:
    """Nodes offer no GPUs before the operator that this program installs is there."""
    if config.checks.cluster and config.gpu_operator.mode is AddonMode.INSTALL:
        want = "false while gpuOperator.mode is install: nodes offer their GPUs only after it is there"
        yield Violation("checks", "cluster", want=want)


def gpus(config: Config) -> Iterator[Violation]:
    """Somebody offers the GPUs of node sets."""
    if config.gpu_operator.mode is not AddonMode.OFF:
        return
    for index, node_set in enumerate(config.node_sets):
        gpus = getattr(node_set, "gpus", None)
        if gpus is not None and not gpus.given & {"devices", "multipleFiles"}:
            want = (
                "gpuOperator.mode: install, or existing where the nodes offer GPUs already (it is off, so nothing "
                f"brings them); or nodeSets[{index}].gpus.devices, the device files, where another device plugin does"
            )
            yield Violation("nodeSets", index, "gpus", want=want)


def rdma(config: Config, node_set: NodeSet) -> Iterator[Violation]:
    """A node set's RDMA resource is one that the network operator offers."""
    operator, rdma = config.network_operator, node_set.network.rdma
    if rdma is None:
        return
    offered = [f"{operator.resource_prefix}/{pool.name}" for pool in operator.pools]
    if not operator.is_on:
        yield Violation("network", "rdma", "resource", want=NEEDS_OPERATOR)
    elif offered and rdma.resource not in offered:
        want = one_of("a resource of networkOperator.pools", offered)
        yield Violation("network", "rdma", "resource", want=want)


def secondary_networks(config: Config, node_set: NodeSet) -> Iterator[Violation]:
    """A node set's networks are declared."""
    operator, secondary = config.network_operator, node_set.network.secondary
    if not operator.is_on and secondary:
        yield Violation("network", "secondary", want=NEEDS_OPERATOR)
    if operator.mode is not AddonMode.INSTALL:
        return
    declared = [network.name for network in operator.networks]
    for position, name in enumerate(secondary):
        if name not in declared:
            want = one_of("a name of networkOperator.networks", declared)
            yield Violation("network", "secondary", position, want=want)
