"""The components of a node: their command lines, in order of start. Pure, but that it reads its own programs."""

from __future__ import annotations

import hashlib
import json
import sys

from devcluster.apiserver import control_plane
from devcluster.apiserver.control_plane import Credentials, Ports
from devcluster.node.plan import files
from devcluster.node.plan.facts import POD_NETWORK, NodeFacts
from devcluster.node.supervision import Component, NodePlan, Probe

OWN_FILES = (
    "controllers/storage.py", "controllers/network_policy.py", "controllers/policy_rules.py",
    "controllers/load_balancer.py", "controllers/informer.py",
    "fakes/gpus.py", "fakes/device_plugin_api.py", "fakes/gpu_scenario.py", "fakes/nvidia_smi", "fakes/gpu_tools",
    "fakes/nvml/nvml.c", "fakes/nvml/scenario.c", "fakes/nvml/scenario.h",
)  # fmt: skip


def plan(facts: NodeFacts, credentials: Credentials) -> NodePlan:
    """Return the components in order of start, and what the init prepares for them."""
    state = facts.instance.state
    return NodePlan(
        name=facts.instance.name,
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
        components=[*_kubernetes(facts, credentials), *_own_programs(facts)],
    )


def _kubernetes(facts: NodeFacts, credentials: Credentials) -> list[Component]:
    """Return etcd, Kubernetes' programs and containerd, in order of start."""
    state, binary, ports = facts.instance.state, facts.binaries, Ports()
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
    return [
        Component(
            "etcd",
            tuple(control_plane.etcd_command(binary / "etcd", state / "etcd", ports)),
            probe=Probe(("127.0.0.1", ports.etcd)),
        ),
        Component("kube-apiserver", tuple(api), probe=api_probe),
        Component(
            "containerd",
            (str(facts.containerd), "--config", str(state / "containerd.toml")),
            _digest(files.containerd_configuration(facts)),
        ),
        Component("kube-controller-manager", _controller_manager(facts, credentials)),
        Component("kube-scheduler", _scheduler(facts)),
        Component("kubelet", _kubelet(facts), _digest(json.dumps(files.kubelet_configuration(facts, credentials)))),
        Component("kube-proxy", _proxy(facts)),
    ]


def _own_programs(facts: NodeFacts) -> list[Component]:
    """Return what stands for a cloud's controllers and for GPUs."""
    kubeconfig = str(facts.instance.state / "devcluster.kubeconfig")
    volumes, name = str(facts.instance.volumes), facts.instance.name
    return [
        _own_program(facts, "controllers.storage", kubeconfig, volumes, name),
        _own_program(facts, "controllers.network_policy", kubeconfig),
        _own_program(facts, "controllers.load_balancer", kubeconfig, facts.subnet.node),
        _own_program(facts, "fakes.gpus", str(facts.instance.state / "fake-gpus")),
    ]


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


def _scheduler(facts: NodeFacts) -> tuple[str, ...]:
    state = facts.instance.state
    return (
        str(facts.binaries / "kube-scheduler"),
        f"--kubeconfig={state}/scheduler.kubeconfig",
        f"--authentication-kubeconfig={state}/scheduler.kubeconfig",
        f"--authorization-kubeconfig={state}/scheduler.kubeconfig",
        "--leader-elect=false",
    )


def _proxy(facts: NodeFacts) -> tuple[str, ...]:
    return (
        str(facts.binaries / "kube-proxy"),
        f"--kubeconfig={facts.instance.state}/proxy.kubeconfig",
        "--proxy-mode=iptables",
        f"--cluster-cidr={POD_NETWORK}",
        f"--hostname-override={facts.instance.name}",
        "--conntrack-max-per-core=0",
        "--nodeport-addresses=primary",
        "--oom-score-adj=0",
    )
