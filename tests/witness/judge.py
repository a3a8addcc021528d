"""What a witness (witness.c) may have seen: judges its lines, knows nothing of how they came to be."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field

KEPT = (0, 1, 3, 4, 5, 6, 7, 18, 29, 31)
"""CHOWN, DAC_OVERRIDE, FOWNER, FSETID, KILL, SETGID, SETUID, SYS_CHROOT, AUDIT_WRITE, SETFCAP: those of jail.c."""
KEPT_MASK = sum(1 << bit for bit in KEPT)
FILTER = "2"
"""Seccomp's mode with a filter, in /proc/PID/status."""
COVERED = ("/run/secrets", "/mnt/jail", "/run/jail", "/run/slurm-node")
"""Mount points of the pod."""
SETS = ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb")
SHOWS_POD = "yes"


@dataclass(frozen=True)
class Node:
    """What is true of a pod, seen from outside.

    Args:
        pid: name of the namespace of its processes, as /proc/PID/ns/pid reads.
        ipc: the same of its System V and POSIX IPC.
        is_login: whether users' processes may be in those, as on a login node.
    """

    pid: str
    ipc: str
    is_login: bool


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
        """Which process it is, for a reader."""
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


def _rights(line: Line) -> Iterable[str]:
    for name in SETS:
        held = int(line.one(name) or "-1", 16)
        if held < 0:
            yield f"does not tell its {name}"
        elif held & ~KEPT_MASK:
            yield f"{name} {held:x} has more than a job keeps"
    if line.one("Seccomp") != FILTER:
        yield "has no filter of system calls"


def _namespaces(line: Line, nodes: Iterable[Node]) -> Iterable[str]:
    for node in nodes:
        if node.is_login:
            continue
        if line.one("pid") == node.pid:
            yield "is among the processes of the worker pod"
        if line.one("ipc") == node.ipc:
            yield "has the IPC of the worker pod"
    logins = {node.pid for node in nodes if node.is_login}
    if line.one("pid") not in logins and line.one("first") != "job_init":
        yield f"process 1 is {line.one('first') or 'not to be seen'}, not the job's"
    if len(line.one("NSpid").split("?")) > 1:
        yield f"has a /proc of other processes ({line.one('NSpid')})"


def _folders(line: Line, root: str) -> Iterable[str]:
    device_and_inode, _, shows = line.one("root").rpartition(":")
    if device_and_inode != root or shows == SHOWS_POD:
        yield f"its root is {line.one('root')}, not the jail"
    for name in ("descriptor", "thread", "first_root"):
        if any(value.endswith(f":{SHOWS_POD}") for value in line.all(name)):
            yield f"a {name} of it shows the pod's files"
    for value in line.all("mount"):
        path, kind, mode = value.rsplit(":", 2)
        if path.startswith(COVERED):
            yield f"sees the pod's mount {path}"
        if mode == "rw" and (kind.startswith("cgroup") or path.startswith("/sys/fs/cgroup")):
            yield f"can write the cgroups at {path}"


def faults(line: Line, nodes: Iterable[Node], root: str) -> list[str]:
    """What a process had that no process of a user may have.

    Args:
        line: what it told.
        nodes: the pods.
        root: device and inode of the jail's root, as ``DEVICE:INODE``.
    """
    nodes = list(nodes)
    return [*_rights(line), *_namespaces(line, nodes), *_folders(line, root)]


def verdict(lines: Iterable[Line], nodes: Iterable[Node], root: str) -> list[str]:
    """One sentence for each fault of each process."""
    nodes = list(nodes)
    return [f"{line.who}: {fault}" for line in lines for fault in faults(line, nodes, root)]
