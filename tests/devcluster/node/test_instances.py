"""Promises of an instance as a whole: it is alone, it ends completely, it comes back."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from devcluster.machine.bootstrap import CHECKOUT
from devcluster.node import cgroups, links, node_cli, processes
from devcluster.node.instance import Instance, all_instances
from tests.devcluster.node_under_test import Node, eventually, in_namespace, probe_pod

pytestmark = pytest.mark.e2e

SIDE_BY_SIDE_SECONDS = int(os.environ.get("PULUMI_SLURM_SIDE_BY_SIDE_SECONDS", "60"))

OWNER = """
import os, sys, time
from pathlib import Path
from devcluster.node import node_cli
from devcluster.node.instance import Instance
node_cli.start(Instance.named(sys.argv[1]), Path(sys.argv[2]), owner=os.getpid())
print("started", flush=True)
time.sleep(600)
"""


def remains(instance: Instance, pids: set[int]) -> list[str]:
    """Return what of an instance is still on the machine."""
    mounts = Path("/proc/mounts").read_text().splitlines()
    tables = subprocess.run(["nft", "list", "tables"], capture_output=True, text=True, timeout=20, check=True).stdout
    legacy = subprocess.run(["iptables-save"], capture_output=True, text=True, timeout=20, check=True).stdout
    return [
        *(f"process {pid}" for pid in sorted(pids) if processes.runs(pid)),
        *(f"cgroup {folder}" for root in cgroups.here() if (folder := root / instance.name_on_host).exists()),
        *(f"mount {line}" for line in mounts if str(instance.state) in line),
        *(f"link {name}" for name in (links.host_end(instance), links.node_end(instance)) if _link_exists(name)),
        *(f"table {line}" for line in tables.splitlines() if instance.name_on_host in line),
        *(f"rule {line}" for line in legacy.splitlines() if "KUBE" in line),
    ]


def _link_exists(name: str) -> bool:
    return Path(f"/sys/class/net/{name}").exists()


def pids_of(node: Node) -> set[int]:
    runtime = node.instance.runtime()
    assert runtime
    return {runtime.supervisor} | processes.descendants(runtime.supervisor)


@contextlib.contextmanager
def bridge(name: str, address: str) -> Iterator[None]:
    """A network interface of somebody else's on the host."""
    links.run("ip", "link", "add", name, "type", "bridge")
    try:
        links.run("ip", "addr", "add", address, "dev", name)
        links.run("ip", "link", "set", name, "up")
        yield
    finally:
        links.run("ip", "link", "delete", name)


def serve(node: Node) -> None:
    service = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "web"},
        "spec": {"selector": {"app": "web"}, "ports": [{"port": 80, "targetPort": 8080}]},
    }
    node.kubectl("wait", "-n", "default", "--for=create", "serviceaccount/default", "--timeout=30s")
    node.apply(*in_namespace("default", probe_pod("web"), probe_pod("client"), service))
    node.kubectl("wait", "--for=condition=Ready", "pod/web", "pod/client", "--timeout=60s")
    eventually(lambda: serves(node), f"the Service of {node.instance.name} answers")


def serves(node: Node) -> bool:
    return node.run_in("default", "client", "get", "http://web.default.svc.cluster.local").stdout == "web\n"


@pytest.mark.timeout(600)
def test_two_instances_live_side_by_side_and_a_killed_one_leaves_nothing(start_node: Callable[[str], Node]) -> None:
    first, second = start_node("first"), start_node("second")
    assert node_cli.address(first.instance) != node_cli.address(second.instance)
    for each in (first, second):
        serve(each)

    # Each node's programs make their passes over foreign iptables chains and cgroups in this time.
    end = time.monotonic() + SIDE_BY_SIDE_SECONDS
    while time.monotonic() < end:
        for each in (first, second):
            assert serves(each), each.instance.name
        time.sleep(1)  # Each look starts programs in two pods, on cores that other tests share.
    for each in (first, second):
        restarts = {
            c["name"]: c["restartCount"] for p in each.get("pods")["items"] for c in p["status"]["containerStatuses"]
        }
        assert set(restarts.values()) == {0}

    pids = pids_of(first)
    assert len(pids) > 10
    runtime = first.instance.runtime()
    assert runtime
    os.kill(runtime.init, signal.SIGKILL)
    eventually(lambda: not remains(first.instance, pids), "the killed instance is gone", 30)
    assert serves(second)

    pids = pids_of(second)
    node_cli.stop(second.instance)
    assert remains(second.instance, pids) == []


@pytest.mark.timeout(300)
def test_an_instance_ends_with_its_killed_supervisor_and_the_next_command_removes_the_rest(
    start_node: Callable[[str], Node],
) -> None:
    node = start_node("kept")
    serve(node)
    pids = pids_of(node)
    runtime = node.instance.runtime()
    assert runtime

    os.kill(runtime.supervisor, signal.SIGKILL)
    eventually(lambda: not any(processes.runs(pid) for pid in pids), "all processes ended", 30)
    node_cli.stop(node.instance)

    assert remains(node.instance, pids) == []


@pytest.mark.timeout(300)
def test_an_instance_ends_with_the_process_that_it_belongs_to(
    start_node: Callable[[str], Node], binaries: Path
) -> None:
    # The fixture's state root stands in the environment.
    owner = subprocess.Popen(
        [sys.executable, "-c", OWNER, "owned", binaries], cwd=CHECKOUT, stdout=subprocess.PIPE, text=True
    )
    instance = Instance.named("owned")
    try:
        assert owner.stdout
        assert owner.stdout.readline() == "started\n"
        pids = pids_of(Node(instance, binaries))
        owner.kill()
        owner.wait(10)
        eventually(lambda: not remains(instance, pids), "the instance of a killed process is gone", 40)
    finally:
        owner.kill()
        owner.wait(10)
        node_cli.remove(instance)


@pytest.mark.timeout(300)
def test_a_stopped_instance_comes_back_with_its_files_and_names_who_took_its_subnet(
    start_node: Callable[[str], Node], capsys: pytest.CaptureFixture[str]
) -> None:
    node = start_node("back")
    claim = {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": "data"},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
    }
    pod = probe_pod(
        "keeper",
        container={"volumeMounts": [{"name": "data", "mountPath": "/data"}]},
        volumes=[{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}],
    )
    node.kubectl("wait", "-n", "default", "--for=create", "serviceaccount/default", "--timeout=30s")
    node.apply(*in_namespace("default", claim, pod))
    node.kubectl("wait", "--for=condition=Ready", "pod/keeper", "--timeout=60s")
    node.run_in("default", "keeper", "write", "/data/file", "still here").check_returncode()

    node_cli.stop(node.instance)
    assert node_cli.status(node.instance).running is False
    former = links.Subnet.parse(node.instance.description().subnet)
    taker = f"taker{os.getpid()}"
    with bridge(taker, f"{former.host}/30"):
        again = start_node("back")
    assert taker in capsys.readouterr().err
    assert node_cli.address(again.instance) != former.node

    eventually(
        lambda: again.run_in("default", "keeper", "read", "/data/file").stdout == "still here", "the pod is back"
    )


def test_an_instance_is_listed_until_it_is_removed(start_node: Callable[[str], Node]) -> None:
    node = start_node("listed")
    assert "listed" in [each.name for each in all_instances()]
    pids = pids_of(node)

    node_cli.remove(node.instance)

    assert "listed" not in [each.name for each in all_instances()]
    assert not node.instance.state.exists()
    assert remains(node.instance, pids) == []
