"""NVIDIA's network operator: its Helm chart, its custom resources, and the secondary networks.

The chart's own page: https://docs.nvidia.com/networking/display/kubernetes2641/. The ledger holds none of it. The
chart's objects belong to Helm. The custom resources belong to the network operator, which repairs what it makes from
them.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

import pulumi

from components.addons import nvidia_chart
from components.config import Config
from components.config.addons.mode import AddonMode, Provider
from components.config.addons.network_operator import (
    DevicePool,
    LinkType,
    NetworkKind,
    RdmaMode,
    SecondaryNetwork,
)
from components.config.values.quantities import duration_seconds
from components.kubernetes.component import Component, custom_resource
from components.kubernetes.manifest import declared

CHART: Final = "network-operator"
_IMAGES: Final = "nvcr.io/nvidia/mellanox"
_POLICY: Final = "nic-cluster-policy"
"""The operator reads only the NicClusterPolicy of this name."""
_COMPONENT: Final = "network"
_PODS_SHARING_AN_ADAPTER: Final = 63
_HAS_ADAPTERS: Final = {"feature.node.kubernetes.io/pci-15b3.present": "true"}
"""A label of Node Feature Discovery."""
_SHARED_LINK: Final = {LinkType.INFINIBAND: "infiniband", LinkType.ETHERNET: "ether"}
_SRIOV_LINK: Final = {LinkType.INFINIBAND: "IB", LinkType.ETHERNET: "ETH"}
_POLICY_PRIORITY: Final = 90


def values(config: Config) -> dict[str, Any]:
    """Return the values of the Helm chart."""
    operator = config.network_operator
    return {
        "nfd": {"enabled": operator.node_feature_discovery},
        "sriovNetworkOperator": {"enabled": operator.rdma is RdmaMode.SRIOV},
        # Helm installs CRDs once and never updates them; the chart's own hook does.
        "upgradeCRDs": True,
    }


def _image(config: Config, name: str) -> dict[str, Any]:
    return {"image": name, "repository": _IMAGES, "version": f"network-operator-v{config.network_operator.version}"}


def _shared_selectors(pool: DevicePool) -> dict[str, Any]:
    return {
        "vendors": [pool.vendor],
        **({"deviceIDs": [pool.device_id]} if pool.device_id else {}),
        **({"ifNames": pool.interfaces} if pool.interfaces else {}),
        "linkTypes": [_SHARED_LINK[pool.link]],
    }


def _shared_plugin(config: Config) -> dict[str, Any]:
    pools = [
        {
            "resourceName": pool.name,
            "rdmaHcaMax": pool.max_pods or _PODS_SHARING_AN_ADAPTER,
            "selectors": _shared_selectors(pool),
        }
        for pool in config.network_operator.pools
    ]
    return {**_image(config, "k8s-rdma-shared-dev-plugin"), "config": json.dumps({"configList": pools})}


def policy(config: Config) -> dict[str, Any] | None:
    """Return the NicClusterPolicy: which parts the operator deploys; None where the stack tells it nothing."""
    operator = config.network_operator
    spec: dict[str, Any] = {}
    if operator.driver is Provider.OPERATOR and operator.pools:
        spec["ofedDriver"] = {"image": "doca-driver", "repository": _IMAGES, "version": operator.driver_version}
    if operator.rdma is RdmaMode.SHARED and operator.pools:
        spec["rdmaSharedDevicePlugin"] = _shared_plugin(config)
    if operator.networks:
        spec["nvIpam"] = _image(config, "nvidia-k8s-ipam")
        spec["secondaryNetwork"] = {
            "cniPlugins": _image(config, "plugins"),
            "multus": _image(config, "multus-cni"),
            **(
                {"ipoib": _image(config, "ipoib-cni")}
                if any(network.kind is NetworkKind.IPOIB for network in operator.networks)
                else {}
            ),
        }
    return _cluster_wide(config, "mellanox.com/v1alpha1", "NicClusterPolicy", _POLICY, spec) if spec else None


def _cluster_wide(config: Config, api_version: str, kind: str, name: str, spec: Mapping[str, Any]) -> dict[str, Any]:
    return declared(config, api_version, kind, name, _COMPONENT, {"spec": dict(spec)}, namespaced=False)


def _beside_operator(config: Config, api_version: str, kind: str, name: str, spec: Mapping[str, Any]) -> dict[str, Any]:
    body = _cluster_wide(config, api_version, kind, name, spec)
    body["metadata"]["namespace"] = config.network_operator.namespace
    return body


def _virtual_functions(config: Config, pool: DevicePool) -> dict[str, Any]:
    nic = {
        "vendor": pool.vendor,
        **({"deviceID": pool.device_id} if pool.device_id else {}),
        **({"pfNames": pool.interfaces} if pool.interfaces else {}),
    }
    spec = {
        "resourceName": pool.name,
        "deviceType": "netdevice",
        "isRdma": True,
        "linkType": _SRIOV_LINK[pool.link],
        "nicSelector": nic,
        "nodeSelector": dict(_HAS_ADAPTERS),
        "numVfs": pool.virtual_functions,
        "priority": _POLICY_PRIORITY,
    }
    name = pool.name.lower().replace("_", "-")
    return _beside_operator(config, "sriovnetwork.openshift.io/v1", "SriovNetworkNodePolicy", name, spec)


def _addresses(config: Config, network: SecondaryNetwork) -> dict[str, Any]:
    spec = {"subnet": network.subnet, "perNodeBlockSize": network.addresses_per_node}
    return _beside_operator(config, "nv-ipam.nvidia.com/v1alpha1", "IPPool", network.name, spec)


def _network(config: Config, network: SecondaryNetwork) -> dict[str, Any]:
    """Return the network itself; the operator makes its NetworkAttachmentDefinition in the cluster's namespace."""
    spec: dict[str, Any] = {
        "networkNamespace": config.cluster.namespace,
        "ipam": json.dumps({"type": "nv-ipam", "poolName": network.name}),
    }
    match network.kind:
        case NetworkKind.IPOIB:
            spec |= {"master": network.interface}
            return _cluster_wide(config, "mellanox.com/v1alpha1", "IPoIBNetwork", network.name, spec)
        case NetworkKind.MACVLAN:
            spec |= {"master": network.interface, "mode": "bridge", "mtu": network.mtu or 0}
            return _cluster_wide(config, "mellanox.com/v1alpha1", "MacvlanNetwork", network.name, spec)
        case NetworkKind.SRIOV:
            pool = next(pool for pool in config.network_operator.pools if pool.name == network.pool)
            kind = "SriovIBNetwork" if pool.link is LinkType.INFINIBAND else "SriovNetwork"
            spec |= {"resourceName": pool.name, "linkState": "enable"}
            return _beside_operator(config, "sriovnetwork.openshift.io/v1", kind, network.name, spec)


def custom_resources(config: Config) -> list[dict[str, Any]]:
    """Return the operator's custom resources: its policy, virtual functions, addresses and secondary networks."""
    operator = config.network_operator
    if operator.mode is AddonMode.OFF:
        return []
    told = policy(config)
    pools = operator.pools if operator.rdma is RdmaMode.SRIOV else []
    return [
        *([told] if told else []),
        *(_virtual_functions(config, pool) for pool in pools),
        *(_addresses(config, network) for network in operator.networks),
        *(_network(config, network) for network in operator.networks),
    ]


class NetworkOperator(Component):
    """RDMA devices and secondary networks for pods, by NVIDIA's network operator.

    Args:
        name: Name of the resource in the stack.
        config: The configuration: `networkOperator`, `cluster` and `timeouts`.
        depends_on: Resources that come first, such as the namespace that gets the networks.
        opts: Options of the resource.
    """

    def __init__(
        self,
        name: str,
        config: Config,
        depends_on: Sequence[pulumi.Resource] = (),
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        super().__init__(name, opts)
        before: list[pulumi.Resource] = list(depends_on)
        if config.network_operator.mode is AddonMode.INSTALL:
            seconds, child = duration_seconds(config.timeouts.available), pulumi.ResourceOptions(parent=self)
            before.append(nvidia_chart.release(CHART, config.network_operator, values(config), seconds, child))
        for body in custom_resources(config):
            name = f"{body['kind'].lower()}-{body['metadata']['name']}"
            custom_resource(name, body, pulumi.ResourceOptions(parent=self, depends_on=before))
        self.register_outputs({"mode": str(config.network_operator.mode)})
