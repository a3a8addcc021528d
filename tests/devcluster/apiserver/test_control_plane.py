from __future__ import annotations

import random
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from devcluster.apiserver import control_plane
from devcluster.apiserver.control_plane import ApiServer
from devcluster.machine.bootstrap import CHECKOUT
from devcluster.machine.progress import StepFailed
from devcluster.node import node_cli, processes
from devcluster.standin import kubeconfig

HOLDER = """
import sys, time
from pathlib import Path
from devcluster.node import processes
from devcluster.apiserver.control_plane import ApiServer
with ApiServer(Path(sys.argv[1]), Path(sys.argv[2])) as api:
    print(*(process.pid for process in api._processes.values()), flush=True)
    time.sleep(600)
"""


@pytest.mark.apiserver
def test_the_api_server_answers_kubectl_with_its_kubeconfig(apiserver: ApiServer, binaries: Path) -> None:
    answer = subprocess.run(
        [binaries / "kubectl", "--kubeconfig", apiserver.kubeconfig, "get", "namespaces", "-o", "name"],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )

    assert "namespace/default" in answer.stdout


@pytest.mark.apiserver
def test_a_list_is_read_without_kubectl_and_what_is_none_is_told(apiserver: ApiServer) -> None:
    access = kubeconfig.read(str(apiserver.kubeconfig))
    assert "default" in {each["metadata"]["name"] for each in node_cli.listed(access, "/api/v1/namespaces")}
    with pytest.raises(StepFailed, match="/api/v1/nothing: HTTP Error 404"):
        node_cli.listed(access, "/api/v1/nothing")


@pytest.mark.apiserver
def test_the_kubeconfig_is_readable_by_its_owner_only(apiserver: ApiServer) -> None:
    assert apiserver.kubeconfig.stat().st_mode & 0o777 == 0o600


def test_a_free_port_is_none_that_a_connection_may_take_a_moment_later() -> None:
    first_of_connections = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])

    ports = control_plane.free_ports(50)

    assert len(set(ports)) == 50
    assert max(ports) < first_of_connections


def test_a_port_on_which_somebody_listens_is_not_free(monkeypatch: pytest.MonkeyPatch) -> None:
    free, taken = control_plane.free_ports(2)
    monkeypatch.setattr(random, "sample", lambda ports, count: [taken, free])
    with socket.create_server(("127.0.0.1", taken)):
        assert control_plane.free_ports(1) == [free]


@pytest.mark.apiserver
@pytest.mark.parametrize(("taken", "program"), [(0, "etcd"), (2, "kube-apiserver")])
def test_a_port_that_was_taken_meanwhile_is_told_and_never_anothers_server_used(
    apiserver: ApiServer, tmp_path: Path, binaries: Path, monkeypatch: pytest.MonkeyPatch, taken: int, program: str
) -> None:
    """Two test runs at once may be given the same port: here it is the one of a whole API server."""
    command = apiserver._processes["etcd"].args
    etcd = next(word.rpartition(":")[2] for word in command if word.startswith("--listen-client-urls"))
    ports = control_plane.free_ports(3)
    ports[taken] = int(etcd if program == "etcd" else apiserver.url.rpartition(":")[2])
    monkeypatch.setattr(control_plane, "free_ports", lambda count: ports)

    with (
        pytest.raises(ChildProcessError, match=f"(?s){program} ended.*address already in use"),
        ApiServer(tmp_path, binaries),
    ):
        pass


@pytest.mark.apiserver
def test_a_killed_test_run_leaves_no_server(tmp_path: Path, binaries: Path) -> None:
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLDER, tmp_path, binaries],
        stdout=subprocess.PIPE,
        text=True,
        cwd=CHECKOUT,
    )
    assert holder.stdout
    pids = [int(word) for word in holder.stdout.readline().split()]
    assert len(pids) == 2

    holder.send_signal(signal.SIGKILL)
    holder.wait(10)

    deadline = time.monotonic() + 10
    while any(processes.runs(pid) for pid in pids):
        assert time.monotonic() < deadline, f"still running: {pids}"
        time.sleep(0.05)  # Nobody is told when processes end that are not his children.
