"""Makes files below a root that users may change at any moment, without leaving that root.

Root in a job may have replaced a folder by a symbolic link. The pod would follow it and write outside of the jail with
its own rights. So each folder on the way is opened in turn, without following links. New files are made in the opened
folder.
"""

import errno
import os
import platform
import shutil
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from slurm_node.pod.log import NodeError
from slurm_node.pod.system import opened_inside

FOLDER_MODE, FILE_MODE = 0o755, 0o644


@contextmanager
def in_words(path: str) -> Iterator[None]:
    """Turns an error on the way to a path into a sentence about what is in the way.

    Raises:
        NodeError: a symbolic link, or a file where a folder belongs.
    """
    try:
        yield
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise NodeError(
                f"{path}, or a folder above it, is a symbolic link in the shared root, and nothing is mounted or"
                " written through a link: put a plain file or folder in its place"
            ) from None
        if error.errno == errno.ENOTDIR:
            raise NodeError(f"{path}, or what is above it, is a file of the wrong kind: remove it") from None
        raise


@contextmanager
def folder(root: Path, path: str) -> Iterator[Path]:
    """Opens a folder of the root, after making it and missing folders above it.

    Raises:
        NodeError: something other than a folder is in its place.
    """
    with in_words(path):
        make_folder(root, path)
        with opened_inside(root, f"{path}/.") as opened:
            yield opened


def make_folder(root: Path, path: str) -> None:
    """Makes a folder of the root, and those above it. It may exist.

    Raises:
        OSError: ELOOP for a link on the way, else as mkdir(2).
    """
    target = Path(path)
    for step in (*reversed(target.parents), target):
        # Another node may make it at the same time.
        if step.name:
            with opened_inside(root, str(step.parent)) as parent, suppress(FileExistsError):
                (parent / step.name).mkdir(mode=FOLDER_MODE)


def make_file(root: Path, path: str) -> None:
    """Makes an empty file of the root in an existing folder. A plain file may exist.

    Raises:
        OSError: ELOOP for a link on the way or in its place, else as open(2).
    """
    target = Path(path)
    with opened_inside(root, str(target.parent)) as parent:
        flags = os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        os.close(os.open(parent / target.name, flags, FILE_MODE))


def put_link(opened: Path, name: str, target: Path) -> None:
    """Puts a link into an opened folder, and replaces a file or link of its name.

    Several nodes may make the same link at once, so each makes its own under another name and renames it.
    """
    aside = opened / f".{name}.{platform.node()}.{os.getpid()}"
    aside.unlink(missing_ok=True)
    aside.symlink_to(target)
    aside.replace(opened / name)


def copy_out(opened: Path, target: Path) -> None:
    """Copies a folder's content, owners and modes to a folder that users can't reach. Links stay links.

    Args:
        opened: an opened folder of the root.
        target: is made; everything but files, folders and links is left out.
    """
    for path, folders, files, at in os.fwalk(f"{opened}/."):
        here = target / Path(path).relative_to(opened)
        here.mkdir(exist_ok=True)
        _take_over(at, here)
        for name in [*folders, *files]:
            facts = os.stat(name, dir_fd=at, follow_symlinks=False)
            if stat.S_ISLNK(facts.st_mode):
                (here / name).symlink_to(os.readlink(name, dir_fd=at))
                os.chown(here / name, facts.st_uid, facts.st_gid, follow_symlinks=False)
            elif stat.S_ISREG(facts.st_mode):
                _copy_file(at, name, here / name)


def _copy_file(folder: int, name: str, target: Path) -> None:
    source = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=folder)
    with os.fdopen(source, "rb") as reader:
        if stat.S_ISREG(os.fstat(source).st_mode):
            with target.open("xb") as writer:
                shutil.copyfileobj(reader, writer)
            _take_over(source, target)


def _take_over(source: int, target: Path) -> None:
    """Sets a copy's owner, then its mode, which a change of owner would reduce, and its times."""
    facts = os.fstat(source)
    os.chown(target, facts.st_uid, facts.st_gid)
    shutil.copystat(f"/proc/self/fd/{source}", target)
