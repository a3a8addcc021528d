"""Configuration of NVIDIA's network operator, which makes fast networks usable in pods."""

from collections.abc import Iterator
from enum import StrEnum

from components.config.addons.mode import AddonMode, Provider
from components.config.model import Model, setting
from components.config.rule import Violation, named_twice, number_written, one_of, rows_with, rule
from components.config.values.addresses import Cidr, DeviceId, InterfaceName
from components.config.values.images import Version
from components.config.values.object_names import DnsLabel, PoolName
from components.config.values.quantities import WholeNumber


class RdmaMode(StrEnum):
    """Access of pods to an adapter: all pods of a node share it, or each gets virtual functions."""

    SHARED = "shared"
    SRIOV = "sriov"


class LinkType(StrEnum):
    """Link layer of an adapter's ports."""

    INFINIBAND = "infiniband"
    ETHERNET = "ethernet"


class NetworkKind(StrEnum):
    """Kind of a secondary interface."""

    IPOIB = "ipoib"
    MACVLAN = "macvlan"
    SRIOV = "sriov"


class DevicePool(Model):
    """Adapters that a device plugin offers together as one resource."""

    name: PoolName = setting("Name of the resource: rdma/NAME, with rdma: sriov nvidia.com/NAME.")
    link: LinkType = setting("What the ports speak: infiniband, or ethernet (RoCE).", default=LinkType.INFINIBAND)
    vendor: DeviceId = setting("PCI vendor of the adapters; 15b3 is NVIDIA's (Mellanox).", default="15b3")
    device_id: DeviceId | None = setting("PCI device, such as 1021 for ConnectX-7; left out: each.", default=None)
    interfaces: list[InterfaceName] = setting(
        "Names of the adapters' interfaces on the nodes; left out: all that fit otherwise.", factory=list
    )
    max_pods: WholeNumber | None = setting(
        "With rdma: shared, pods of a node that may use them at a time. Default: 63.", default=None, ge=1, le=1000
    )
    virtual_functions: WholeNumber | None = setting(
        "With rdma: sriov, virtual functions of each port; needed there.", default=None, ge=1, le=127
    )


class SecondaryNetwork(Model):
    """A secondary network: an interface of the pods that name it in nodeSets[].network.secondary."""

    name: DnsLabel = setting("Name of the network, of its NetworkAttachmentDefinition and of its pool of addresses.")
    kind: NetworkKind = setting("ipoib (InfiniBand), macvlan (Ethernet), or sriov.")
    interface: InterfaceName | None = setting(
        "Interface on the nodes that it stands on; needed for ipoib and macvlan.", default=None
    )
    pool: PoolName | None = setting("For sriov: the pool whose virtual functions become interfaces.", default=None)
    mtu: WholeNumber | None = setting(
        "For macvlan, bytes of a packet. Default: the interface's.", unit="bytes", default=None, ge=576, le=9978
    )
    subnet: Cidr = setting("Addresses of the network; each Kubernetes node gets a block of them.")
    addresses_per_node: WholeNumber = setting("Size of a node's block of addresses.", default=8, ge=1, le=1024)

    @rule
    def _keys_of_kind(self) -> Iterator[Violation]:
        if self.kind is not NetworkKind.SRIOV and self.interface is None:
            want = f"an interface of the nodes such as ibs1f0: a network of kind {self.kind} stands on one"
            yield Violation("interface", want=want)
        for key, kinds in (("pool", ("sriov",)), ("interface", ("ipoib", "macvlan")), ("mtu", ("macvlan",))):
            if getattr(self, key) is not None and self.kind not in kinds:
                yield Violation(key, want=f"nothing: it is for kind {' or '.join(kinds)}")


class NetworkOperator(Model):
    """NVIDIA's network operator and what it is told to do."""

    mode: AddonMode = setting(
        "install: its Helm chart is part of this stack; existing: it runs already; off: no RDMA in pods.",
        default=AddonMode.OFF,
    )
    version: Version = setting(
        # https://docs.nvidia.com/networking/display/kubernetes2641/ names this chart and the images that go with it.
        "Version of the chart, and of the images that it deploys.",
        default="26.4.1",
    )
    namespace: DnsLabel = setting("Namespace of the operator.", default="nvidia-network-operator")
    node_feature_discovery: bool = setting(
        "Whether the chart brings Node Feature Discovery; the GPU operator does, and there may be one alone.",
        default=False,
    )
    rdma: RdmaMode = setting(
        "shared: pods of a node share its adapters; sriov: each gets virtual functions.", default=RdmaMode.SHARED
    )
    driver: Provider = setting(
        "preinstalled: the nodes have the adapters' driver; operator: DOCA-OFED comes as a container.",
        default=Provider.PREINSTALLED,
    )
    driver_version: Version = setting(
        # As https://docs.nvidia.com/networking/display/kubernetes2641/customizations/cr-full-example.html has it.
        "Version of the driver's image, for driver: operator.",
        default="doca3.4.1-26.04-1.1.0.0-1",
    )
    pools: list[DevicePool] = setting(
        "Adapters by resource. With mode: existing left out, the operator keeps what it has been told.", factory=list
    )
    networks: list[SecondaryNetwork] = setting("Secondary networks that this stack declares.", factory=list)

    @property
    def is_on(self) -> bool:
        """Return whether the network operator runs, installed by the program or not."""
        return self.mode is not AddonMode.OFF

    @property
    def resource_prefix(self) -> str:
        """Prefix of a pool's Kubernetes resource, before the pool's name."""
        return RESOURCE_PREFIX[self.rdma]

    @property
    def brings_feature_discovery(self) -> bool:
        """Return whether the operator's chart puts Node Feature Discovery into Kubernetes."""
        return self.mode is AddonMode.INSTALL and self.node_feature_discovery

    @rule
    def _keys_of_mode(self) -> Iterator[Violation]:
        if not self.is_on:
            for key in ("pools", "networks"):
                if key in self.given and getattr(self, key):
                    yield Violation(key, want=NEEDS_OPERATOR)
        elif self.mode is AddonMode.INSTALL and not number_written(self.pools):
            want = "at least one pool of adapters: without it the operator offers no RDMA resource"
            yield Violation("pools", want=want)

    @rule
    def _pools(self) -> Iterator[Violation]:
        yield from named_twice(self.pools, "pools")
        sriov = self.rdma is RdmaMode.SRIOV
        other = f"nothing: it is for networkOperator.rdma: {'shared' if sriov else 'sriov'}"
        for index, pool in rows_with(self.pools, "virtual_functions"):
            if sriov and pool.virtual_functions is None:
                want = "a number of virtual functions for each port: networkOperator.rdma is sriov"
                yield Violation("pools", index, "virtualFunctions", want=want)
            if not sriov and pool.virtual_functions is not None:
                yield Violation("pools", index, "virtualFunctions", want=other)
        for index, pool in rows_with(self.pools, "max_pods"):
            if sriov and pool.max_pods is not None:
                yield Violation("pools", index, "maxPods", want=other)

    @rule
    def _networks(self) -> Iterator[Violation]:
        yield from named_twice(self.networks, "networks")
        pools = [pool.name for pool in self.pools]
        for index, network in rows_with(self.networks, "kind"):
            if network.kind is not NetworkKind.SRIOV:
                continue
            if self.rdma is not RdmaMode.SRIOV:
                yield Violation("networks", index, "kind", want="ipoib or macvlan, or networkOperator.rdma: sriov")
            if hasattr(network, "pool") and network.pool not in pools:
                want = one_of("the name of a pool", pools)
                yield Violation("networks", index, "pool", want=want)


NEEDS_OPERATOR = "nothing, or networkOperator.mode: install or existing: nothing else offers it"
RESOURCE_PREFIX = {RdmaMode.SHARED: "rdma", RdmaMode.SRIOV: "nvidia.com"}
"""The shared device plugin's own prefix, and the one that the chart sets for the SR-IOV operator."""
