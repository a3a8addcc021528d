"""Facts that the plan of a node depends on."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from devcluster.node.instance import Instance
from devcluster.node.links import Subnet

POD_NETWORK = "10.88.0.0/16"
DNS_ADDRESS = "10.96.0.10"
CLUSTER_DOMAIN = "cluster.local"
CONTAINERD_SOCKET = "/run/containerd/containerd.sock"
CNI_FOLDERS = (Path("/usr/lib/cni"), Path("/opt/cni/bin"))
PAUSE_IMAGE = "localhost/pulumi-slurm-pause:1"


@dataclass(frozen=True, slots=True)
class NodeFacts:
    """Facts that a plan depends on.

    Attributes:
        instance: Whose node it is.
        binaries: Folder with the built toolchain.
        containerd: The machine's containerd.
        cni: Folder with the CNI plugins.
        subnet: The instance's /30.
        mtu: Of the veth pair and the pods.
        package: Folder to import this package from, inside the instance.
    """

    instance: Instance
    binaries: Path
    containerd: Path
    cni: Path
    subnet: Subnet
    mtu: int
    package: Path = Path(__file__).resolve().parents[3]
