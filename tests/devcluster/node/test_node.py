from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest

from devcluster.machine.progress import StepFailed
from devcluster.node import containerd, node_cli
from devcluster.node.instance import enter_command
from devcluster.node.plan import components
from devcluster.node.supervision import ComponentState
from tests.devcluster.node_under_test import IMAGE, Node, eventually, fetch, in_namespace, probe_pod

pytestmark = pytest.mark.e2e


def stateful_set(name: str, replicas: int) -> list[dict[str, Any]]:
    pod = probe_pod(name)
    return [
        {
            "apiVersion": "apps/v1",
            "kind": "StatefulSet",
            "metadata": {"name": name},
            "spec": {
                "serviceName": name,
                "replicas": replicas,
                "podManagementPolicy": "Parallel",
                "selector": {"matchLabels": {"app": name}},
                "template": {"metadata": pod["metadata"], "spec": pod["spec"]},
            },
        },
        {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": {"name": name},
            "spec": {"selector": {"app": name}, "type": "NodePort", "ports": [{"port": 80, "targetPort": 8080}]},
        },
        {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": {"name": f"{name}-each"},
            "spec": {"selector": {"app": name}, "clusterIP": "None", "ports": [{"port": 8080}]},
        },
    ]


def test_a_service_balances_over_a_stateful_set(node: Node, namespace: str) -> None:
    node.apply(*in_namespace(namespace, *stateful_set("web", 3), probe_pod("client")))
    node.kubectl("rollout", "status", "-n", namespace, "statefulset/web", "--timeout=60s")
    node.kubectl("wait", "-n", namespace, "--for=condition=Ready", "pod/client", "--timeout=60s")

    answered: set[str] = set()

    def all_answered() -> bool:
        answered.add(
            node.run_in(namespace, "client", "get", f"http://web.{namespace}.svc.cluster.local").stdout.strip()
        )
        return answered >= {"web-0", "web-1", "web-2"}  # an empty answer: the service was not balanced yet

    eventually(all_answered, "each pod answers once")


def test_a_node_port_answers_on_the_host(node: Node, namespace: str) -> None:
    node.apply(*in_namespace(namespace, *stateful_set("web", 1)))
    node.kubectl("rollout", "status", "-n", namespace, "statefulset/web", "--timeout=60s")
    port = node.get("-n", namespace, "service", "web")["spec"]["ports"][0]["nodePort"]
    url = f"http://{node_cli.address(node.instance)}:{port}"

    eventually(lambda: fetch(url) == "web-0\n", url)


def test_a_name_outside_the_cluster_that_does_not_exist_is_said_not_to(node: Node, namespace: str) -> None:
    node.apply(*in_namespace(namespace, probe_pod("client")))
    node.kubectl("wait", "-n", namespace, "--for=condition=Ready", "pod/client", "--timeout=60s")

    asked = node.run_in(namespace, "client", "lookup", f"missing.{namespace}.svc.cluster.local")

    assert "no such host" in asked.stderr


def test_a_pod_reaches_the_api_server(node: Node, namespace: str) -> None:
    node.apply(*in_namespace(namespace, probe_pod("client")))
    node.kubectl("wait", "-n", namespace, "--for=condition=Ready", "pod/client", "--timeout=60s")

    asked = node.run_in(namespace, "client", "get", "https://kubernetes.default.svc")

    # It was reached: what it shows is not known to a pod without its authority.
    assert "certificate" in asked.stderr


def claim(name: str, mode: str) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": name},
        "spec": {"accessModes": [mode], "resources": {"requests": {"storage": "1Gi"}}},
    }


def pod_with(name: str, claimed: str, **spec: Any) -> dict[str, Any]:
    return probe_pod(
        name,
        container={"volumeMounts": [{"name": "data", "mountPath": "/data"}], **spec.pop("container", {})},
        volumes=[{"name": "data", "persistentVolumeClaim": {"claimName": claimed}}],
        **spec,
    )


def test_two_pods_share_a_claim_and_its_folder_goes_with_it(node: Node, namespace: str) -> None:
    node.apply(
        *in_namespace(namespace, claim("shared", "ReadWriteMany"), pod_with("a", "shared"), pod_with("b", "shared"))
    )
    node.kubectl("wait", "-n", namespace, "--for=condition=Ready", "pod/a", "pod/b", "--timeout=60s")
    folder = node.instance.volumes / node.get("-n", namespace, "pvc", "shared")["spec"]["volumeName"]

    node.run_in(namespace, "a", "write", "/data/file", "from a").check_returncode()
    assert node.run_in(namespace, "b", "read", "/data/file").stdout == "from a"

    node.kubectl("delete", "-n", namespace, "pod", "a", "b", "--wait")
    assert (folder / "file").read_text() == "from a"
    node.kubectl("delete", "-n", namespace, "pvc", "shared", "--wait")
    eventually(lambda: not folder.exists(), f"{folder} is gone")


def test_a_volume_takes_the_pods_fs_group(node: Node, namespace: str) -> None:
    pod = pod_with("a", "own", securityContext={"runAsUser": 64030, "runAsGroup": 64030, "fsGroup": 64030})
    node.apply(*in_namespace(namespace, claim("own", "ReadWriteOnce"), pod))
    node.kubectl("wait", "-n", namespace, "--for=condition=Ready", "pod/a", "--timeout=60s")

    node.run_in(namespace, "a", "write", "/data/file", "x").check_returncode()

    folder = node.instance.volumes / node.get("-n", namespace, "pvc", "own")["spec"]["volumeName"]
    assert ((folder / "file").stat().st_uid, (folder / "file").stat().st_gid) == (64030, 64030)


def test_a_crashed_component_is_named_and_restarted(node: Node) -> None:
    def states() -> dict[str, ComponentState]:
        return {report.state.name: report.state for report in node_cli.status(node.instance).components}

    before = states()
    killed = before["kube-scheduler"]
    assert killed.pid
    os.kill(killed.pid, signal.SIGKILL)

    def restarted() -> bool:
        after = states()["kube-scheduler"]
        return after.restarts == killed.restarts + 1 and after.pid not in {None, killed.pid}

    eventually(restarted, "kube-scheduler is started again")
    after = states()
    assert "SIGKILL" in after["kube-scheduler"].last_exit
    assert after["etcd"].restarts == before["etcd"].restarts


def test_loading_the_same_archive_again_does_nothing(node: Node, probe: Path) -> None:
    first = containerd.load_image(node.instance, probe)
    log = node.instance.logs / "containerd.log"
    size = log.stat().st_size

    assert containerd.load_image(node.instance, probe) == first == [IMAGE]
    assert "ImageCreate" not in log.read_bytes()[size:].decode()


def test_a_file_that_is_no_image_is_refused_in_words(node: Node, tmp_path: Path) -> None:
    archive = tmp_path / "not-an-image.tar"
    archive.write_text("no")

    with pytest.raises(StepFailed, match=r"not-an-image\.tar"):
        containerd.load_image(node.instance, archive)


def test_an_image_that_takes_too_long_is_given_up_in_words(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    archive = tmp_path / "large.tar"
    archive.touch()
    monkeypatch.setattr(containerd, "IMPORT_SECONDS", 0.1)
    ctr = ["sh", "-c", 'test "$2" = ls || exec sleep 30', "ctr"]

    with pytest.raises(StepFailed, match=r"large\.tar took more than 0\.1 s"):
        containerd.load(archive, tmp_path / containerd.RECORD, ctr)


def test_starting_what_runs_changes_nothing(node: Node, binaries: Path) -> None:
    before = node_cli.status(node.instance)

    node_cli.start(node.instance, binaries)

    pids = [[report.state.pid for report in status.components] for status in (before, node_cli.status(node.instance))]
    assert pids[0] == pids[1]


def test_starting_a_running_node_anew_restarts_only_what_changed(
    node: Node, binaries: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def pids() -> dict[str, int | None]:
        return {report.state.name: report.state.pid for report in node_cli.status(node.instance).components}

    own = {"storage", "network-policy", "load-balancer", "fake-gpus"}

    def start_and_wait() -> None:
        former = pids()
        node_cli.start(node.instance, binaries)

        def own_programs_restarted() -> bool:
            after = pids()
            return all(after[name] not in {None, former[name]} for name in own)

        eventually(own_programs_restarted, "the dev cluster's own programs run their new code")

    before = pids()
    crashes_before = {r.state.name: r.state.restarts for r in node_cli.status(node.instance).components}
    try:
        with monkeypatch.context() as patch:
            patch.setattr(components, "OWN_FILES", ("controllers/informer.py",))
            start_and_wait()
        after = pids()
        assert {name for name in before if before[name] != after[name]} == own
        crashes = {r.state.name: r.state.restarts for r in node_cli.status(node.instance).components}
        assert {name: crashes[name] for name in own} == {name: crashes_before[name] for name in own}
    finally:
        # The other tests' node is as it was.
        start_and_wait()


def test_a_command_inside_sees_the_nodes_network(node: Node) -> None:
    command = enter_command(node.instance, ["ip", "-brief", "addr", "show", "eth0"])

    seen = subprocess.run(command, capture_output=True, text=True, timeout=20, check=True).stdout

    assert node_cli.address(node.instance) in seen


def test_pods_live_on_when_every_program_of_the_node_crashes(node: Node, namespace: str) -> None:
    node.apply(*in_namespace(namespace, *stateful_set("web", 1), probe_pod("client")))
    node.kubectl("rollout", "status", "-n", namespace, "statefulset/web", "--timeout=60s")
    node.kubectl("wait", "-n", namespace, "--for=condition=Ready", "pod/client", "--timeout=60s")
    before = {report.state.name: report.state for report in node_cli.status(node.instance).components}

    for state in before.values():
        assert state.pid
        os.kill(state.pid, signal.SIGKILL)

    def all_run_again() -> bool:
        after = {report.state.name: report.state for report in node_cli.status(node.instance).components}
        return all(after[name].pid not in {None, state.pid} for name, state in before.items())

    eventually(all_run_again, "every component is started again")

    def serves() -> bool:
        asked = node.run_in(namespace, "client", "get", f"http://web.{namespace}.svc.cluster.local")
        return asked.stdout == "web-0\n"

    eventually(serves, "the Service answers again", 90)
    pods = node.get("-n", namespace, "pods")["items"]
    assert [status["restartCount"] for pod in pods for status in pod["status"]["containerStatuses"]] == [0, 0]
    node.apply(*in_namespace(namespace, probe_pod("new")))
    node.kubectl("wait", "-n", namespace, "--for=condition=Ready", "pod/new", "--timeout=90s")
