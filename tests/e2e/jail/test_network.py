"""Jobs find what their node set sets on a node, and reach nothing of the node below."""

from __future__ import annotations

import contextlib
import json
import shlex
import subprocess
from collections.abc import Iterator

import pytest

from components.control.network_policies import METADATA
from devcluster.node import node_cli

SECONDS = 60
PORT = 8089
ELSEWHERE = "192.0.2.7"
"""An address that nothing closes (RFC 5737)."""
CLOSED = [block.split("/")[0] for block in METADATA["0.0.0.0/0"] if block.endswith("/32")] + ["169.254.169.254"]
"""IPv4 addresses of clouds' metadata services. Pods of the dev cluster have no IPv6 (test_ipv6_policies)."""
KUBELET = 10250

# Says that it listens, and takes connections until its input ends.
LISTENER = f"""
import socket, sys, threading
listener = socket.create_server(("0.0.0.0", {PORT}))
print("listens", flush=True)
def serve():
    while True:
        listener.accept()[0].close()
threading.Thread(target=serve, daemon=True).start()
sys.stdin.read()
"""
# Prints which of the addresses in its argument answer.
CALLER = """
import concurrent.futures, json, socket, sys
def answers(address):
    try:
        socket.create_connection((address[0], address[1]), 3).close()
    except OSError:
        return False
    return True
asked = json.loads(sys.argv[1])
with concurrent.futures.ThreadPoolExecutor(16) as pool:
    print(json.dumps([address for address, open_ in zip(asked, pool.map(answers, asked)) if open_]))
"""


def test_a_job_finds_what_nccl_is_told_on_its_node_however_it_is_started(slurm):
    told = "NCCL_SOCKET_IFNAME=eth0"
    assert slurm.sh("srun -N2 cat /etc/nccl.conf").ok().splitlines() == [told, told]
    written = slurm.sh("sbatch --wait -o told.out --wrap 'cat /etc/nccl.conf' >/dev/null && cat told.out; rm told.out")
    assert written.ok() == told
    assert slurm.sh("cat /etc/nccl.conf 2>/dev/null").text.strip() == "", "a login node is no node of the set"


def test_shared_memory_and_temporary_files_have_their_sizes(slurm):
    size = "df --block-size=1M --output=size /dev/shm /tmp | tail -2"
    assert slurm.sh(f"srun -N1 sh -c '{size}'").ok().split() == ["96", "128"]


@pytest.fixture
def node_network(slurm) -> Iterator[list[str]]:
    """Start of a command in the network of the Kubernetes node, which listens at clouds' metadata addresses."""
    parts = node_cli.status(slurm.cluster.instance).components
    kubelet = next(each.state.pid for each in parts if each.state.name == "kubelet")
    enter = ["nsenter", "--target", str(kubelet), "--net"]

    def addresses(verb: str) -> None:
        for address in (*CLOSED, ELSEWHERE):
            subprocess.run([*enter, "ip", "address", verb, f"{address}/32", "dev", "lo"], check=True, timeout=SECONDS)

    with contextlib.ExitStack() as stack:
        stack.callback(addresses, "del")
        addresses("add")
        listener = subprocess.Popen(
            [*enter, "python3", "-c", LISTENER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        stack.enter_context(listener)
        assert listener.stdout is not None
        assert listener.stdout.readline() == "listens\n"
        yield enter


def test_no_job_or_login_reaches_metadata_services_or_the_kubelet(slurm, node_network):
    addresses = slurm.get("nodes")["items"][0]["status"]["addresses"]
    node = next(each["address"] for each in addresses if each["type"] == "InternalIP")
    allowed = [[node, PORT], [ELSEWHERE, PORT]]
    closed = [[node, KUBELET], *([address, PORT] for address in CLOSED)]
    asked = json.dumps([*allowed, *closed])

    here = [*node_network, "python3", "-c", CALLER, asked]
    found = json.loads(subprocess.run(here, check=True, capture_output=True, text=True, timeout=SECONDS).stdout)
    assert found == [*allowed, *closed], "nothing listens: this test would show nothing"

    call = shlex.join(["python3", "-c", CALLER, asked])
    for place, line in {"a login": call, "a job": f"srun -n1 {call}", "sudo": f"srun -n1 sudo {call}"}.items():
        assert json.loads(slurm.sh(line).ok()) == allowed, place
