"""Configuration files of the kubelet, containerd, the pod network and pods' resolver. Pure."""

from __future__ import annotations

from typing import Any

from devcluster.apiserver.control_plane import Credentials
from devcluster.node.plan.facts import (
    CLUSTER_DOMAIN,
    CONTAINERD_SOCKET,
    DNS_ADDRESS,
    PAUSE_IMAGE,
    POD_NETWORK,
    NodeFacts,
)


def kubelet_configuration(facts: NodeFacts, credentials: Credentials) -> dict[str, Any]:
    """Return the kubelet's configuration file."""
    pki = facts.instance.pki
    return {
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "failCgroupV1": False,
        "cgroupDriver": "cgroupfs",
        # Of this instance alone: the kubelet deletes unknown pod cgroups below it.
        "cgroupRoot": f"/{facts.instance.name_on_host}",
        "containerRuntimeEndpoint": f"unix://{CONTAINERD_SOCKET}",
        "clusterDNS": [DNS_ADDRESS],
        "clusterDomain": CLUSTER_DOMAIN,
        "resolvConf": str(facts.instance.state / "resolv.conf"),
        "volumePluginDir": str(facts.instance.state / "volume-plugins"),
        "authentication": {
            "anonymous": {"enabled": False},
            "webhook": {"enabled": True},
            "x509": {"clientCAFile": str(credentials.authority)},
        },
        "authorization": {"mode": "Webhook"},
        "tlsCertFile": str(pki / "kubelet.crt"),
        "tlsPrivateKeyFile": str(pki / "kubelet.key"),
        "failSwapOn": False,
        "oomScoreAdj": 0,
        "evictionHard": {"memory.available": "100Mi", "nodefs.available": "1%", "imagefs.available": "1%"},
        # Images are loaded, not pulled, so a garbage-collected one would be missing for ever.
        "imageGCHighThresholdPercent": 100,
        "imageGCLowThresholdPercent": 99,
        "maxPods": 250,
        "maxOpenFiles": 65536,
        "nodeStatusUpdateFrequency": "5s",
        "syncFrequency": "10s",
        # A changed ConfigMap or Secret reaches its pods at once.
        "configMapAndSecretChangeDetectionStrategy": "Watch",
        "serializeImagePulls": False,
    }


def containerd_configuration(facts: NodeFacts) -> str:
    """Return containerd's configuration file. It shares nothing with a containerd of the machine's own."""
    state = facts.instance.state
    return f"""\
version = 2
root = "{state}/containerd"
state = "/run/containerd"
[grpc]
  address = "{CONTAINERD_SOCKET}"
[plugins."io.containerd.internal.v1.opt"]
  path = "{state}/containerd-opt"
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "{PAUSE_IMAGE}"
  # Negative scores are refused to a root without CAP_SYS_RESOURCE.
  restrict_oom_score_adj = true
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "{facts.cni}"
    conf_dir = "{state}/cni"
  [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
    runtime_type = "io.containerd.runc.v2"
    [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
      SystemdCgroup = false
"""


def pod_network(facts: NodeFacts) -> dict[str, Any]:
    """Return the CNI configuration: one bridge; a pod reaches itself through a Service by hairpin mode."""
    bridge = {
        "type": "bridge",
        "bridge": "cni0",
        "isGateway": True,
        "ipMasq": True,
        "hairpinMode": True,
        "mtu": facts.mtu,
        "ipam": {"type": "host-local", "ranges": [[{"subnet": POD_NETWORK}]], "routes": [{"dst": "0.0.0.0/0"}]},
    }
    portmap = {"type": "portmap", "capabilities": {"portMappings": True}}
    return {"cniVersion": "1.0.0", "name": "pods", "plugins": [bridge, portmap]}


def resolver(files: list[str]) -> str:
    """Return a resolv.conf for pods: the name servers of the first text that names any besides loopback ones."""
    for text in files:
        servers = [line for line in text.splitlines() if line.startswith("nameserver") and " 127." not in line]
        if servers:
            return "\n".join(servers) + "\n"
    return ""
