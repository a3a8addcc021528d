"""File systems: size, free space, free files, and whether they may be written."""

import os
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Room:
    """A file system's size, and what is free there for ordinary processes.

    Attributes:
        size: in bytes.
        free: in bytes.
        files: how many it can hold; 0 where it does not count them.
        files_free: how many more.
        read_only: whether it is mounted so.
    """

    size: int
    free: int
    files: int = 0
    files_free: int = 0
    read_only: bool = False

    def __str__(self) -> str:
        return f"{_mib(self.free)} of {_mib(self.size)} MiB free"

    def lacks(self, least_percent: int) -> str:
        """Returns what of it is scarcer than that, in words without numbers that change; empty if nothing is."""
        least = f"less than {least_percent} percent of its"
        if self.free * 100 < self.size * least_percent:
            return f"{least} {_mib(self.size)} MiB free"
        if self.files and self.files_free * 100 < self.files * least_percent:
            return f"{least} files free"
        return ""


def room(path: Path) -> Room:
    """Reads the file system of a path.

    Raises:
        OSError: it does not answer.
    """
    facts = os.statvfs(path)
    unit = facts.f_frsize
    read_only = bool(facts.f_flag & os.ST_RDONLY)
    return Room(facts.f_blocks * unit, facts.f_bavail * unit, facts.f_files, facts.f_favail, read_only)


def _mib(size: int) -> int:
    return size // 1024**2
