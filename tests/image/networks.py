"""Networks of a small cluster's pods: one for all, and one of its own for a second worker: slurmd has one port."""

from __future__ import annotations

import subprocess

# An address that is not the loopback's: resolvers take names for unusable without one.
ADDRESS = "10.77.0.1"
_BRIDGE = f"ip link add net0 type bridge && ip address add {ADDRESS}/24 dev net0 && ip link set net0 up"
# A kernel without bridges, as small virtual machines have it, has all of a cluster on one node.
_COMMON = f"{{ {_BRIDGE} || ip address add {ADDRESS}/32 dev lo; }}"
_HOLD = "ip link set lo up && {} && echo up; exec cat"


class Networks:
    """Network namespaces, each held by a process of its own; together they are one network without a way out."""

    def __init__(self) -> None:
        self._common = _held(_COMMON)
        self._own: dict[str, subprocess.Popen[bytes]] = {}

    def holder(self, pod: str) -> int:
        """The process whose network a pod has."""
        return self._own.get(pod, self._common).pid

    def add(self, pod: str, address: str) -> None:
        """Gives a pod that is not there yet a network and an address of its own."""
        own = self._own[pod] = _held("true")
        link = f"ip link add {pod} type veth peer name eth0 netns {own.pid} && ip link set {pod} master net0 up"
        _run(*self.command(self._common.pid), "sh", "-c", link)
        up = f"ip address add {address}/24 dev eth0 && ip link set eth0 up"
        _run(*self.command(own.pid), "sh", "-c", up)

    def command(self, holder: int) -> list[str]:
        """Return what a command begins with that is to run in a network."""
        return ["nsenter", "-t", str(holder), "--net"]

    def close(self) -> None:
        """Ends them."""
        for process in (*self._own.values(), self._common):
            process.kill()
            process.wait()


def _held(script: str) -> subprocess.Popen[bytes]:
    holder = subprocess.Popen(
        ["unshare", "--net", "sh", "-c", _HOLD.format(script)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert holder.stdout is not None
    assert holder.stdout.readline() == b"up\n"
    return holder


def _run(*command: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
