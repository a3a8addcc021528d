"""Checks that the node's own file systems take a file: a disk with errors is often still there, but read-only.

In the jail nobody writes for this: all nodes share it, and many would load it. Its mount tells whether it is read-only.
"""

import errno
import os
from collections.abc import Mapping
from pathlib import Path

from contract import paths, reasons
from node_health.check import Check, Machine
from node_health.sources import file_systems
from node_health.verdict import Finding, fails, passes

PLACES = {
    "/tmp": Path(paths.JAIL_TREE, "tmp"),  # noqa: S108 - of the jail
    "/dev/shm": Path(paths.JAIL_TREE, "dev/shm"),  # noqa: S108 - of the jail
    "slurmd's spool": Path(paths.SPOOL_DIR),
}
FULL = frozenset({errno.ENOSPC, errno.EDQUOT})
"""A full file system is the check `space`'s."""
CONTENT = b"node-health"


def look(machine: Machine) -> dict[str, str]:
    """Writes a file to each and reads it; returns why that failed, empty if it did not."""
    jail = file_systems.room(machine.path(paths.JAIL_TREE))
    return {
        "the jail": os.strerror(errno.EROFS) if jail.read_only else "",
        **{name: _try(machine.path(path)) for name, path in PLACES.items()},
    }


def judge(failed: Mapping[str, str], machine: Machine) -> Finding:
    """FAIL when one can't be written."""
    if bad := [f"{name} can't be written: {why}" for name, why in failed.items() if why]:
        return fails("; ".join(bad))
    return passes(f"{', '.join(PLACES)} take files, and the jail is not read-only")


def _try(folder: Path) -> str:
    # Users may write to /tmp, and could plant a file or link of a name that they know.
    file = folder / f".node-health-{os.urandom(8).hex()}"
    try:
        opened = os.open(file, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
        try:
            file.unlink()
            os.write(opened, CONTENT)
            os.fsync(opened)
            if os.pread(opened, len(CONTENT), 0) != CONTENT:
                return "it returned other content than was written"
        finally:
            os.close(opened)
    except OSError as error:
        return "" if error.errno in FULL else str(error.strerror)
    return ""


CHECK = Check(
    reasons.Check.WRITABLE,
    look,
    judge,
    fails="the node's /tmp, /dev/shm or slurmd's spool is read-only or has I/O errors, or the jail is read-only",
    warns="",
    remedy="look for errors of the disk in the Kubernetes node's kernel log, and replace it",
)
