"""Writes files and folders that a crash of the node or file server leaves complete or not at all.

A rename may reach the disk before the bytes that it names (ext4 with delayed allocation). It may also come before the
folder's own entry. So the bytes go first, then the name, then the folder.
"""

import os
import stat
from pathlib import Path

from slurm_node.pod.system import sync_file_system

FILE_MODE = 0o644


def write_durably(path: Path, text: str, mode: int = FILE_MODE) -> None:
    """Writes a file, and the folders above it. After a crash the file is complete, or as it was before."""
    path.parent.mkdir(parents=True, exist_ok=True)
    aside = path.with_name(f".{path.name}.new")
    aside.unlink(missing_ok=True)
    with os.fdopen(os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, mode), "w") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    aside.replace(path)
    sync_folder(path.parent)


def move(source: Path, target: Path) -> None:
    """Renames a small tree, such as a home, to its final name once its files are on the disk."""
    for _, _, files, at in os.fwalk(source):
        for name in files:
            if stat.S_ISREG(os.stat(name, dir_fd=at, follow_symlinks=False).st_mode):
                _sync(os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=at))
        os.fsync(at)
    source.rename(target)
    sync_folder(target.parent)


def move_root(source: Path, target: Path) -> None:
    """Renames a root to its final name once all writes to its file system are on the disk.

    Raises:
        OSError: also for a write to this file system that failed since it was synchronized last.
    """
    sync_file_system(source)
    source.rename(target)
    sync_folder(target.parent)


def sync_folder(folder: Path) -> None:
    """Flushes a folder's entries to the disk."""
    _sync(os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC))


def _sync(opened: int) -> None:
    try:
        os.fsync(opened)
    finally:
        os.close(opened)
