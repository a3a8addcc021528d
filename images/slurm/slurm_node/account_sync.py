"""Keeps people the same in all roots of the volume: what is changed in one is in the others about a second later.

Login nodes run it. What all roots agree on is kept beside them, and so is what each of them said then, so that it may
be ended at any moment. Roots are the users' to write, so no link in one of them is followed.
"""

import fcntl
import json
import os
import stat
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from slurm_node import inventory, paths, people
from slurm_node.accounts import FILES, Accounts
from slurm_node.copying import write_durably
from slurm_node.log import say

LOCK_SECONDS = 15.0
"""As long as useradd and its like wait for each other (lckpwdf(3))."""
SECRET = ("shadow", "gshadow")
NEW = ".pulumi-slurm.new"
"""Suffix of a file in the making; sudo ignores names with a dot in sudoers.d."""


@dataclass(frozen=True, slots=True)
class Held:
    """One root's /etc, open, with what it says."""

    revision: str
    folder: int
    accounts: Accounts
    sudoers: Mapping[str, str]

    def people(self, of_image: frozenset[str] | None) -> dict[people.Entry, str]:
        """Returns what the root says of people; files of sudoers.d that the image brought are its own."""
        own = {} if of_image is None else {name: self.sudoers[name] for name in self.sudoers.keys() - of_image}
        return people.people_of(self.accounts) | {(people.SUDOERS, name): text for name, text in own.items()}


def complete_roots(volume: Path) -> list[str]:
    """Returns the revisions of complete roots, the one completed last first."""
    markers = sorted((volume / "manifests").glob("[!.]*.json"), key=lambda path: path.stat().st_mtime, reverse=True)
    return [path.stem for path in markers if paths.root_of(volume, path.stem).is_dir()]


def synchronize(volume: Path, joining: str | None = None) -> None:
    """Makes people the same in all complete roots, and in one that is about to be.

    Raises:
        OSError: a root's files can't be read or written, or its lock is not to be had.
    """
    state = volume / "accounts"
    state.mkdir(mode=0o700, exist_ok=True)
    revisions = [*complete_roots(volume), *([joining] if joining else [])]
    with ExitStack() as stack:
        lock = stack.enter_context((state / ".lock").open("w"))
        fcntl.flock(lock, fcntl.LOCK_EX)
        held = [stack.enter_context(_hold(volume, revision)) for revision in dict.fromkeys(revisions)]
        images = {each.revision: _image_sudoers(volume, each.revision) for each in held}
        said = {each.revision: each.people(images[each.revision]) for each in held}
        # A root that is being made says nothing about who was removed, also if there was one of its name before.
        before = {name: None if name == joining else _load(state / f"{name}.json") for name in said}
        for each in held:
            _check(each, before[each.revision])
        agreed = _load(state / "people.json") or {}
        # A stable sort: those that never agreed come last, the newest of them first.
        order = sorted(held, key=lambda each: before[each.revision] is None)
        after = people.merged(agreed, [people.Root(said[each.revision], before[each.revision]) for each in order])
        if after != agreed:
            _save(state / "people.json", after)
            for sentence in people.clashes(after):
                say(f"accounts: {sentence}: delete one of them and make it anew")
        for each in held:
            _write(each, after, images[each.revision])
            now = _read(each.revision, each.folder).people(images[each.revision])
            if now != before[each.revision]:
                _save(state / f"{each.revision}.json", now)


def _check(root: Held, before: Mapping[people.Entry, str] | None) -> None:
    """Refuses files that are plainly broken, so that a slip in one root removes nobody in the others."""
    emptied = [
        file for file in FILES if not root.accounts.lines[file] and any(kind == file for kind, _ in before or {})
    ]
    if emptied or "root" not in root.accounts.names("passwd"):
        raise OSError(
            f"/etc/{(emptied or ['passwd'])[0]} of root {root.revision} is gone or has lost its lines: repair it"
        )


def signature(volume: Path) -> object:
    """Returns what changes when an account file of any root does; files are opened, for NFS looks anew only then."""
    found = []
    for revision in complete_roots(volume):
        try:
            with _etc(volume, revision) as folder:
                names = [(folder, name) for name in FILES]
                with _sudoers(folder) as extra:
                    names += [(extra, name) for name in _names(extra)] if extra is not None else []
                    found += [(revision, name, _facts(where, name)) for where, name in names]
        except OSError:
            continue
    return found


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


@contextmanager
def _hold(volume: Path, revision: str) -> Iterator[Held]:
    """Opens a root's /etc under the lock that useradd, usermod and passwd take."""
    with _etc(volume, revision) as folder:
        lock = os.open(".pwd.lock", os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK, 0o600, dir_fd=folder)
        try:
            deadline = time.monotonic() + LOCK_SECONDS
            while True:
                try:
                    fcntl.lockf(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    break
                except BlockingIOError:
                    if time.monotonic() > deadline:
                        raise TimeoutError(f"somebody has held the account files of root {revision} for long") from None
                    time.sleep(0.05)
            yield _read(revision, folder)
        finally:
            os.close(lock)


@contextmanager
def _etc(volume: Path, revision: str) -> Iterator[int]:
    folder = os.open(paths.root_of(volume, revision) / "etc", os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        yield folder
    finally:
        os.close(folder)


@contextmanager
def _sudoers(etc: int) -> Iterator[int | None]:
    try:
        folder = os.open(people.SUDOERS, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=etc)
    except OSError:
        yield None
        return
    try:
        yield folder
    finally:
        os.close(folder)


def _read(revision: str, etc: int) -> Held:
    lines = {name: tuple((_text(etc, name) or "").splitlines()) for name in FILES}
    with _sudoers(etc) as folder:
        names = [] if folder is None else [name for name in _names(folder) if "." not in name and name[-1] != "~"]
        files = {name: _text(folder, name) for name in names if folder is not None}
    return Held(revision, etc, Accounts(lines), {name: text for name, text in files.items() if text is not None})


def _names(folder: int) -> list[str]:
    return sorted(entry.name for entry in os.scandir(folder))


def _text(folder: int, name: str) -> str | None:
    """Returns a plain file's text; None for anything else."""
    try:
        file = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=folder)
    except OSError:
        return None
    with os.fdopen(file, encoding="utf-8", errors="surrogateescape") as opened:
        return opened.read() if stat.S_ISREG(os.fstat(file).st_mode) else None


def _write(root: Held, wanted: Mapping[people.Entry, str], of_image: frozenset[str] | None) -> None:
    after = people.with_people(root.accounts, wanted)
    for name, lines in after.lines.items():
        if lines != root.accounts.lines[name]:
            _replace(root.folder, name, "".join(f"{line}\n" for line in lines), 0o640 if name in SECRET else 0o644)
    with _sudoers(root.folder) as folder:
        if folder is None or of_image is None:
            return
        files = {name: text for (kind, name), text in wanted.items() if kind == people.SUDOERS and name not in of_image}
        for name, text in files.items():
            if root.sudoers.get(name) != text:
                _replace(folder, name, text, 0o440)
        for name in root.sudoers.keys() - files.keys() - of_image:
            os.unlink(name, dir_fd=folder)


def _replace(folder: int, name: str, text: str, mode: int) -> None:
    """Replaces a file at once, with the mode and owners that it had."""
    aside = f"{name}{NEW}"
    try:
        facts = os.stat(name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        facts = None
    with suppress(FileNotFoundError):
        os.unlink(aside, dir_fd=folder)
    file = os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600, dir_fd=folder)
    with os.fdopen(file, "w", encoding="utf-8", errors="surrogateescape") as opened:
        opened.write(text)
        opened.flush()
        if facts and stat.S_ISREG(facts.st_mode):
            os.fchown(file, facts.st_uid, facts.st_gid)
            mode = stat.S_IMODE(facts.st_mode)
        os.fchmod(file, mode)
        os.fsync(file)
    os.rename(aside, name, src_dir_fd=folder, dst_dir_fd=folder)


def _image_sudoers(volume: Path, revision: str) -> frozenset[str] | None:
    """The files that the image has in sudoers.d; None for a root of before this was noted."""
    noted = inventory.load_image(volume, revision)
    return None if noted is None else frozenset(noted.sudoers)


def _load(path: Path) -> dict[people.Entry, str] | None:
    if not path.exists():
        return None
    return {(kind, name): text for kind, name, text in json.loads(path.read_text())}


def _save(path: Path, entries: Mapping[people.Entry, str]) -> None:
    write_durably(path, json.dumps([[*entry, text] for entry, text in sorted(entries.items())]) + "\n")
    path.chmod(0o600)
