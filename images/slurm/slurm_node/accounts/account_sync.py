"""Keeps users the same in all roots of the volume: a change reaches the others after a second.

Login nodes run it, and so does the pod that follows an LDAP directory. Beside the roots it keeps what they last agreed
on, and what each of them held then. So it may be interrupted at any moment. Users may write to roots, so no link in one
of them is followed.
"""

import errno
import fcntl
import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from slurm_node.accounts import account_files, image_note, ldap_users, users
from slurm_node.accounts.accounts import FILES, Accounts
from slurm_node.pod import paths
from slurm_node.pod.durable import write_durably
from slurm_node.pod.log import say

TAKEN_FROM_LDAP = ".directory.json"
"""File with the users last taken from LDAP. No revision begins with a dot."""
MAY_BE_EMPTY = ("gshadow", "subuid", "subgid")
"""Files that in some images only have lines of ordinary users. The last user to go leaves an empty file."""
NO_ROOT = (errno.ENOENT, errno.ENOTDIR, errno.EISDIR, errno.ELOOP, errno.ENXIO)
"""Errors from opening a root's /etc or lock after users have put something else in its place."""


@dataclass(frozen=True, slots=True)
class Held:
    """One root's opened /etc, with its content."""

    revision: str
    folder: int
    accounts: Accounts
    sudoers: Mapping[str, str]

    def entries(self, of_image: frozenset[str] | None) -> dict[users.Entry, str]:
        """Returns the root's entries of users, without the files of sudoers.d that the image brought."""
        own = {} if of_image is None else {name: self.sudoers[name] for name in self.sudoers.keys() - of_image}
        return users.users_of(self.accounts) | {(users.SUDOERS, name): text for name, text in own.items()}


class BrokenRoot(OSError):
    """A root's account files are broken: taking them over would remove users from the other roots."""


def complete_roots(volume: Path) -> list[str]:
    """Returns the revisions of complete roots, the newest first."""
    markers = sorted((volume / "manifests").glob("[!.]*.json"), key=lambda path: path.stat().st_mtime, reverse=True)
    return [path.stem for path in markers if paths.root_of(volume, path.stem).is_dir()]


def synchronize(
    volume: Path,
    joining: str | None = None,
    ldap: ldap_users.Answer | None = None,
    needed: str | None = None,
) -> ldap_users.Answer | None:
    """Makes users the same in all complete roots, and in one that is about to be complete.

    It skips a root with broken files, so that no other root waits or loses users.

    Args:
        volume: where the shared volume is mounted.
        joining: the revision that is about to be complete.
        ldap: the LDAP server's answer; None if it was not asked.
        needed: a complete root that may not be skipped.

    Returns:
        The part of the LDAP answer that was taken over.

    Raises:
        OSError: a root's files can't be read or written, or its lock can't be taken.
        BrokenRoot: the joining or the needed root is broken.
    """
    state = volume / "accounts"
    state.mkdir(mode=0o700, exist_ok=True)
    revisions = [*complete_roots(volume), *([joining] if joining else [])]
    with ExitStack() as stack:
        lock = stack.enter_context((state / ".lock").open("w"))
        fcntl.flock(lock, fcntl.LOCK_EX)
        # A new root does not tell who was removed, even if an earlier root had its name.
        before = {name: None if name == joining else _load(state / f"{name}.json") for name in revisions}
        held = list(_hold_all(stack, volume, before, (joining, needed)))
        images = {root.revision: _image_sudoers(volume, root.revision) for root in held}
        said = {root.revision: root.entries(images[root.revision]) for root in held}
        agreed = _load(state / "people.json") or {}
        # The sort is stable: roots that never agreed come last, the newest of them first.
        order = sorted(held, key=lambda root: before[root.revision] is None)
        after = users.merged(agreed, [users.Root(said[root.revision], before[root.revision]) for root in order])
        if ldap is not None:
            taken = _load(state / TAKEN_FROM_LDAP) or {}
            ldap = ldap_users.acceptable(ldap, taken, tuple(root.accounts for root in held))
            after = ldap_users.with_ldap_users(after, taken, ldap.users)
            # Before the roots are written: a user in a root who is not noted here would count as the jail's own.
            if ldap.users.keys() - taken.keys():
                _save(state / TAKEN_FROM_LDAP, {**taken, **ldap.users})
        if after != agreed:
            _save(state / "people.json", after)
            for sentence in users.clashes(after):
                say(f"accounts: {sentence}: delete one of them and make it anew")
        for root in held:
            _write(root, after, images[root.revision])
            now = _read(root.revision, root.folder).entries(images[root.revision])
            if now != before[root.revision]:
                _save(state / f"{root.revision}.json", now)
        if ldap is not None and ldap.users != taken:
            _save(state / TAKEN_FROM_LDAP, ldap.users)
    return ldap


def signature(volume: Path) -> object:
    """Returns a value that changes with any root's account files. It opens them, so that NFS asks its server again."""
    facts = []
    for revision in complete_roots(volume):
        try:
            with account_files.etc(paths.root_of(volume, revision)) as folder:
                names = [(folder, name) for name in FILES]
                with account_files.sudoers(folder) as extra:
                    names += [(extra, name) for name in account_files.names(extra)] if extra is not None else []
                    facts += [(revision, name, _facts(where, name)) for where, name in names]
        except OSError:
            continue
    return facts


def _facts(folder: int, name: str) -> tuple[int, int, int] | None:
    try:
        file = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=folder)
    except OSError:
        return None
    try:
        facts = os.fstat(file)
        return facts.st_ino, facts.st_mtime_ns, facts.st_size
    finally:
        os.close(file)


def _hold_all(
    stack: ExitStack,
    volume: Path,
    before: Mapping[str, Mapping[users.Entry, str] | None],
    needed: Sequence[str | None],
) -> Iterator[Held]:
    """Yields the roots whose files are well, each held.

    Raises:
        BrokenRoot: a needed root is broken.
    """
    for revision, entries in before.items():
        try:
            yield _hold(stack, volume, revision, entries)
        except BrokenRoot as error:
            if revision in needed:
                raise
            say(f"accounts: the root {revision} is left out: {error}")


def _hold(stack: ExitStack, volume: Path, revision: str, before: Mapping[users.Entry, str] | None) -> Held:
    """Opens a root's files under their lock.

    Raises:
        BrokenRoot: the files are broken.
    """
    try:
        held = _read(revision, stack.enter_context(account_files.locked(paths.root_of(volume, revision))))
    except OSError as error:
        if error.errno in NO_ROOT:
            raise BrokenRoot(f"{error}: repair it") from error
        raise
    had = {kind for kind, _ in before or {}}
    lost = [
        file
        for file in FILES
        if file in had and not held.accounts.lines[file] and not _may_be_empty(held, file, before or {})
    ]
    if lost or "root" not in held.accounts.names("passwd"):
        raise BrokenRoot(f"/etc/{(lost or ['passwd'])[0]} of root {revision} is gone or has lost its lines: repair it")
    return held


def _may_be_empty(root: Held, file: str, before: Iterable[users.Entry]) -> bool:
    """Return whether the file exists, and none of the users who had a line in it."""
    if file not in MAY_BE_EMPTY or account_files.text(root.folder, file) is None:
        return False
    owners = root.accounts.names("group" if file == "gshadow" else "passwd")
    return owners.isdisjoint(name for kind, name in before if kind == file)


def _read(revision: str, etc: int) -> Held:
    with account_files.sudoers(etc) as folder:
        listed = [] if folder is None else account_files.names(folder)
        names = [name for name in listed if "." not in name and name[-1] != "~"]
        files = {name: account_files.text(folder, name) for name in names if folder is not None}
    known = {name: text for name, text in files.items() if text is not None}
    return Held(revision, etc, account_files.read(etc), known)


def _write(root: Held, wanted: Mapping[users.Entry, str], of_image: frozenset[str] | None) -> None:
    account_files.write(root.folder, root.accounts, users.with_users(root.accounts, wanted))
    with account_files.sudoers(root.folder) as folder:
        if folder is None or of_image is None:
            return
        files = {name: text for (kind, name), text in wanted.items() if kind == users.SUDOERS and name not in of_image}
        for name, text in files.items():
            if root.sudoers.get(name) != text:
                account_files.replace(folder, name, text, 0o440)
        for name in root.sudoers.keys() - files.keys() - of_image:
            os.unlink(name, dir_fd=folder)


def _image_sudoers(volume: Path, revision: str) -> frozenset[str] | None:
    """The image's files in sudoers.d; None for an old root without that note."""
    noted = image_note.load(volume, revision)
    return None if noted is None else frozenset(noted.sudoers)


def _load(path: Path) -> dict[users.Entry, str] | None:
    if not path.exists():
        return None
    return {(kind, name): text for kind, name, text in json.loads(path.read_text())}


def _save(path: Path, entries: Mapping[users.Entry, str]) -> None:
    write_durably(path, json.dumps([[*entry, text] for entry, text in sorted(entries.items())]) + "\n", 0o600)
