"""Writes the plan of a node, with its certificates, kubeconfigs and configuration files."""

from __future__ import annotations

from pathlib import Path

from devcluster.apiserver import control_plane, kubeconfigs
from devcluster.apiserver.control_plane import ADMIN
from devcluster.apiserver.pki import Authority, Subject
from devcluster.node.instance import write_json
from devcluster.node.plan import components, files
from devcluster.node.plan.facts import NodeFacts

CLIENTS = {
    "controller-manager": Subject("system:kube-controller-manager"),
    "scheduler": Subject("system:kube-scheduler"),
    "proxy": Subject("system:kube-proxy"),
    # Controllers that run beside the node, in place of a cloud's own.
    "devcluster": Subject("devcluster", groups=("system:masters",)),
}


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
    write_json(state / "kubelet.yaml", files.kubelet_configuration(facts, credentials))
    write_json(state / "cni" / "10-pods.conflist", files.pod_network(facts))
    (state / "containerd.toml").write_text(files.containerd_configuration(facts))
    candidates = [Path("/etc/resolv.conf"), Path("/run/systemd/resolve/resolv.conf")]
    (state / "resolv.conf").write_text(files.resolver([file.read_text() for file in candidates if file.exists()]))
    file = state / "plan.json"
    former = file.read_text() if file.exists() else ""
    write_json(file, components.plan(facts, credentials).to_json())
    return file.read_text() != former
