"""Tells whether this machine's own kernel can do what tests/vm needs.

Each feature is tried in namespaces that end with the test. So the kernel loads its modules from disk, as it does for a
mount. /proc/filesystems alone would not list nfsd on a machine that has never used it.
"""

from __future__ import annotations

import ctypes
import os
import subprocess
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from devcluster.vm import device_programs

HIERARCHY = Path("/sys/fs/cgroup")
CONTROLLERS = frozenset({"cpuset", "cpu", "memory", "pids", "io"})
FILE_SYSTEMS = ("nfs", "nfs4", "nfsd", "rpc_pipefs", "overlay", "fuse", "ext4")
_IN_NAMESPACES = ("unshare", "--net", "--mount", "--propagation", "private", "sh", "-ec")
_ANSWER_SECONDS = 20
_LIBC = ctypes.CDLL(None, use_errno=True)
# Of Linux on x86-64 (asm/unistd_64.h), the only architecture of the tests' unpacked programs.
_SYS_FSOPEN = 430
_FSOPEN_CLOEXEC = 1


@dataclass(frozen=True, slots=True)
class Need:
    """A feature that tests need: its name in a sentence, and whether this kernel has it."""

    words: str
    is_met: Callable[[], bool]


def lacking(hierarchy: Path = HIERARCHY, needs: Iterable[Need] | None = None) -> list[str]:
    """Return the features for the tests that this machine's kernel lacks; empty if they can run without a guest."""
    asked = NEEDS if needs is None else needs
    return [*_control_groups(hierarchy), *(need.words for need in asked if not need.is_met())]


def _control_groups(hierarchy: Path) -> list[str]:
    listed = hierarchy / "cgroup.controllers"
    controllers = set(listed.read_text().split()) if listed.exists() else set()
    if without := sorted(CONTROLLERS - controllers):
        return [f"cgroup v2 with the controllers {', '.join(without)}"]
    # Every group but the first has this file. A container can't enable controllers below its own group.
    if (hierarchy / "cgroup.type").exists() or not os.access(hierarchy, os.W_OK):
        return ["a cgroup v2 hierarchy that is the machine's (this is a container's part of one)"]
    return []


def has_file_system(name: str) -> bool:
    """Return whether the kernel knows a file system, after it has looked for a module (fsopen(2))."""
    descriptor: int = _LIBC.syscall(_SYS_FSOPEN, name.encode(), _FSOPEN_CLOEXEC)
    if descriptor < 0:
        return False
    os.close(descriptor)
    return True


def takes_device_programs() -> bool:
    """Return whether the kernel accepts an eBPF program for a control group's devices. This one allows all."""
    try:
        os.close(device_programs.load(device_programs.ALLOW_ALL))
    except OSError:
        return False
    return True


def can(script: str) -> bool:
    """Return whether a shell script succeeds in network and mount namespaces of its own."""
    try:
        done = subprocess.run(
            [*_IN_NAMESPACES, script],
            stdin=subprocess.DEVNULL, capture_output=True, timeout=_ANSWER_SECONDS, check=False,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return False
    return done.returncode == 0


def _file_system(name: str) -> Need:
    return Need(f"the file system {name}", lambda: has_file_system(name))


def _script(words: str, script: str) -> Need:
    return Need(words, lambda: can(script))


NEEDS = (
    *map(_file_system, FILE_SYSTEMS),
    _script("bridges", "ip link add name bridge0 type bridge"),
    _script("network links between namespaces (veth)", "ip link add name veth0 type veth peer name veth1"),
    _script("delays and losses in a network (netem)", "tc qdisc add dev lo root netem delay 1ms"),
    _script("loop devices", "losetup --find"),
    _script("the device of FUSE", "mount -t tmpfs devices /mnt; mknod /mnt/fuse c 10 229; : <> /mnt/fuse"),
    _script("the device of tunnels", "mount -t tmpfs devices /mnt; mknod /mnt/tun c 10 200; : <> /mnt/tun"),
    _script("user namespaces", "unshare --user true"),
    Need("eBPF programs for the devices of control groups", takes_device_programs),
)
"""Kernel features that tests/vm uses besides control groups."""
