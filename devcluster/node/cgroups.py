"""The cgroups of an instance: one below the root of each hierarchy, which is removed as a whole.

`<root>/pulumi-slurm-NAME/node` holds the node's own processes, `.../supervisor` its supervisor, and the kubelet makes
`.../kubepods` (its `cgroupRoot`).
"""

from __future__ import annotations

import contextlib
import os
import time
from pathlib import Path

REMOVE_SECONDS = 20
INSTANCE_WEIGHT = 2
"""Weight of an instance, as times that of one process outside, for each core: it is a whole cluster."""
NODE_WEIGHT = 4
"""Weight of the node's own processes among those of the instance, for each core; the kubelet gives pods 1 for each.

Short of cores, a pod runs before its address has come to everyone who has to know it. Policies refuse it until then.
"""
_WEIGHTS = (("cpu.shares", 1024, 1 << 18), ("cpu.weight", 100, 10_000))
"""File of cgroup v1 and of v2, its value for one process, and the largest one."""


def hierarchies(mounts: str) -> list[Path]:
    """Return the mount points of cgroup hierarchies, from the text of /proc/mounts; v1 ones and the v2 one."""
    fields = (line.split() for line in mounts.splitlines())
    return list(dict.fromkeys(Path(field[1]) for field in fields if field[2] in {"cgroup", "cgroup2"}))


def here() -> list[Path]:
    """Return the hierarchies of this machine."""
    return hierarchies(Path("/proc/mounts").read_text())


def create(name: str, process_groups: tuple[str, ...]) -> None:
    """Make the cgroup `name` in each hierarchy, with these children for processes. The first has the node's own."""
    cores = os.cpu_count() or 1
    for root in here():
        group = root / name
        for child in (group, *(group / name for name in process_groups)):
            child.mkdir(exist_ok=True)
        if (root / "cgroup.controllers").exists():
            # v2: a controller works in a child only when each ancestor hands it down. Groups with children may then
            # hold no processes themselves, which is why node and supervisor are children.
            for parent in (root, group):
                _hand_down_controllers(parent)
        else:
            for child in (group, *(group / name for name in process_groups)):
                _copy_cpuset(child)
        _weigh(group, INSTANCE_WEIGHT * cores)
        _weigh(group / process_groups[0], NODE_WEIGHT * cores)


def enter(name: str, child: str, process: int) -> None:
    """Move a process (all its threads) into a child of `name` in each hierarchy."""
    for root in here():
        (root / name / child / "cgroup.procs").write_text(str(process))


def leave(process: int) -> None:
    """Move a process back to each hierarchy's root."""
    for root in here():
        (root / "cgroup.procs").write_text(str(process))


def members(name: str) -> set[int]:
    """Return the pids of all processes in `name` and below, in any hierarchy."""
    return {
        int(pid)
        for root in here()
        for folder, _, _ in os.walk(root / name)
        for pid in _read(Path(folder) / "cgroup.procs").split()
    }


def remove(name: str) -> list[Path]:
    """Remove `name` and all below it, from each hierarchy; wait for ending processes to leave.

    Returns:
        The folders that could not be removed.
    """
    left: list[Path] = []
    deadline = time.monotonic() + REMOVE_SECONDS
    while True:
        left = [folder for root in here() if (folder := root / name).is_dir() and not _remove_tree(folder)]
        if not left or time.monotonic() > deadline:
            return left
        time.sleep(0.05)  # Nothing tells when the kernel has let the last process go.


def _remove_tree(folder: Path) -> bool:
    for path, _, _ in os.walk(folder, topdown=False):
        with contextlib.suppress(OSError):
            Path(path).rmdir()
    return not folder.exists()


def _weigh(folder: Path, times: int) -> None:
    """Give a group the weight of so many processes, if this hierarchy shares out the cores."""
    for file, one, largest in _WEIGHTS:
        if (folder / file).exists():
            (folder / file).write_text(str(min(times * one, largest)))


def _copy_cpuset(folder: Path) -> None:
    # A new v1 cpuset is empty, and no process can enter an empty one.
    for file in ("cpuset.cpus", "cpuset.mems"):
        if (folder / file).exists() and not _read(folder / file).strip():
            (folder / file).write_text(_read(folder.parent / file))


def _hand_down_controllers(folder: Path) -> None:
    for controller in _read(folder / "cgroup.controllers").split():
        # Some can't be handed down (rdma, misc in containers); the kubelet names those that it misses.
        with contextlib.suppress(OSError):
            (folder / "cgroup.subtree_control").write_text(f"+{controller}")


def _read(file: Path) -> str:
    try:
        return file.read_text()
    except (FileNotFoundError, OSError):
        return ""
