"""Processes as /proc shows them: parents, and what a process inside an instance is called on the host."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable
from pathlib import Path, PurePath


def parents() -> dict[int, int]:
    """Return each process and its parent."""
    parents_of: dict[int, int] = {}
    for folder in Path("/proc").iterdir():
        if not folder.name.isdigit():
            continue
        try:
            # The command's name, in parentheses, may hold anything: split behind its end.
            fields = (folder / "stat").read_text().rpartition(")")[2].split()
        except (FileNotFoundError, ProcessLookupError):
            continue
        parents_of[int(folder.name)] = int(fields[1])
    return parents_of


def runs(pid: int) -> bool:
    """Return whether a process exists and is not a zombie."""
    try:
        return (Path("/proc") / str(pid) / "stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def descendants(ancestor: int) -> set[int]:
    """Return all descendants of a process."""
    of = parents()
    known = {ancestor}
    while more := {pid for pid, parent in of.items() if parent in known} - known:
        known |= more
    return known - {ancestor}


def inside_to_host(init: int) -> dict[int, int]:
    """Return the pid inside the pid namespace whose first process is `init` → pid on the host."""
    on_host: dict[int, int] = {}
    for pid in {init} | descendants(init):
        try:
            lines = Path(f"/proc/{pid}/status").read_text().splitlines()
        except (FileNotFoundError, ProcessLookupError):
            continue
        numbers = next(line.split()[1:] for line in lines if line.startswith("NSpid:"))
        if len(numbers) == 2:
            on_host[int(numbers[1])] = pid
    return on_host


def of_pods(uids: Iterable[str], program: str) -> list[int]:
    """Return the processes of pods that have a program in their command line, with its folder or without.

    Args:
        uids: of the pods, as Kubernetes has them.
        program: a file's name, or a module's that Python runs.

    Returns:
        Pids as the host counts them.
    """
    groups, pids = [f"/pod{uid}/" for uid in uids], []
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            control_groups = (folder / "cgroup").read_text()
            if any(group in control_groups for group in groups):
                words = (folder / "cmdline").read_bytes().decode(errors="replace").split("\0")
                if any(PurePath(word).name == program for word in words):
                    pids.append(int(folder.name))
    return pids
