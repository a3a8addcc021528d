"""What is there whole after a crash of the node or the file server, or not at all.

A rename may reach the disk before the bytes that it names (ext4 with delayed allocation), and before the folder's own
entry. So the bytes go first, then the name, then the folder.
"""

import os
from pathlib import Path

from slurm_node.system import sync_file_system

FILE_MODE = 0o644


def write_durably(path: Path, text: str, mode: int = FILE_MODE) -> None:
    """Writes a file, and the folders above it, that is there complete after a crash, or as it was before."""
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
    """Gives a folder, with all that was written below it, its final name.

    Raises:
        OSError: also for what an earlier write to this file system could not bring to the disk.
    """
    sync_file_system(source)
    source.rename(target)
    sync_folder(target.parent)


def sync_folder(folder: Path) -> None:
    """Brings a folder's entries to the disk."""
    opened = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)
