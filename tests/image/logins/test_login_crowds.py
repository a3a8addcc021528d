"""The image's own sshd lets users in beside connections that have not logged in."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

from tests.image.networks import ADDRESS
from tests.image.pods import LOGIN
from tests.image.small_cluster import SmallCluster

LOGINS = 5
OF_ONE_ADDRESS = 100
"""PerSourceMaxStartups of sshd_config."""
WAIT = """
import socket, sys
count, own, server = int(sys.argv[1]), sys.argv[2], sys.argv[3]
waiting = []
for number in range(count):
    client = socket.socket()
    client.bind((own.format(number), 0))
    client.connect((server, 22))
    waiting.append(client)
print(sum(client.recv(4) == b"SSH-" for client in waiting), flush=True)
sys.stdin.read()
"""
Wait = Callable[[int, str, str], int]


@pytest.fixture
def wait(cluster: SmallCluster) -> Iterator[Wait]:
    """Has so many clients say nothing until the test's end, and says how many sshd took."""
    clients: list[subprocess.Popen[str]] = []

    def is_alone() -> bool:
        # sshd's own title counts the connections that have not logged in.
        seen = "cat /proc/[0-9]*/cmdline | tr '\\0' '\\n' | grep -q '^sshd: .*\\[listener\\] 0 of '"
        return cluster.pod(seen, name=LOGIN).returncode == 0

    def waiting(count: int, own: str, server: str) -> int:
        cluster.wait("no other client waits", is_alone, 60)
        command = cluster.in_network(sys.executable, "-c", WAIT, str(count), own, server)
        client = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        clients.append(client)
        assert client.stdout
        return int(client.stdout.readline())

    with ExitStack() as ends:
        ends.callback(lambda: [client.communicate(timeout=60) for client in clients])
        yield waiting


def log_in(cluster: SmallCluster) -> list[int]:
    return [cluster.ssh("true").returncode for _ in range(LOGINS)]


def test_one_address_whose_clients_say_nothing_keeps_no_other_out(cluster: SmallCluster, wait: Wait) -> None:
    """A user of the login node has all addresses of the loopback, which are one."""
    assert wait(2 * OF_ONE_ADDRESS + 50, "127.1.0.{}", "127.0.0.1") == OF_ONE_ADDRESS
    assert log_in(cluster) == [0] * LOGINS


def test_of_a_crowd_with_one_address_nobody_is_refused_by_chance(cluster: SmallCluster, wait: Wait) -> None:
    """Behind a Service all users may have one address; each types a password for some seconds."""
    assert wait(OF_ONE_ADDRESS - 2, ADDRESS, ADDRESS) == OF_ONE_ADDRESS - 2
    assert log_in(cluster) == [0] * LOGINS
