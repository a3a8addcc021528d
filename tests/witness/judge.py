"""Judges the lines of witnesses (witness.c), without knowing how they came to be."""

from __future__ import annotations

import os
import re
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

KEPT = (0, 1, 3, 4, 5, 6, 7, 18, 29, 31)
"""CHOWN, DAC_OVERRIDE, FOWNER, FSETID, KILL, SETGID, SETUID, SYS_CHROOT, AUDIT_WRITE, SETFCAP: those of jail.c."""
KEPT_MASK = sum(1 << bit for bit in KEPT)
FILTER = "2"
"""Seccomp's mode with a filter, in /proc/PID/status."""
COVERED = ("/run/secrets", "/mnt/jail", "/run/jail", "/run/slurm-node")
"""Mount points of the pod."""
SHOWN = {
    "/": re.compile(r"/opt/slurm"),
    "/run": re.compile(r"/slurm/door|/slurm/conf|/slurm-node/nccl\.conf"),
    "/var/spool/slurmd": re.compile(r"/job\d+"),
}
"""Place of a file system in the pod → what of it jobs are shown; of the spool, the folder of the job's own script."""
FIRST = ("job_init", "su")
"""Process 1 of a job, and of start-up files that slurmd has read before the job exists (native/login/su.c)."""
SETS = ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb")
ORDINARY_DEVICES = {
    "c:1:3": "null", "c:1:5": "zero", "c:1:7": "full", "c:1:8": "random", "c:1:9": "urandom", "c:5:0": "tty",
}  # fmt: skip
"""Type and numbers of devices that every job has → name (Documentation/admin-guide/devices.txt of Linux)."""
PSEUDO_TERMINALS = range(136, 144)
"""Major numbers of /dev/pts."""
SHOWS_POD = "yes"
OF_THE_POD = {
    "the map of slurmstepd": re.compile(rb"^[0-9a-f]+-[0-9a-f]+ .*slurmstepd$", re.MULTILINE),
    "the worker's process 1": re.compile(rb"slurm_node\0worker"),
    "the pod's environment": re.compile(rb"SLURM_NODE=\{"),
}
"""Name → pattern of the pod's own data, which no job may read."""


@dataclass(frozen=True)
class Node:
    """Facts about a pod, seen from outside.

    Args:
        pid: name of the namespace of its processes, as /proc/PID/ns/pid reads.
        ipc: the same of its System V and POSIX IPC.
        user: the same of its users.
        is_login: whether users' processes may be in those, as on a login node.
        filters: how many filters of system calls its process 1 has, by its container's runtime.
        devices: device number of each file system of its own, as st_dev → its place in the pod.
    """

    pid: str
    ipc: str
    user: str
    is_login: bool
    filters: int
    devices: Mapping[int, str]


@dataclass(frozen=True)
class Roots:
    """Roots in which a user's process may be, each as ``DEVICE:INODE``.

    Args:
        jail: the jail's.
        container: of an image, for processes in a user namespace of a container.
    """

    jail: str
    container: str = ""

    @property
    def device(self) -> int:
        """Return the device number of the jail's file system, as st_dev."""
        return int(self.jail.partition(":")[0])


@dataclass(frozen=True)
class Mount:
    """A mount, as a line of /proc/self/mountinfo has it.

    Args:
        number: names it.
        parent: the one in which it is.
        device: of its file system, as st_dev.
        root: the part of its file system that it shows.
        path: its place.
    """

    number: int
    parent: int
    device: int
    root: str
    path: str


@dataclass(frozen=True)
class Line:
    """A line of a witness: each name has all of its values."""

    values: dict[str, tuple[str, ...]] = field(default_factory=dict)

    def one(self, name: str) -> str:
        """The value of a name, or nothing."""
        return next(iter(self.values.get(name, ())), "")

    def all(self, name: str) -> tuple[str, ...]:
        """All values of a name."""
        return self.values.get(name, ())

    @property
    def who(self) -> str:
        """Return which process it is, for a reader."""
        return f"{self.one('label')} as {self.one('as')} ({self.one('exe')}, uid {self.one('uid')})"


def read(text: str) -> list[Line]:
    """The lines of a witness's file."""
    lines = []
    for row in text.splitlines():
        found: dict[str, list[str]] = defaultdict(list)
        for word in row.split():
            name, _, value = word.partition("=")
            found[name].append(value)
        lines.append(Line({name: tuple(values) for name, values in found.items()}))
    return lines


def _capabilities(line: Line) -> Iterable[str]:
    for name in SETS:
        held = int(line.one(name) or "-1", 16)
        if held < 0:
            yield f"does not tell its {name}"
        elif held & ~KEPT_MASK:
            yield f"{name} {held:x} has more than a job keeps"


def _namespaces(line: Line, nodes: Iterable[Node]) -> Iterable[str]:
    for node in nodes:
        if node.is_login:
            continue
        if line.one("pid") == node.pid:
            yield "is among the processes of the worker pod"
        if line.one("ipc") == node.ipc:
            yield "has the IPC of the worker pod"
    if len(line.one("NSpid").split("?")) > 1:
        yield f"has a /proc of other processes ({line.one('NSpid')})"


def _first_process(line: Line, nodes: Iterable[Node]) -> Iterable[str]:
    logins = {node.pid for node in nodes if node.is_login}
    if line.one("pid") not in logins and line.one("first") not in FIRST:
        yield f"process 1 is {line.one('first') or 'not to be seen'}, not the job's"


def _root(line: Line, root: str) -> Iterable[str]:
    device_and_inode, _, shows = line.one("root").rpartition(":")
    if device_and_inode != root or shows == SHOWS_POD:
        yield f"its root is {line.one('root')}, not the jail"


def _folders(line: Line) -> Iterable[str]:
    for name in ("cwd", "descriptor", "thread", "first_root"):
        if any(value.endswith(f":{SHOWS_POD}") for value in line.all(name)):
            yield f"a {name} of it shows the pod's files"
    for value in line.all("mount"):
        path, kind, mode = value.rsplit(":", 2)
        if path.startswith(COVERED):
            yield f"sees the pod's mount {path}"
        if mode == "rw" and (kind.startswith("cgroup") or path.startswith("/sys/fs/cgroup")):
            yield f"can write the cgroups at {path}"


def visible(words: Iterable[str]) -> list[Mount]:
    """Return the mounts that no other one covers.

    Args:
        words: of a witness, as ``NUMBER:PARENT:MAJOR:MINOR:ROOT:PATH``.
    """
    mounts: dict[int, Mount] = {}
    for word in words:
        number, parent, major, minor, root, path = word.split(":", 5)
        device = os.makedev(int(major), int(minor))
        mounts[int(number)] = Mount(int(number), int(parent), device, root, path)

    def lies_on(upper: Mount) -> Mount | None:
        parent = mounts.get(upper.parent)
        return parent if parent and parent.path == upper.path else None

    covered = {lower.number for upper in mounts.values() if (lower := lies_on(upper))}

    def is_hidden(mount: Mount) -> bool:
        return mount.number in covered or has_hidden_place(mount)

    def has_hidden_place(mount: Mount) -> bool:
        if lower := lies_on(mount):
            return has_hidden_place(lower)
        parent = mounts.get(mount.parent)
        return parent is not None and is_hidden(parent)

    return [mount for mount in mounts.values() if not is_hidden(mount)]


def _file_systems(line: Line, nodes: Iterable[Node], jail: int) -> Iterable[str]:
    """Faults of files that lie on a file system of a pod's own, and not on the jail's."""
    places = {device: path for node in nodes for device, path in node.devices.items() if device != jail}
    for name in ("cwd", "descriptor", "thread", "first_root"):
        for value in line.all(name):
            if place := places.get(int(value.partition(":")[0])):
                yield f"a {name} of it is on the file system of the pod's {place}"
    for mount in visible(line.all("source")):
        place = places.get(mount.device, "")
        if place and not (place in SHOWN and SHOWN[place].fullmatch(mount.root)):
            yield f"sees {mount.root} of the pod's {place} at {mount.path}"


def _filters(line: Line, nodes: Iterable[Node]) -> Iterable[str]:
    of_pods = max((node.filters for node in nodes), default=0)
    if line.one("Seccomp") != FILTER:
        yield "has no filter of system calls"
    elif int(line.one("Seccomp_filters") or 0) <= of_pods:
        yield "has no filter of system calls but its pod's"


def _devices(line: Line) -> Iterable[str]:
    for value in line.all("device"):
        kind, major, minor, name = value.split(":", 3)
        is_terminal = kind == "c" and int(major) in PSEUDO_TERMINALS
        if not is_terminal and f"{kind}:{major}:{minor}" not in ORDINARY_DEVICES:
            yield f"has the device {name} ({kind} {major}:{minor}) open"


def faults(line: Line, nodes: Iterable[Node], roots: Roots) -> list[str]:
    """Return what a process had that no process of a user may have.

    A process in a user namespace of its own, such as a rootless container, may have all capabilities there. It may have
    an image as its root, and its own process 1. Everything else is judged as for other processes.

    Args:
        line: what it told.
        nodes: the pods.
        roots: where it may be.
    """
    nodes = list(nodes)
    found = [*_namespaces(line, nodes), *_folders(line), *_file_systems(line, nodes, roots.device)]
    found += [*_devices(line), *_filters(line, nodes)]
    if line.one("whole") != "yes":
        found.append("had more to tell than its line holds")
    if line.one("user") in {node.user for node in nodes}:
        return [*found, *_capabilities(line), *_first_process(line, nodes), *_root(line, roots.jail)]
    if line.one("root").startswith(f"{roots.container}:") and not line.one("root").endswith(f":{SHOWS_POD}"):
        return found
    return [*found, *_root(line, roots.jail)]


def verdict(lines: Iterable[Line], nodes: Iterable[Node], roots: Roots) -> list[str]:
    """One sentence for each fault of each process."""
    nodes = list(nodes)
    return [f"{line.who}: {fault}" for line in lines for fault in faults(line, nodes, roots)]


def shown(output: bytes, key: bytes) -> list[str]:
    """Return what of the pod's a line's output shows.

    Args:
        output: what it printed.
        key: what slurm.key holds.
    """
    patterns = {"slurm.key": re.compile(re.escape(key)), **OF_THE_POD}
    return [what for what, pattern in patterns.items() if pattern.search(output)]
