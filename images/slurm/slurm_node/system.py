"""The few system calls that Python's standard library lacks."""

import ctypes
import os
from enum import IntFlag
from pathlib import Path

_LIBC = ctypes.CDLL(None, use_errno=True)


class MountFlag(IntFlag):
    """Flags of mount(2), from linux/mount.h."""

    RDONLY = 1
    NOSUID = 2
    NODEV = 4
    NOEXEC = 8
    REMOUNT = 32
    BIND = 4096
    REC = 16384
    PRIVATE = 1 << 18


def mount(source: str, target: Path, kind: str = "", flags: int = 0, data: str = "") -> None:
    """Mounts a file system, a bind or new flags.

    Raises:
        OSError: with the target and the kernel's reason.
    """
    arguments = (source.encode(), os.fsencode(target), kind.encode() or None)
    if _LIBC.mount(*arguments, ctypes.c_ulong(flags), data.encode() or None) != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"mount {source} on {target}: {os.strerror(number)}")


def is_mount_point(path: Path) -> bool:
    """Tells whether something is mounted at a path; a bind of the same file system counts, unlike in pathlib."""
    escaped = str(path).replace(" ", "\\040")
    return any(line.split()[4] == escaped for line in Path("/proc/self/mountinfo").read_text().splitlines())
