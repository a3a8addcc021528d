"""The node of an instance, decided: its components' command lines and configuration files. Pure, but for `write`."""

from __future__ import annotations

import hashlib
import json
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from devcluster.apiserver import control_plane, kubeconfigs
from devcluster.apiserver.control_plane import ADMIN, Credentials, Ports
from devcluster.apiserver.pki import Authority, Subject
from devcluster.node.instance import Instance, write_json
from devcluster.node.links import Subnet
from devcluster.node.supervision import Component, NodePlan, Probe

POD_NETWORK = "10.88.0.0/16"
POD_BRIDGE_ADDRESS = "10.88.0.1"
DNS_ADDRESS = "10.96.0.10"
CLUSTER_DOMAIN = "cluster.local"
CONTAINERD_SOCKET = "/run/containerd/containerd.sock"
CNI_FOLDERS = (Path("/usr/lib/cni"), Path("/opt/cni/bin"))
PAUSE_IMAGE = "localhost/pulumi-slurm-pause:1"
OWN_FILES = (
    "controllers/storage.py", "controllers/network_policy.py", "controllers/policy_rules.py",
    "controllers/load_balancer.py", "controllers/informer.py",
    "fakes/gpus.py", "fakes/device_plugin_api.py", "fakes/nvidia_smi",
)  # fmt: skip
CLIENTS = {
    "controller-manager": Subject("system:kube-controller-manager"),
    "scheduler": Subject("system:kube-scheduler"),
    "proxy": Subject("system:kube-proxy"),
    # Controllers that run beside the node, in place of a cloud's own.
    "devcluster": Subject("devcluster", groups=("system:masters",)),
}


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
    package: Path = Path(__file__).resolve().parents[2]


def plan(facts: NodeFacts, credentials: Credentials) -> NodePlan:
    """Return the components in order of start, and what the init prepares for them."""
    state, name = facts.instance.state, facts.instance.name
    ports = Ports()
    binary = facts.binaries
    api = control_plane.api_server_command(
        binary / "kube-apiserver",
        credentials,
        ports,
        bind="0.0.0.0",  # noqa: S104 - the network namespace is its own
        advertise=facts.subnet.node,
    )
    api_probe = Probe(
        ("127.0.0.1", ports.api),
        str(credentials.authority),
        str(credentials.kubelet_client.certificate),
        str(credentials.kubelet_client.key),
    )
    return NodePlan(
        name=name,
        address=f"{facts.subnet.node}/30",
        gateway=facts.subnet.host,
        binds=[
            # The kubelet's own folder is a constant for device plugins; the other two are where it puts pods' logs.
            (str(state / "kubelet"), "/var/lib/kubelet"),
            (str(state / "pod-logs"), "/var/log/pods"),
            (str(state / "container-logs"), "/var/log/containers"),
        ],
        logs=str(facts.instance.logs),
        status=str(facts.instance.status_file),
        components=[
            Component(
                "etcd",
                tuple(control_plane.etcd_command(binary / "etcd", state / "etcd", ports)),
                probe=Probe(("127.0.0.1", ports.etcd)),
            ),
            Component("kube-apiserver", tuple(api), probe=api_probe),
            Component(
                "containerd",
                (str(facts.containerd), "--config", str(state / "containerd.toml")),
                _digest(containerd_configuration(facts)),
            ),
            Component("kube-controller-manager", _controller_manager(facts, credentials)),
            Component(
                "kube-scheduler",
                (
                    str(binary / "kube-scheduler"),
                    f"--kubeconfig={state}/scheduler.kubeconfig",
                    f"--authentication-kubeconfig={state}/scheduler.kubeconfig",
                    f"--authorization-kubeconfig={state}/scheduler.kubeconfig",
                    "--leader-elect=false",
                ),
            ),
            Component("kubelet", _kubelet(facts), _digest(json.dumps(kubelet_configuration(facts, credentials)))),
            Component(
                "kube-proxy",
                (
                    str(binary / "kube-proxy"),
                    f"--kubeconfig={state}/proxy.kubeconfig",
                    "--proxy-mode=iptables",
                    f"--cluster-cidr={POD_NETWORK}",
                    f"--hostname-override={name}",
                    "--conntrack-max-per-core=0",
                    "--nodeport-addresses=primary",
                    "--oom-score-adj=0",
                ),
            ),
            _own_program(
                facts, "controllers.storage", str(state / "devcluster.kubeconfig"), str(facts.instance.volumes), name
            ),
            _own_program(facts, "controllers.network_policy", str(state / "devcluster.kubeconfig")),
            _own_program(facts, "controllers.load_balancer", str(state / "devcluster.kubeconfig"), facts.subnet.node),
            _own_program(facts, "fakes.gpus", str(state / "fake-gpus")),
        ],
    )


def _own_program(facts: NodeFacts, module: str, *arguments: str) -> Component:
    return Component(
        module.removeprefix("controllers.").replace("fakes.", "fake-").replace("_", "-"),
        (sys.executable, "-m", f"devcluster.{module}", *arguments),
        {
            "PYTHONPATH": str(facts.package),
            "PYTHONDONTWRITEBYTECODE": "1",
            **_digest("".join((facts.package / "devcluster" / name).read_text() for name in OWN_FILES)),
        },
    )


def _digest(content: str) -> dict[str, str]:
    """Return a variable for a component's environment: a hash of its files, so that a changed file changes the plan."""
    return {"DEVCLUSTER_DIGEST": hashlib.sha256(content.encode()).hexdigest()[:16]}


def _controller_manager(facts: NodeFacts, credentials: Credentials) -> tuple[str, ...]:
    state = facts.instance.state
    return (
        str(facts.binaries / "kube-controller-manager"),
        f"--kubeconfig={state}/controller-manager.kubeconfig",
        f"--authentication-kubeconfig={state}/controller-manager.kubeconfig",
        f"--authorization-kubeconfig={state}/controller-manager.kubeconfig",
        f"--service-account-private-key-file={credentials.service_accounts.key}",
        f"--root-ca-file={credentials.authority}",
        "--use-service-account-credentials",
        "--leader-elect=false",
        "--allocate-node-cidrs=false",
        f"--cluster-signing-cert-file={credentials.authority}",
        f"--cluster-signing-key-file={credentials.authority.with_name('ca.key')}",
        # Of 15 s; a test of an autoscaler waits for several looks.
        "--horizontal-pod-autoscaler-sync-period=5s",
    )


def _kubelet(facts: NodeFacts) -> tuple[str, ...]:
    state = facts.instance.state
    return (
        str(facts.binaries / "kubelet"),
        f"--config={state}/kubelet.yaml",
        f"--kubeconfig={state}/kubelet.kubeconfig",
        f"--hostname-override={facts.instance.name}",
        f"--node-ip={facts.subnet.node}",
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


def write(facts: NodeFacts) -> bool:
    """Write the certificates, kubeconfigs and configuration files of a node, and its plan.

    Returns:
        Whether the plan is another than before.
    """
    instance, state = facts.instance, facts.instance.state
    authority = Authority(instance.pki)
    credentials = control_plane.credentials(authority, ("127.0.0.1", facts.subnet.node))
    node = Subject(
        f"system:node:{instance.name}", ("system:nodes",), names=(instance.name,), addresses=(facts.subnet.node,)
    )
    kubelet = authority.issue("kubelet", node)
    inside = "https://127.0.0.1:6443"
    kubeconfigs.write(state / "kubelet.kubeconfig", inside, authority.certificate, kubelet)
    for name, subject in CLIENTS.items():
        pair = authority.issue(name, subject)
        kubeconfigs.write(state / f"{name}.kubeconfig", inside, authority.certificate, pair)
    kubeconfigs.write(
        instance.kubeconfig,
        f"https://{facts.subnet.node}:6443",
        authority.certificate,
        authority.issue("admin", ADMIN),
        context=instance.name_on_host,
    )
    for folder in ("cni", "log", "volume-plugins", "volumes"):
        (state / folder).mkdir(exist_ok=True)
    write_json(state / "kubelet.yaml", kubelet_configuration(facts, credentials))
    write_json(state / "cni" / "10-pods.conflist", pod_network(facts))
    (state / "containerd.toml").write_text(containerd_configuration(facts))
    candidates = [Path("/etc/resolv.conf"), Path("/run/systemd/resolve/resolv.conf")]
    (state / "resolv.conf").write_text(resolver([file.read_text() for file in candidates if file.exists()]))
    file = state / "plan.json"
    former = file.read_text() if file.exists() else ""
    write_json(file, plan(facts, credentials).to_json())
    return file.read_text() != former
