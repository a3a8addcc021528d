"""Fields about networks, each with its effect: a base configuration, what is changed in it, and what that does."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, Final

from components.addons import network_operator
from components.config import Config
from components.slurm import node_set
from tests.unit.samples import SMALL, changed

POOL: Final = {"name": "fabric"}
NETWORK: Final = {"name": "net", "kind": "macvlan", "interface": "eth1", "subnet": "192.0.2.0/24"}
POLICY: Final = ("NicClusterPolicy", "nic-cluster-policy")


def operator(**content: Any) -> dict[str, Any]:
    """The small configuration with a network operator that is there already."""
    return changed("networkOperator", {"mode": "existing", **content})


EXISTING: Final = operator()
SHARED: Final = operator(pools=[POOL])
SRIOV: Final = operator(rdma="sriov", pools=[{**POOL, "virtualFunctions": 4}])
INTERFACES: Final = operator(pools=[POOL], networks=[NETWORK])
VIRTUAL: Final = operator(
    rdma="sriov",
    pools=[{"name": name, "virtualFunctions": 4} for name in ("one", "two")],
    networks=[{"name": "net", "kind": "sriov", "pool": "one", "subnet": "192.0.2.0/24"}],
)
RDMA: Final = changed("nodeSets.0.network", {"rdma": {"resource": "rdma/fabric"}}, EXISTING)

Probe = Callable[[Config], Any]


def told(kind: str, name: str, *keys: str) -> Probe:
    """Reads a value below the spec of what the network operator is told; None where it is not told."""

    def read(config: Config) -> Any:
        found = [
            each["spec"]
            for each in network_operator.custom_resources(config)
            if (each["kind"], each["metadata"]["name"]) == (kind, name)
        ]
        value: Any = found[0] if found else {}
        for key in keys:
            value = value.get(key, {})
        return value or None

    return read


def shared_pool(*keys: str) -> Probe:
    """Reads a value of the first pool of the shared device plugin."""

    def read(config: Config) -> Any:
        plugin = told(*POLICY, "rdmaSharedDevicePlugin")(config)
        value = json.loads(plugin["config"])["configList"][0]
        for key in keys:
            value = value.get(key)
        return value

    return read


def worker_pod(config: Config) -> Any:
    """The pod template of the node set."""
    return node_set.manifests(config, config.node_sets[0])[0].body["spec"]["template"]


def request(name: str) -> Probe:
    """Reads a request of the worker's container."""
    return lambda config: worker_pod(config)["spec"]["containers"][0]["resources"]["requests"].get(name)


def nccl(config: Config) -> Any:
    """Return what the nodes are told about NCCL."""
    return node_set.node_variable(config, config.node_sets[0]).get("nccl")


EFFECTS: Final[list[tuple[Mapping[str, Any], str, Any, Probe, Any]]] = [
    (
        SMALL,
        "nodeSets.0.resources.sharedMemory",
        "32Gi",
        lambda c: node_set.jail_of_node(c, c.node_sets[0]).get("shmMib"),
        32 * 1024,
    ),
    (RDMA, "nodeSets.0.network.rdma.resource", "rdma/other", request("rdma/other"), "1"),
    (RDMA, "nodeSets.0.network.rdma.count", 2, request("rdma/fabric"), "2"),
    (
        RDMA,
        "nodeSets.0.network.rdma.adapters",
        8,
        lambda c: node_set.node_variable(c, c.node_sets[0]).get("rdmaAdapters"),
        8,
    ),
    (
        EXISTING,
        "nodeSets.0.network.secondary",
        ["a", "b"],
        lambda c: worker_pod(c)["metadata"].get("annotations"),
        {"k8s.v1.cni.cncf.io/networks": "slurm/a,slurm/b"},
    ),
    (
        SMALL,
        "nodeSets.0.network.product",
        "coreweave-infiniband",
        nccl,
        {"NCCL_IB_HCA": "ibp", "NCCL_SOCKET_IFNAME": "eth0"},
    ),
    (SMALL, "nodeSets.0.network.nccl", {"NCCL_IB_TC": 41}, nccl, {"NCCL_IB_TC": "41"}),
    (SMALL, "networkOperator", {"mode": "existing", "pools": [POOL]}, shared_pool("resourceName"), "fabric"),
    (
        SHARED,
        "networkOperator.version",
        "26.1.0",
        told(*POLICY, "rdmaSharedDevicePlugin", "version"),
        "network-operator-v26.1.0",
    ),
    (SRIOV, "networkOperator.namespace", "net", lambda c: _namespaces(c), ["net"]),
    (
        SHARED,
        "networkOperator.nodeFeatureDiscovery",
        True,
        lambda c: network_operator.values(c)["nfd"]["enabled"],
        True,
    ),
    (
        EXISTING,
        "networkOperator.rdma",
        "sriov",
        lambda c: network_operator.values(c)["sriovNetworkOperator"]["enabled"],
        True,
    ),
    (SHARED, "networkOperator.driver", "operator", told(*POLICY, "ofedDriver", "image"), "doca-driver"),
    (
        operator(pools=[POOL], driver="operator"),
        "networkOperator.driverVersion",
        "doca1",
        told(*POLICY, "ofedDriver", "version"),
        "doca1",
    ),
    (SHARED, "networkOperator.pools.0.name", "a", shared_pool("resourceName"), "a"),
    (SHARED, "networkOperator.pools.0.link", "ethernet", shared_pool("selectors", "linkTypes"), ["ether"]),
    (SHARED, "networkOperator.pools.0.vendor", "1234", shared_pool("selectors", "vendors"), ["1234"]),
    (SHARED, "networkOperator.pools.0.deviceId", 1021, shared_pool("selectors", "deviceIDs"), ["1021"]),
    (SHARED, "networkOperator.pools.0.interfaces", ["ib0"], shared_pool("selectors", "ifNames"), ["ib0"]),
    (SHARED, "networkOperator.pools.0.maxPods", 2, shared_pool("rdmaHcaMax"), 2),
    (SRIOV, "networkOperator.pools.0.virtualFunctions", 16, told("SriovNetworkNodePolicy", "fabric", "numVfs"), 16),
    (
        SRIOV,
        "networkOperator.pools.0.deviceId",
        "1021",
        told("SriovNetworkNodePolicy", "fabric", "nicSelector", "deviceID"),
        "1021",
    ),
    (
        INTERFACES,
        "networkOperator.networks.0.name",
        "rail",
        told("MacvlanNetwork", "rail", "networkNamespace"),
        "slurm",
    ),
    (INTERFACES, "networkOperator.networks.0.kind", "ipoib", told("IPoIBNetwork", "net", "master"), "eth1"),
    (INTERFACES, "networkOperator.networks.0.interface", "eth7", told("MacvlanNetwork", "net", "master"), "eth7"),
    (INTERFACES, "networkOperator.networks.0.mtu", 9000, told("MacvlanNetwork", "net", "mtu"), 9000),
    (
        INTERFACES,
        "networkOperator.networks.0.subnet",
        "198.51.100.0/24",
        told("IPPool", "net", "subnet"),
        "198.51.100.0/24",
    ),
    (INTERFACES, "networkOperator.networks.0.addressesPerNode", 32, told("IPPool", "net", "perNodeBlockSize"), 32),
    (VIRTUAL, "networkOperator.networks.0.pool", "two", told("SriovIBNetwork", "net", "resourceName"), "two"),
    (VIRTUAL, "networkOperator.pools.0.link", "ethernet", told("SriovNetwork", "net", "resourceName"), "one"),
]


def _namespaces(config: Config) -> list[str]:
    metadata = [each["metadata"] for each in network_operator.custom_resources(config)]
    return [each["namespace"] for each in metadata if "namespace" in each]


PATHS: Final = {path for _, path, *_ in EFFECTS} | {"networkOperator.mode"}
"""Every field about networks; what the mode does is on no manifest, and shown with the whole program."""
