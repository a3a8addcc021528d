"""Checks the jail's /dev/shm, through which MPI and NCCL pass data inside a node."""

import os
import stat
from dataclasses import dataclass

from contract import paths, reasons
from node_health.check import Check, Machine
from node_health.sources import mounts
from node_health.verdict import Finding, fails, passes

SHOWN = "/dev/shm"  # noqa: S108 - the mount point that is looked at; nothing is made there
PLACE = f"{paths.JAIL_TREE}{SHOWN}"
MODE = 0o1777
MIB = 1024**2


@dataclass(frozen=True, slots=True)
class SharedMemory:
    """Type of its file system (empty: nothing is mounted), mode, and size in MiB."""

    kind: str
    mode: int
    size_mib: int


def look(machine: Machine) -> SharedMemory:
    """Reads what is mounted at /dev/shm."""
    mount = machine.once(mounts.look).get(PLACE)
    place = machine.path(PLACE)
    facts = os.statvfs(place)
    size = facts.f_blocks * facts.f_frsize // MIB
    return SharedMemory(mount.kind if mount else "", stat.S_IMODE(place.stat().st_mode), size)


def judge(shared: SharedMemory, machine: Machine) -> Finding:
    """FAIL when it is no tmpfs, not for everybody, or smaller than declared."""
    if shared.kind != "tmpfs":
        return fails(f"{SHOWN} is {f'a {shared.kind}' if shared.kind else 'no mount'}, not a tmpfs")
    if shared.mode != MODE:
        return fails(f"{SHOWN} has mode {shared.mode:o}, not {MODE:o}")
    if shared.size_mib < machine.declared.shm_mib:
        return fails(f"{SHOWN} has {shared.size_mib} MiB, {machine.declared.shm_mib} MiB declared")
    return passes(f"{SHOWN} has {shared.size_mib} MiB")


CHECK = Check(
    reasons.Check.SHARED_MEMORY,
    look,
    judge,
    fails="the jail's /dev/shm is no tmpfs, not open to everybody, or smaller than declared",
    warns="",
    remedy="restart the pod",
)
