"""Checks that the jail's storage can hold a root, with temporary files, before a root is made."""

import errno
import fcntl
import os
import platform
import shutil
import stat
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from slurm_node.pod.log import NodeError, say
from slurm_node.pod.system import mount_table
from slurm_node.roots import nfs_mounts

PATIENCE_SECONDS = 10.0
LEFT_OVER_SECONDS = 3600.0
OTHER = 1000
"""Id of some user other than root."""
SET_ID = 0o4755
SIZE_KEY = "pulumi-slurm:jail.storage.size"
NO_LOCKS = (errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOSYS, errno.EIO, errno.EINVAL)
MAKES_ROOT_ANOTHER = (
    "the jail's storage makes root another user (root_squash): export it with no_root_squash to the addresses of all"
    " nodes"
)
NO_LOCKS_SENTENCE = (
    "the jail's storage has no {} locks, which keep two nodes from changing one file at once: use NFS 4, or run"
    " rpc.statd on the nodes and on the server of NFS 3"
)


def check(volume: Path) -> None:
    """Checks that the storage allows what a root needs.

    Raises:
        NodeError: it does not. The text has a sentence for each thing, with what to change.
    """
    mount = nfs_mounts.of(mount_table(), volume)
    with _told_while_it_hangs(volume):
        faults = [*(nfs_mounts.problems(mount) if mount else []), *problems(volume)]
    if faults:
        raise NodeError("; ".join(faults))
    for sentence in nfs_mounts.advice(mount) if mount else []:
        say(f"advice: {sentence}")


def problems(volume: Path) -> list[str]:
    """Returns a sentence for each thing that the storage refuses. No test file stays."""
    aside = volume / f".probe-{platform.node()}"
    try:
        if aside.exists():  # ours, of a container that was killed
            shutil.rmtree(aside)
        aside.mkdir(mode=0o700)
    except OSError as error:
        return [refusal(error)]
    try:
        return list(_tried(aside))
    except OSError as error:
        return [refusal(error)]
    finally:
        shutil.rmtree(aside, ignore_errors=True)
        _remove_left_over(volume)


def refusal(error: OSError) -> str:
    """Returns what a refused write means and what to change."""
    match error.errno:
        case errno.EROFS:
            return "the jail's storage is read-only: export it with rw, and mount it without ro"
        case errno.EACCES | errno.EPERM:
            return f"the jail's storage does not let root write: {MAKES_ROOT_ANOTHER.partition(': ')[2]}"
        case errno.ENOSPC | errno.EDQUOT:
            return f"the jail's storage is full: make room on it, or enlarge {SIZE_KEY}"
        case errno.ESTALE:
            return "the jail's storage is not what was mounted (stale file handle): export the same folder again"
        case _:
            return f"the jail's storage refuses to be written ({error.strerror}): see that a node can write to it"


def _tried(aside: Path) -> Iterator[str]:
    file = aside / "file"
    with file.open("w") as opened:
        opened.write("probe\n")
        opened.flush()
        os.fsync(opened.fileno())
    owner = file.stat().st_uid
    if owner != 0:
        yield f"{MAKES_ROOT_ANOTHER} (root's file belongs to {owner})"
        return
    yield from _owners(file)
    yield from _kinds(file)
    yield from _locks(file)


def _owners(file: Path) -> Iterator[str]:
    try:
        os.chown(file, OTHER, OTHER)
        file.chmod(SET_ID)
    except OSError as error:
        yield (
            f"the jail's storage refuses root a change of owner or mode ({error.strerror}): the jail needs a POSIX"
            " file system, such as an NFS export with no_root_squash"
        )
        return
    facts = file.stat()
    if (facts.st_uid, facts.st_gid) != (OTHER, OTHER):
        yield (
            f"the jail's storage turns the user {OTHER} into {facts.st_uid}: export it without all_squash, a fixed"
            " user or mapped ids"
        )
    if stat.S_IMODE(facts.st_mode) != SET_ID:
        yield "the jail's storage drops the set-user-ID bit, without which no user becomes root by sudo: allow it"


def _kinds(file: Path) -> Iterator[str]:
    tries: dict[str, Callable[[], object]] = {
        "a symbolic link": lambda: file.with_name("symbolic").symlink_to("nothing"),
        "a hard link": lambda: file.with_name("hard").hardlink_to(file),
        "a rename over a file": lambda: file.with_name("hard").replace(file.with_name("symbolic")),
    }
    for name, attempt in tries.items():
        try:
            attempt()
        except OSError as error:
            if error.errno in (errno.ENOSPC, errno.EDQUOT):
                raise
            yield f"the jail's storage refuses {name} ({error.strerror}): the jail needs a POSIX file system"
            return


def _locks(file: Path) -> Iterator[str]:
    with file.open("r+") as opened:
        for name, lock in (("POSIX", fcntl.lockf), ("flock", fcntl.flock)):
            try:
                lock(opened, fcntl.LOCK_EX | fcntl.LOCK_NB)
                lock(opened, fcntl.LOCK_UN)
            except OSError as error:
                if error.errno not in NO_LOCKS:
                    raise
                yield NO_LOCKS_SENTENCE.format(name)
                return


def _remove_left_over(volume: Path) -> None:
    """Removes what interrupted pods left, judged by the server's own clock."""
    now = time.time()
    with suppress(OSError):
        for old in volume.glob(".probe-*"):
            if now - old.stat().st_mtime > LEFT_OVER_SECONDS:
                shutil.rmtree(old, ignore_errors=True)


@contextmanager
def _told_while_it_hangs(volume: Path) -> Iterator[None]:
    """Logs while a call waits: a call on a hard mount has no deadline of its own."""
    sentence = (
        f"the jail's storage has not answered for {PATIENCE_SECONDS:.0f} s at {volume}: waiting; see whether its server"
        " runs and can be reached from this node"
    )
    timer = threading.Timer(PATIENCE_SECONDS, say, [sentence])
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
