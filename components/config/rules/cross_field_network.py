"""Checks between the networks of node sets and what the network operator offers; they read the raw values."""

from collections.abc import Iterator, Mapping
from typing import Any

from components.config.addons.network_operator import RESOURCE_PREFIX, RdmaMode
from components.config.problems import NOTHING, Problem
from components.config.values.raw import mapping as _map
from components.config.values.raw import rows as _rows

_ON = ("install", "existing")
_NEEDS_OPERATOR = "nothing, or networkOperator.mode: install or existing: nothing else offers it"


def _twice(key: str, rows: list[tuple[int, Mapping[str, Any]]]) -> Iterator[Problem]:
    first: dict[str, int] = {}
    for index, row in rows:
        name = str(row.get("name"))
        if name in first:
            want = f"another name: {key}[{first[name]}] has this one"
            yield Problem(("networkOperator", key, index, "name"), name, want)
        first.setdefault(name, index)


def _pools(operator: Mapping[str, Any]) -> Iterator[Problem]:
    rows = _rows(operator.get("pools"))
    yield from _twice("pools", rows)
    sriov = operator.get("rdma", "shared") == RdmaMode.SRIOV
    for index, row in rows:
        path = ("networkOperator", "pools", index)
        if sriov and row.get("virtualFunctions") is None:
            want = "a number of virtual functions for each port: networkOperator.rdma is sriov"
            yield Problem((*path, "virtualFunctions"), NOTHING, want)
        for key, belongs_to in (("virtualFunctions", "sriov"), ("maxPods", "shared")):
            if row.get(key) is not None and sriov != (belongs_to == "sriov"):
                yield Problem((*path, key), row[key], f"nothing: it is for networkOperator.rdma: {belongs_to}")


def _networks(operator: Mapping[str, Any]) -> Iterator[Problem]:
    rows = _rows(operator.get("networks"))
    yield from _twice("networks", rows)
    pools = [row.get("name") for _, row in _rows(operator.get("pools"))]
    for index, row in rows:
        path = ("networkOperator", "networks", index)
        if row.get("kind") == "sriov":
            if operator.get("rdma", "shared") != RdmaMode.SRIOV:
                yield Problem((*path, "kind"), "sriov", "ipoib or macvlan, or networkOperator.rdma: sriov")
            if row.get("pool") not in pools:
                want = f"the name of a pool; there are: {', '.join(map(str, pools)) or 'none'}"
                yield Problem((*path, "pool"), row.get("pool", NOTHING), want)
        elif row.get("kind") in ("ipoib", "macvlan") and row.get("interface") is None:
            want = f"an interface of the nodes such as ibs1f0: a network of kind {row['kind']} stands on one"
            yield Problem((*path, "interface"), NOTHING, want)
        for key, kinds in (("pool", ("sriov",)), ("interface", ("ipoib", "macvlan")), ("mtu", ("macvlan",))):
            if row.get(key) is not None and row.get("kind") not in kinds:
                yield Problem((*path, key), row[key], f"nothing: it is for kind {' or '.join(kinds)}")


def _operator(operator: Mapping[str, Any]) -> Iterator[Problem]:
    mode = operator.get("mode", "off")
    if mode == "off":
        for key in ("pools", "networks"):
            if operator.get(key):
                yield Problem(("networkOperator", key), operator[key], _NEEDS_OPERATOR)
    elif mode == "install" and not operator.get("pools"):
        want = "at least one pool of adapters: without it the operator offers no RDMA resource"
        yield Problem(("networkOperator", "pools"), operator.get("pools", NOTHING), want)


def _node_feature_discovery(config: Mapping[str, Any], operator: Mapping[str, Any]) -> Iterator[Problem]:
    gpus = _map(config.get("gpuOperator"))
    by_gpus = gpus.get("mode") == "install" and gpus.get("nodeFeatureDiscovery", True) is True
    if by_gpus and operator.get("mode") == "install" and operator.get("nodeFeatureDiscovery") is True:
        want = (
            "false, or gpuOperator.nodeFeatureDiscovery: false: two of them in one Kubernetes undo each other's labels"
        )
        yield Problem(("networkOperator", "nodeFeatureDiscovery"), True, want)


def _offered(operator: Mapping[str, Any]) -> list[str]:
    prefix = RESOURCE_PREFIX.get(operator.get("rdma", "shared"), "")
    return [f"{prefix}/{row.get('name')}" for _, row in _rows(operator.get("pools"))]


def _node_set(index: int, network: Mapping[str, Any], operator: Mapping[str, Any]) -> Iterator[Problem]:
    path = ("nodeSets", index, "network")
    mode = operator.get("mode", "off")
    resource = _map(network.get("rdma")).get("resource")
    secondary = network.get("secondary")
    names = secondary if isinstance(secondary, list) else []
    if mode not in _ON:
        if resource is not None:
            yield Problem((*path, "rdma", "resource"), resource, _NEEDS_OPERATOR)
        if names:
            yield Problem((*path, "secondary"), names, _NEEDS_OPERATOR)
        return
    offered = _offered(operator)
    if resource is not None and offered and resource not in offered:
        want = f"a resource of networkOperator.pools; there are: {', '.join(offered)}"
        yield Problem((*path, "rdma", "resource"), resource, want)
    declared = [row.get("name") for _, row in _rows(operator.get("networks"))]
    for position, name in enumerate(names):
        if mode == "install" and name not in declared:
            want = f"a name of networkOperator.networks; there are: {', '.join(map(str, declared)) or 'none'}"
            yield Problem((*path, "secondary", position), name, want)


def cross_field_problems(config: Mapping[str, Any]) -> Iterator[Problem]:
    """Everything in which networks, pools and node sets do not fit together."""
    operator = _map(config.get("networkOperator"))
    yield from _operator(operator)
    yield from _node_feature_discovery(config, operator)
    yield from _pools(operator)
    yield from _networks(operator)
    sets = [(index, _map(row.get("network"))) for index, row in _rows(config.get("nodeSets"))]
    for index, network in sets:
        yield from _node_set(index, network, operator)
    options = _map(_map(config.get("slurm")).get("options"))
    for name, value in options.items():
        if name.lower() == "propagateresourcelimits" and any(network.get("rdma") for _, network in sets):
            want = (
                "nothing, or limits in PropagateResourceLimitsExcept: node sets with RDMA give jobs the nodes' own "
                "limit of locked memory, and Slurm takes one of the two keys"
            )
            yield Problem(("slurm", "options", name), value, want)
