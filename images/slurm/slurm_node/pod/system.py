"""The few system calls that Python's standard library lacks."""

import ctypes
import errno
import os
import re
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from enum import IntFlag
from pathlib import Path

_LIBC = ctypes.CDLL(None, use_errno=True)
_OPEN_TREE, _MOVE_MOUNT, _OPENAT2, _MOUNT_SETATTR = 428, 429, 437, 442
"""Their numbers on every architecture, from asm-generic/unistd.h."""
_AT_FDCWD = -100
_AT_RECURSIVE, _AT_EMPTY_PATH = 0x8000, 0x1000
_OPEN_TREE_CLONE, _FROM_DESCRIPTOR, _FOLLOW_TARGET = 1, 0x04, 0x10
_MNT_DETACH = 2
"""From linux/fcntl.h and linux/mount.h; the last ones are MOVE_MOUNT_F_EMPTY_PATH and MOVE_MOUNT_T_SYMLINKS."""
_RESOLVE_NO_MAGICLINKS, _RESOLVE_NO_SYMLINKS, _RESOLVE_IN_ROOT = 0x02, 0x04, 0x10
"""From linux/openat2.h."""
_ESCAPED = re.compile(r"\\([0-7]{3})")
"""Escapes of a mount table: space, tab, newline and backslash. All else is literal."""


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
    SHARED = 1 << 20


def mount(source: str, target: Path, kind: str = "", flags: int = 0, data: str = "") -> None:
    """Mounts a file system, a bind or new flags.

    Raises:
        OSError: with the target and the kernel's reason.
    """
    arguments = (source.encode(), os.fsencode(target), kind.encode() or None)
    if _LIBC.mount(*arguments, ctypes.c_ulong(flags), data.encode() or None) != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"mount {source} on {target}: {os.strerror(number)}")


class _OpenHow(ctypes.Structure):
    """struct open_how of openat2(2)."""

    _fields_ = (("flags", ctypes.c_uint64), ("mode", ctypes.c_uint64), ("resolve", ctypes.c_uint64))


@contextmanager
def opened_inside(root: Path, path: str) -> Iterator[Path]:
    """Opens a file or folder of a root that others may change; yields a path that stays its own.

    Args:
        root: the folder that is "/" to the path.
        path: absolute, as processes of the root see it.

    Raises:
        OSError: ELOOP where the path, or a part of it, is a symbolic link; else as open(2).
    """
    how = _OpenHow(os.O_PATH | os.O_CLOEXEC, 0, _RESOLVE_IN_ROOT | _RESOLVE_NO_SYMLINKS | _RESOLVE_NO_MAGICLINKS)
    top = os.open(root, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        arguments = (ctypes.c_int(top), os.fsencode(path), ctypes.byref(how), ctypes.c_size_t(ctypes.sizeof(how)))
        descriptor = _LIBC.syscall(ctypes.c_long(_OPENAT2), *arguments)
        number = ctypes.get_errno()
    finally:
        os.close(top)
    if descriptor < 0:
        raise OSError(number, os.strerror(number), path)
    try:
        yield Path(f"/proc/self/fd/{descriptor}")
    finally:
        os.close(descriptor)


def bind(source: str, target: Path, taken: int = 0, *, recursive: bool = False) -> None:
    """Binds one path to another, with its restrictions from the first moment on.

    Args:
        source: a file or folder.
        target: where it is mounted.
        taken: restrictions, of MountFlag's RDONLY, NOSUID and NODEV, whose values mount_setattr(2) shares.
        recursive: with all that is mounted below it; `taken` applies only to the first mount.

    Raises:
        OSError: with the kernel's reason; ENOTDIR where a file meets a folder; ENOSYS before Linux 5.12.
    """
    if stat.S_ISDIR(Path(source).stat().st_mode) != target.is_dir():
        raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(target))
    how = _OPEN_TREE_CLONE | os.O_CLOEXEC | (_AT_RECURSIVE if recursive else 0)
    picked = _call(_OPEN_TREE, _AT_FDCWD, os.fsencode(source), how)
    try:
        attributes = (ctypes.c_uint64 * 4)(taken, 0, 0, 0)
        size = ctypes.c_size_t(ctypes.sizeof(attributes))
        _call(_MOUNT_SETATTR, picked, b"", _AT_EMPTY_PATH, ctypes.byref(attributes), size)
        _call(_MOVE_MOUNT, picked, b"", _AT_FDCWD, os.fsencode(target), _FROM_DESCRIPTOR | _FOLLOW_TARGET)
    finally:
        os.close(picked)


def detach(target: Path) -> None:
    """Detaches what is mounted at a path and below (lazily): open files stay usable.

    Raises:
        OSError: with the kernel's reason.
    """
    if _LIBC.umount2(os.fsencode(target), _MNT_DETACH) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), str(target))


def _call(number: int, *arguments: object) -> int:
    done: int = _LIBC.syscall(ctypes.c_long(number), *arguments)
    if done < 0:
        error = ctypes.get_errno()
        raise OSError(error, os.strerror(error))
    return done


def sync_file_system(path: Path) -> None:
    """Flushes all writes to the file system of a path to the disk or the file server.

    Raises:
        OSError: also for an earlier write that failed since the last flush, which sync(2) does not report.
    """
    opened = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        if _LIBC.syncfs(opened) != 0:
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number), str(path))
    finally:
        os.close(opened)


def mount_table() -> str:
    """This process's mount table. Users may have renamed a folder to bytes that are not UTF-8."""
    return os.fsdecode(Path("/proc/self/mountinfo").read_bytes())


def points_of(mountinfo: str) -> list[Path]:
    """Returns the mount points of a mount table, in its order (proc_pid_mountinfo(5), field 5)."""
    fields = (line.split(" ")[4] for line in mountinfo.split("\n") if line)
    return [Path(_ESCAPED.sub(lambda field: chr(int(field[1], 8)), field)) for field in fields]


def mount_points() -> set[Path]:
    """The current mount points."""
    return set(points_of(mount_table()))


def is_mount_point(path: Path) -> bool:
    """Return whether a path is a mount point. Unlike in pathlib, a bind of the same file system counts."""
    return path in mount_points()
