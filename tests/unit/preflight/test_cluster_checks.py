"""Checks that ask Kubernetes before the plan, and warnings where it cannot be asked."""

from __future__ import annotations

import base64
import json
import ssl
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import certifi
import httpx
import pulumi
import pytest

from components.config import Config, ConfigurationError, parse
from components.kubernetes import configured_cluster, kubeconfig
from components.kubernetes.kubernetes_reader import UnreachableError
from components.preflight import cluster_checks, storage_advice
from components.preflight.gpu_checks import ClusterState, KubernetesNode, Taint, problems
from tests.unit.effects.gres_effects import FPGA, MIG
from tests.unit.samples import GPU_SET, changed

PRODUCT = {"nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3"}
STORAGE: dict[str, Any] = {
    "metadata": {"name": "shared"},
    "provisioner": "nfs.csi.k8s.io",
    "mountOptions": ["hard", "nfsvers=4.1"],
}
GPU_TAINT = Taint("nvidia.com/gpu", "", "NoSchedule")


def h100(count: int = 8, **more: Any) -> KubernetesNode:
    return KubernetesNode("node-a", **{"labels": PRODUCT, "allocatable": {"nvidia.com/gpu": count}, **more})


def seen(*nodes: KubernetesNode, classes: tuple[str, ...] = ("nvidia",)) -> ClusterState:
    return ClusterState(nodes, frozenset(classes))


def config(gpus: Any = None, **more: Any) -> Config:
    own = {**GPU_SET, "replicas": 2, **more, "gpus": {"type": "h100", "perNode": 8, **(gpus or {})}}
    return parse(changed("checks.cluster", True, changed("nodeSets", [own])))


TOLERATION = {"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}


@pytest.mark.parametrize(
    ("wanted", "there"),
    [
        (config(), seen(h100(), h100())),
        (config({"perNode": 4}), seen(h100())),
        (config({"runtimeClass": "none"}), seen(h100(), h100(), classes=())),
        (config(tolerations=[TOLERATION]), seen(h100(taints=(GPU_TAINT,)), h100())),
        (config(tolerations=[{"operator": "Exists"}]), seen(h100(taints=(GPU_TAINT,)), h100())),
        (config(), seen(h100(taints=(Taint("a", "b", "PreferNoSchedule"),)), h100())),
        # Labels come from feature discovery, which may not run.
        (config(), seen(h100(labels={}), h100(labels={}))),
        (config({"type": "a100", "devices": "/dev/nvidia[0-7]"}), seen(h100(), h100())),
        (config(nodeSelector=PRODUCT), seen(h100(), h100(), KubernetesNode("cpu"))),
        (config({"perNode": 6, "more": [{"type": "l40s", "perNode": 2}]}), seen(h100(), h100())),
        (config({"type": "l40s", "perNode": 6, "more": [{"type": "h100", "perNode": 2}]}), seen(h100(), h100())),
        (config(gres=[FPGA]), seen(*[h100(allocatable={"nvidia.com/gpu": 8, "x.com/fpga": 2})] * 2)),
    ],
)
def test_nodes_that_offer_enough_are_no_problem(wanted: Config, there: ClusterState) -> None:
    assert problems(wanted, there) == []


@pytest.mark.parametrize(
    ("wanted", "there", "text"),
    [
        (config(), seen(h100(4), h100(4)), "nodeSets[0].gpus.perNode: got 8; want at most 4: no node that the set may"),
        (config(), seen(h100(), h100(4)), "nodeSets[0].replicas: got 2; want at most 1: 1 nodes offer 8 or more"),
        (
            config({"more": [{"type": "l40s", "perNode": 2}]}),
            seen(h100(), h100()),
            "nodeSets[0].gpus.perNode: got 10; want at most 8: no node that the set may use offers more nvidia.com/gpu",
        ),
        (
            config({"devices": "/dev/nvidia[0-7]", "more": [MIG]}),
            seen(h100(), h100()),
            "nodeSets[0].gpus.more[0].perNode: got 3; want at most 0: no node that the set may use offers more nvidia",
        ),
        (
            config(gres=[FPGA]),
            seen(h100(), h100()),
            "nodeSets[0].gres[0].perNode: got 2; want at most 0: no node that the set may use offers more x.com/fpga",
        ),
        (
            config(gres=[FPGA]),
            seen(h100(allocatable={"nvidia.com/gpu": 8, "x.com/fpga": 2}), h100(16)),
            "nodeSets[0].replicas: got 2; want at most 1: 1 nodes offer 8 or more nvidia.com/gpu and 2 or more x.com",
        ),
        (config(), seen(KubernetesNode("cpu")), "gpus.perNode: got 8; want at most 0: no node"),
        (config(), seen(), "nodeSets[0].nodeSelector: got {}; want labels, and tolerations, that fit a node; of 0 in"),
        (config(nodeSelector={"pool": "x"}), seen(h100()), "of 1 in Kubernetes none does"),
        (config(), seen(h100(taints=(GPU_TAINT,))), "of 1 in Kubernetes none does"),
        (
            config(tolerations=[{**TOLERATION, "operator": "Equal", "value": "other"}]),
            seen(h100(taints=(GPU_TAINT,))),
            "of 1 in Kubernetes none does",
        ),
        (
            config(),
            seen(h100(), h100(), classes=("runc", "nvidia-cdi")),
            "gpus.runtimeClass: got 'nvidia'; want a RuntimeClass that Kubernetes has; there are: nvidia-cdi, runc",
        ),
        (
            config({"type": "a100"}),
            seen(h100(), h100()),
            "gpus.type: got 'a100'; want a part of the product's name that the nodes' label nvidia.com/gpu.product "
            "says: nvidia_h100_80gb_hbm3",
        ),
    ],
)
def test_what_is_missing_is_told_with_its_path(wanted: Config, there: ClusterState, text: str) -> None:
    (problem,) = problems(wanted, there)
    assert text in str(problem)


def test_a_hyphen_of_a_type_is_one_of_the_products_name() -> None:
    """The label has hyphens for spaces, too: NVIDIA-A100-SXM4-80GB."""
    a100 = h100(labels={"nvidia.com/gpu.product": "NVIDIA-A100-SXM4-80GB"})
    assert problems(config({"type": "a100-sxm4-80gb"}), seen(a100, a100)) == []


def test_a_node_is_read_as_the_api_gives_it() -> None:
    item = {
        "metadata": {"name": "a", "labels": PRODUCT},
        "spec": {"taints": [{"key": "nvidia.com/gpu", "effect": "NoSchedule"}]},
        "status": {"allocatable": {"nvidia.com/gpu": "8", "memory": "2055Mi", "cpu": "127500m"}},
    }
    expected = KubernetesNode("a", PRODUCT, {"nvidia.com/gpu": 8}, (GPU_TAINT,))
    assert cluster_checks.node(item) == expected


def test_everything_that_is_missing_stops_the_program() -> None:
    with pytest.raises(ConfigurationError, match=r"2 errors .* nothing was changed"):
        cluster_checks.run(config({"type": "a100"}), lambda _: seen(h100(), h100(), classes=()))


def test_a_cluster_that_cannot_be_asked_is_a_warning(monkeypatch: pytest.MonkeyPatch) -> None:
    warned: list[str] = []
    monkeypatch.setattr(pulumi.log, "warn", warned.append)

    def unreachable(_: Config) -> ClusterState:
        raise UnreachableError("no answer in 5 s")

    cluster_checks.run(config(), unreachable)
    assert warned == [
        "checks.cluster: whether nodes offer the devices that are asked for is not known: no answer in 5 s"
    ]


@pytest.mark.parametrize("path", ["checks.cluster", "nodeSets.0.gpus"])
def test_nothing_is_asked_when_there_is_nothing_to_check(path: str) -> None:
    raw = changed("nodeSets", [GPU_SET], changed("checks.cluster", True))

    def never(_: Config) -> ClusterState:
        raise AssertionError("asked")

    raw = changed("jail.storage.existingClaim", "mine", raw)
    cluster_checks.run(parse(changed(path, False if path.startswith("checks") else None, raw)), never)


def test_a_cluster_that_does_not_answer_is_given_up_after_the_deadline() -> None:
    gate = threading.Event()

    def hanging(_: httpx.Client) -> bool:
        return gate.wait(60)

    try:
        with pytest.raises(UnreachableError, match="no answer in"):
            configured_cluster.answer(with_kubeconfig(file("http://127.0.0.1:1")), hanging, seconds=0.1)
    finally:
        gate.set()


def test_who_may_not_list_storage_classes_gets_no_advice_and_no_warning(server: str) -> None:
    user = {"token": "of a role for nodes alone"}
    assert cluster_checks.read(with_kubeconfig(file(server, **user))).storage_classes == ()


class _Api(BaseHTTPRequestHandler):
    """An API server with one GPU node, for those who have the token."""

    def do_GET(self) -> None:
        limited = self.headers["Authorization"] == "Bearer of a role for nodes alone"
        known = limited or self.headers["Authorization"] == "Bearer hunter2"
        items = [{"metadata": {"name": "a"}, "status": {"allocatable": {"nvidia.com/gpu": "8"}}}]
        if self.path.endswith("runtimeclasses"):
            items = [{"metadata": {"name": "nvidia"}}]
        if self.path.endswith("storageclasses"):
            known, items = not limited and known, [STORAGE]
        self.send_response(200 if known else 403)
        self.end_headers()
        self.wfile.write(json.dumps({"items": items}).encode())

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing."""


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    api = ThreadingHTTPServer(("127.0.0.1", 0), _Api)
    threading.Thread(target=api.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{api.server_address[1]}"
    api.shutdown()


def file(server: str, **user: Any) -> dict[str, Any]:
    return {
        "current-context": "one",
        "contexts": [{"name": "one", "context": {"cluster": "c", "user": "u"}}],
        "clusters": [{"name": "c", "cluster": {"server": server}}],
        "users": [{"name": "u", "user": user}],
    }


def with_kubeconfig(content: dict[str, Any]) -> Config:
    raw = changed("kubernetes.kubeconfig", json.dumps(content, indent=1), changed("nodeSets", [GPU_SET]))
    return parse(raw)


def test_the_cluster_is_asked_with_a_token(server: str) -> None:
    found = cluster_checks.read(with_kubeconfig(file(server, token="hunter2")))
    node, storage = KubernetesNode("a", {}, {"nvidia.com/gpu": 8}, ()), storage_advice.storage_class(STORAGE)
    assert found == ClusterState((node,), frozenset({"nvidia"}), (storage,))


def test_the_cluster_is_asked_with_a_credential_plugin(server: str) -> None:
    answer = json.dumps({"status": {"token": "hunter2"}})
    plugin = {"apiVersion": "client.authentication.k8s.io/v1", "command": "echo", "args": [answer]}
    assert cluster_checks.read(with_kubeconfig(file(server, exec=plugin))).nodes


def test_a_kubeconfig_file_is_found_where_kubectl_finds_it(
    server: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "token").write_text("hunter2\n")
    (tmp_path / "config").write_text(json.dumps(file(server, tokenFile="token")))
    monkeypatch.setenv("KUBECONFIG", f"{tmp_path}/none:{tmp_path}/config")
    assert kubeconfig.read(None, None).headers == {"Authorization": "Bearer hunter2"}


@pytest.mark.parametrize(
    ("user", "text"),
    [
        ({}, "the API server answers 403 to a list of nodes"),
        ({"token": "wrong"}, "the API server answers 403 to a list of nodes"),
        ({"exec": {"apiVersion": "v1", "command": "/no/such"}}, "the credential plugin /no/such failed"),
        ({"client-certificate": "/no/such"}, "the kubeconfig cannot be read"),
        ({"client-key-data": base64.b64encode(b"x").decode() + "!"}, ""),
    ],
)
def test_why_it_cannot_be_asked_is_told_without_secrets(server: str, user: dict[str, Any], text: str) -> None:
    with pytest.raises(UnreachableError) as failure:
        cluster_checks.read(with_kubeconfig(file(server, **user)))
    assert text in str(failure.value)
    assert "wrong" not in str(failure.value)


@pytest.mark.parametrize("content", ["", "[]", "a: b\n", "contexts: 1\nx: y\n", "{\n", "\n"])
def test_a_broken_kubeconfig_is_no_traceback(content: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "config").write_text(content)
    with pytest.raises(kubeconfig.KubeconfigError):
        kubeconfig.read(str(tmp_path / "config"), None)


def test_a_pod_without_a_kubeconfig_uses_its_service_account(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kubeconfig, "_SERVICE_ACCOUNT", tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("KUBECONFIG", raising=False)
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "fd00::1")
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", "443")
    with pytest.raises(kubeconfig.KubeconfigError, match="no kubeconfig"):
        kubeconfig.read(None, None)
    (tmp_path / "token").write_text("hunter2\n")
    (tmp_path / "ca.crt").write_text(Path(ssl.get_default_verify_paths().cafile or certifi.where()).read_text())
    found = kubeconfig.read(None, None)
    assert (found.server, found.headers) == ("https://[fd00::1]:443", {"Authorization": "Bearer hunter2"})


def test_a_kubeconfigs_proxy_is_used(server: str) -> None:
    content = file("http://kubernetes.example", token="hunter2")
    content["clusters"][0]["cluster"]["proxy-url"] = server
    # A proxy is asked for the whole URL, which this one does not tell from a path of its own.
    assert cluster_checks.read(with_kubeconfig(content)).nodes
