"""The account files of a root, read and replaced in its opened /etc.

Users may write to roots, so no link in one of them is followed.
"""

import fcntl
import os
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from slurm_node.accounts.accounts import FILES, Accounts
from slurm_node.accounts.users import SUDOERS

LOCK_SECONDS = 15.0
"""Seconds that useradd and similar programs wait for each other (lckpwdf(3))."""
LARGEST = 32 << 20
"""Most bytes of a file. The NSS module that looks users up has the same limit (native/login/nss_jail.c)."""
SECRET = ("shadow", "gshadow")
NEW = ".pulumi-slurm.new"
"""Suffix of a file that is being written. In sudoers.d, sudo ignores names with a dot."""


@contextmanager
def etc(root: Path) -> Iterator[int]:
    """A root's /etc, open."""
    folder = os.open(root / "etc", os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        yield folder
    finally:
        os.close(folder)


@contextmanager
def locked(root: Path) -> Iterator[int]:
    """A root's /etc, open, under the lock that useradd, usermod and passwd take.

    Raises:
        TimeoutError: another process held the lock for too long.
    """
    with etc(root) as folder:
        flags = os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        lock = os.open(".pwd.lock", flags, 0o600, dir_fd=folder)
        try:
            deadline = time.monotonic() + LOCK_SECONDS
            while True:
                try:
                    fcntl.lockf(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    break
                except BlockingIOError:
                    if time.monotonic() > deadline:
                        message = f"somebody has held the account files of root {root.name} for long"
                        raise TimeoutError(message) from None
                    time.sleep(0.05)  # The system has no call that waits for a lock with a deadline.
            yield folder
        finally:
            os.close(lock)


@contextmanager
def sudoers(etc_folder: int) -> Iterator[int | None]:
    """The folder sudoers.d of an /etc, open; None where it is missing or something else."""
    try:
        folder = os.open(SUDOERS, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=etc_folder)
    except OSError:
        yield None
        return
    try:
        yield folder
    finally:
        os.close(folder)


def names(folder: int) -> list[str]:
    """Returns the names in an opened folder."""
    return sorted(entry.name for entry in os.scandir(folder))


def text(folder: int, name: str) -> str | None:
    """Returns a plain file's text; None for another kind of file, and for one of more than LARGEST bytes."""
    try:
        file = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=folder)
    except OSError:
        return None
    facts = os.fstat(file)
    if not stat.S_ISREG(facts.st_mode) or facts.st_size > LARGEST:
        os.close(file)
        return None
    with os.fdopen(file, encoding="utf-8", errors="surrogateescape", newline="") as opened:
        return opened.read(LARGEST)


def read(folder: int) -> Accounts:
    """Reads the account files of an /etc; a missing one is empty."""
    return Accounts({name: _lines(text(folder, name) or "") for name in FILES})


def _lines(content: str) -> tuple[str, ...]:
    """Splits at newlines alone, as the C library does. Unicode's other separators may be part of a name."""
    return tuple(content.removesuffix("\n").split("\n")) if content else ()


def write(folder: int, before: Accounts, after: Accounts) -> None:
    """Writes the account files that changed, each as useradd does it under running jobs.

    passwd comes last, so a user who is named there has all of his other lines.
    """
    for name in reversed(FILES):
        lines = after.lines[name]
        if lines != before.lines[name]:
            replace(folder, name, "".join(f"{line}\n" for line in lines), 0o640 if name in SECRET else 0o644)


def replace(folder: int, name: str, content: str, mode: int) -> None:
    """Replaces a file at once and durably, with the mode and owners that it had."""
    aside = f"{name}{NEW}"
    try:
        facts = os.stat(name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        facts = None
    with suppress(FileNotFoundError):
        os.unlink(aside, dir_fd=folder)
    file = os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600, dir_fd=folder)
    with os.fdopen(file, "w", encoding="utf-8", errors="surrogateescape") as opened:
        opened.write(content)
        opened.flush()
        if facts and stat.S_ISREG(facts.st_mode):
            os.fchown(file, facts.st_uid, facts.st_gid)
            mode = stat.S_IMODE(facts.st_mode)
        os.fchmod(file, mode)
        os.fsync(file)
    os.rename(aside, name, src_dir_fd=folder, dst_dir_fd=folder)
    os.fsync(folder)
