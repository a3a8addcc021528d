"""Over IPv6 users reach no metadata service and no kubelet: nftables decide between network namespaces."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

from components.config import parse
from components.control import network_policies
from components.control.network_policies import KUBELET_PORTS, METADATA
from components.kubernetes.manifest import labels
from devcluster.controllers.policy_rules import Pod, World, ruleset
from tests.unit.samples import SMALL

# Nothing else here can show that the rules hold; CI runs as root, a developer may not.
pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="makes network namespaces, which only root may")

CONFIG = parse(SMALL)
POD, ELSEWHERE, OPEN_PORT = "fd53:1::2", "fd53:2::2", 443
CLOSED = [block.removesuffix("/128") for block in METADATA["::/0"] if block.endswith("/128")]
# No address waits until nobody else turns out to have it.
ROUTER = f"""
sysctl -qw net.ipv6.conf.all.forwarding=1
ip link add pod type veth peer name eth0 netns {{pod}}
ip link add outside type veth peer name eth0 netns {{outside}}
ip address add fd53:1::1/64 dev pod nodad
ip address add fd53:2::1/64 dev outside nodad
ip link set pod up
ip link set outside up
{"".join(f"ip route add {address} via {ELSEWHERE}" + chr(10) for address in CLOSED)}"""
END = """
ip address add {address}/64 dev eth0 nodad
ip link set eth0 up
ip route add default via {router}
"""
ADDRESSES = "".join(f"ip address add {address}/128 dev eth0 nodad\n" for address in CLOSED)
SERVE = """
import select, socket, sys
ports = [socket.create_server(("::", int(port)), family=socket.AF_INET6) for port in sys.argv[1:]]
print("up", flush=True)
while True:
    for port in select.select(ports, [], [])[0]:
        port.accept()[0].close()
"""
CONNECT = """
import socket, sys
try:
    socket.create_connection((sys.argv[1], int(sys.argv[2])), timeout=5).close()
except OSError as error:
    sys.exit(type(error).__name__)
"""
Reaches = Callable[[str, int], bool]


def held(ends: ExitStack, *command: str) -> int:
    """Starts what says that it is up, and ends it with the test; returns its process."""
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    ends.callback(lambda: (process.kill(), process.communicate()))
    assert process.stdout
    assert process.stdout.readline() == "up\n"
    return process.pid


def inside(namespace: int, *command: str, given: str = "") -> subprocess.CompletedProcess[str]:
    whole = ["nsenter", "-t", str(namespace), "--net", *command]
    return subprocess.run(whole, input=given, capture_output=True, text=True, timeout=60, check=False)


@pytest.fixture(params=["worker", "login"])
def reaches(request: pytest.FixtureRequest) -> Iterator[Reaches]:
    """Says whether a pod of that component reaches a port at an address, with the policies enforced on its way."""
    with ExitStack() as ends:
        router, pod, outside = (
            held(ends, "unshare", "--net", "sh", "-c", "ip link set lo up; echo up; exec cat") for _ in range(3)
        )

        def script(namespace: int, text: str) -> None:
            done = inside(namespace, "sh", "-e", given=text)
            assert done.returncode == 0, done.stderr

        script(router, ROUTER.format(pod=pod, outside=outside))
        script(pod, END.format(address=POD, router="fd53:1::1"))
        script(outside, END.format(address=ELSEWHERE, router="fd53:2::1") + ADDRESSES)
        ports = [str(port) for port in (OPEN_PORT, *KUBELET_PORTS)]
        held(ends, "nsenter", "-t", str(outside), "--net", sys.executable, "-c", SERVE, *ports)

        def connects(address: str, port: int) -> bool:
            return inside(pod, sys.executable, "-c", CONNECT, address, str(port)).returncode == 0

        for address in (ELSEWHERE, *CLOSED):
            assert connects(address, OPEN_PORT), "without a policy it is open"
        component = str(request.param)
        world = World([Pod("slurm", "pod", POD, labels(CONFIG, component), {})], {"slurm": {}})
        policies = [manifest.body for manifest in network_policies.manifests(CONFIG)]
        for policy in policies:
            policy["metadata"]["namespace"] = "slurm"
        rules, refused = ruleset(world, policies)
        assert not refused
        enforced = inside(router, "nft", "-f", "-", given=rules)
        assert enforced.returncode == 0, enforced.stderr
        yield connects


def test_users_reach_other_addresses_but_no_metadata_service_and_no_kubelet(reaches: Reaches) -> None:
    assert reaches(ELSEWHERE, OPEN_PORT)
    assert [address for address in CLOSED if reaches(address, OPEN_PORT)] == []
    assert [port for port in KUBELET_PORTS if reaches(ELSEWHERE, port)] == []
