"""Checks free space: in the jail, in the node's /tmp and /dev/shm, and where slurmd puts jobs' scripts."""

from collections.abc import Mapping
from pathlib import Path

from contract import paths, reasons
from node_health.check import Check, Machine
from node_health.sources import file_systems
from node_health.sources.file_systems import Room
from node_health.verdict import Finding, Verdict, passes, worst_of

SHARED = {"the jail": Path(paths.JAIL_TREE)}
"""The jail is full for all nodes alike. A drain would repair nothing, and one user could drain the whole cluster."""
OWN = {
    "/tmp": Path(paths.JAIL_TREE, "tmp"),  # noqa: S108 - a name for users, where no file is made
    "/dev/shm": Path(paths.JAIL_TREE, "dev/shm"),  # noqa: S108 - a name for users, where no file is made
    "slurmd's spool": Path(paths.SPOOL_DIR),
}


def look(machine: Machine) -> dict[str, Room]:
    """Reads the file systems, under the names that users know."""
    return {name: file_systems.room(machine.path(path)) for name, path in {**SHARED, **OWN}.items()}


def judge(rooms: Mapping[str, Room], machine: Machine) -> Finding:
    """FAIL when one of the node's own file systems is full, WARNING when the shared one is."""
    return worst_of(_judge(name, room, machine.declared.least_free_percent) for name, room in rooms.items())


def _judge(name: str, room: Room, least_percent: int) -> Finding:
    if lacking := room.lacks(least_percent):
        return Finding(Verdict.WARNING if name in SHARED else Verdict.FAIL, f"{name} has {lacking}")
    return passes(f"{name} has {room}")


CHECK = Check(
    reasons.Check.SPACE,
    look,
    judge,
    fails="the node's /tmp, /dev/shm or slurmd's spool has less free than `health.leastFreePercent` (bytes or files)",
    warns="the jail has less: it is full for all nodes alike, and a drain would repair nothing",
    remedy="delete files there, or declare a larger jail.tmpSize or jail.storage.size",
)
