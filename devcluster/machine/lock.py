"""A lock between processes of this machine, by a file."""

from __future__ import annotations

import fcntl
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


class HeldError(Exception):
    """Another process holds the lock.

    Attributes:
        pid: its number; "?" in the moment before it writes that.
    """

    def __init__(self, pid: str) -> None:
        super().__init__(pid)
        self.pid = pid


@contextmanager
def held_alone(path: Path) -> Iterator[None]:
    """Hold a lock meanwhile, with this process's number in its file. The lock of a process that died is free.

    Raises:
        HeldError: another process holds it.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a+") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise HeldError(path.read_text().strip() or "?") from None
        file.truncate(0)
        print(os.getpid(), file=file, flush=True)
        yield


@contextmanager
def locked(path: Path, waits_for: str) -> Iterator[None]:
    """Hold a lock meanwhile. If another process holds it, print what this one waits for, beside a command's output."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            print(waits_for, file=sys.stderr, flush=True)
            fcntl.flock(file, fcntl.LOCK_EX)
        yield
