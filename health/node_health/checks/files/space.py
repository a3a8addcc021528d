"""Checks free space: in the jail, in the node's /tmp, and where slurmd puts jobs' scripts."""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from contract import paths, reasons
from node_health.check import Check, Machine
from node_health.verdict import Finding, Verdict, passes, worst_of

SHARED = {"the jail": Path(paths.JAIL_TREE)}
"""The jail is full for all nodes alike. A drain would repair nothing, and one user could drain the whole cluster."""
OWN = {"/tmp": Path(paths.JAIL_TREE, "tmp"), "slurmd's spool": Path(paths.SPOOL_DIR)}  # noqa: S108 - looked at only


@dataclass(frozen=True, slots=True)
class Room:
    """A file system's size, and the free space for ordinary processes.

    Attributes:
        size: in bytes.
        free: in bytes.
        files: how many it can hold; 0 where it does not count them.
        files_free: how many more.
        shared: whether all nodes share it.
    """

    size: int
    free: int
    files: int = 0
    files_free: int = 0
    shared: bool = False


def look(machine: Machine) -> dict[str, Room]:
    """Reads the file systems, under the names that users know."""
    return {name: _room(machine.path(path), name in SHARED) for name, path in {**SHARED, **OWN}.items()}


def judge(rooms: Mapping[str, Room], machine: Machine) -> Finding:
    """FAIL when one of the node's own file systems is full, WARNING when the shared one is."""
    return worst_of(_judge(name, room, machine.declared.least_free_percent) for name, room in rooms.items())


def _room(path: Path, shared: bool) -> Room:
    facts = os.statvfs(path)
    unit = facts.f_frsize
    return Room(facts.f_blocks * unit, facts.f_bavail * unit, facts.f_files, facts.f_favail, shared)


def _judge(name: str, room: Room, least_percent: int) -> Finding:
    bad, least = Verdict.WARNING if room.shared else Verdict.FAIL, f"{name} has less than {least_percent} percent"
    if room.free * 100 < room.size * least_percent:
        return Finding(bad, f"{least} of its {_mib(room.size)} MiB free")
    if room.files and room.files_free * 100 < room.files * least_percent:
        return Finding(bad, f"{least} of its files free")
    return passes(f"{name} has {_mib(room.free)} of {_mib(room.size)} MiB free")


def _mib(size: int) -> int:
    return size // 1024**2


CHECK = Check(
    reasons.Check.SPACE,
    look,
    judge,
    fails="the node's /tmp or slurmd's spool has less free than `health.leastFreePercent` (bytes or files)",
    warns="the jail has less: it is full for all nodes alike, and a drain would repair nothing",
    remedy="delete files there, or declare a larger jail.tmpSize or jail.storage.size",
)
