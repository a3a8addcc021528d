"""Records a root's files and packages when it is made, and compares a root with that record.

Like rsync, it takes a file for changed when its kind, mode, owner, size, time or link changed. It reads no contents,
except a sample of a fresh copy, so that 200,000 files take seconds.
"""

import errno
import gzip
import hashlib
import json
import os
import stat
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from slurm_node.accounts import account_files, accounts, image_note
from slurm_node.pod import paths
from slurm_node.pod.durable import write_durably
from slurm_node.pod.system import opened_inside
from slurm_node.roots import image_root

Facts = tuple[int, int, int, int, int, str]
"""Mode with kind, owner, group, size, time in seconds, target of a link. Folders have no size and time."""
SAMPLED_FILES, SAMPLED_BYTES = 1000, 1 << 16
PASSED_OVER = (errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.ESTALE, errno.EINVAL, errno.ENAMETOOLONG)
"""Errors of a listed path that is gone, or is another kind of file by then.

The last one: the path is longer than the limit, since users can nest folders.
"""
_LARGEST_LIST = 256 << 20  # dpkg's status of 5,000 packages has 8 MiB.
DPKG_STATUS = "var/lib/dpkg/status"
DPKG_LISTS = "var/lib/dpkg/info"


@dataclass(slots=True)
class Difference:
    """Paths, relative to the root, that were added, removed or changed."""

    added: list[str] = field(default_factory=list)
    changed: list[str] = field(default_factory=list)
    removed: list[str] = field(default_factory=list)

    @property
    def count(self) -> int:
        """Number of paths that differ."""
        return len(self.added) + len(self.changed) + len(self.removed)


@dataclass(frozen=True, slots=True)
class Tree:
    """Result of one walk through a root.

    Attributes:
        files: each path with its facts, mounts and what is left out excepted.
        size: bytes that they take on a disk.
    """

    files: Mapping[str, Facts]
    size: int


def look(root: Path) -> Tree:
    """Walks through a root."""
    counted: set[int] = set()
    files: dict[str, Facts] = {}
    size = 0
    for path, status, target in _walk(root, "", root.stat().st_dev):
        is_folder = stat.S_ISDIR(status.st_mode)
        if status.st_nlink == 1 or is_folder or status.st_ino not in counted:
            counted.add(status.st_ino)
            size += status.st_blocks * 512
        length, moment = (0, 0) if is_folder else (status.st_size, int(status.st_mtime))
        files[path] = (status.st_mode, status.st_uid, status.st_gid, length, moment, target)
    return Tree(files, size)


def _walk(root: Path, folder: str, device: int) -> Iterator[tuple[str, os.stat_result, str]]:
    folders = [folder]
    while folders:
        for path, status, target in _entries(root, folders.pop()):
            is_folder = stat.S_ISDIR(status.st_mode)
            # Folders only: on an overlay file system a file may report the device of its layer.
            if path in image_root.LEFT_OUT or (is_folder and status.st_dev != device):
                continue
            yield path, status, target
            if is_folder:
                folders.append(path)


def _entries(root: Path, folder: str) -> list[tuple[str, os.stat_result, str]]:
    result = []
    with _in_use(), opened_inside(root, f"/{folder}") as opened:
        for entry in os.scandir(opened):
            with _in_use():
                status = entry.stat(follow_symlinks=False)
                target = str(Path(entry.path).readlink()) if stat.S_ISLNK(status.st_mode) else ""
                result.append((f"{folder}/{entry.name}".lstrip("/"), status, target))
    return result


@contextmanager
def _in_use() -> Iterator[None]:
    """Ignores files that jobs and logins delete or replace during the walk through their root."""
    try:
        yield
    except OSError as error:
        if error.errno not in PASSED_OVER:
            raise


def difference(before: Mapping[str, Facts], now: Mapping[str, Facts]) -> Difference:
    """Compares two listings."""
    return Difference(
        added=sorted(now.keys() - before.keys()),
        changed=sorted(path for path in now.keys() & before.keys() if now[path] != before[path]),
        removed=sorted(before.keys() - now.keys()),
    )


def sample(listing: Mapping[str, Facts], count: int = SAMPLED_FILES) -> list[str]:
    """Returns plain files with content, spread over all of a listing."""
    files = sorted(path for path, facts in listing.items() if stat.S_ISREG(facts[0]) and facts[3])
    return files[:: max(1, -(-len(files) // count))]


def same_beginning(one: Path, other: Path) -> bool:
    """Return whether two files begin with the same bytes."""
    with one.open("rb") as first, other.open("rb") as second:
        return first.read(SAMPLED_BYTES) == second.read(SAMPLED_BYTES)


def missing(image: Tree, source: Path, copy: Path) -> list[str]:
    """Returns the files of an image that a copy lacks or changed, each with what is different.

    Contents are compared for a sample of files.
    """
    there = look(copy).files
    changes = difference(image.files, there)
    if changes.removed or changes.changed:
        differing = [f"{path} ({_differing_facts(image.files[path], there[path])})" for path in changes.changed]
        return [*(f"{path} (not there)" for path in changes.removed), *differing]
    return [f"{path} (content)" for path in sample(image.files) if not same_beginning(source / path, copy / path)]


def _differing_facts(wanted: Facts, there: Facts) -> str:
    rows = zip(("mode", "owner", "group", "size", "time", "link"), there, wanted, strict=True)
    differing = [(name, _fact(name, has), _fact(name, right)) for name, has, right in rows if has != right]
    return ", ".join(f"{name} {has} instead of {right}" for name, has, right in differing)


def _fact(name: str, value: object) -> str:
    return f"{value:o}" if name == "mode" else str(value)


def note_image(root: Path, volume: Path, revision: str) -> None:
    """Notes what the image itself brought into a new root, before users add more: packages, and files of sudoers.d."""
    sudoers = sorted(path.name for path in (root / "etc/sudoers.d").glob("*"))
    image_note.save(volume, revision, image_note.Image(packages(root), tuple(sudoers)))


def note_files(root: Path, volume: Path, revision: str) -> None:
    """Notes every file and system account of a root that nobody uses yet."""
    folder = paths.facts_of(volume, revision)
    write_durably(folder / "system.json", json.dumps(sorted(system_accounts(root))) + "\n")
    aside = folder / ".files.new"
    with gzip.open(aside, "wt", compresslevel=1, encoding="utf-8", errors="surrogateescape") as file:
        for path, facts in look(root).files.items():
            file.write(json.dumps([path, *facts]) + "\n")
    aside.replace(folder / "files.gz")


def load_files(volume: Path, revision: str) -> dict[str, Facts] | None:
    """Reads the noted files of a root; None for an old root without that note."""
    path = paths.facts_of(volume, revision) / "files.gz"
    if not path.exists():
        return None
    with gzip.open(path, "rt", encoding="utf-8", errors="surrogateescape") as file:
        rows = (json.loads(line) for line in file)
        return {row[0]: (row[1], row[2], row[3], row[4], row[5], row[6]) for row in rows}


def load_system_accounts(volume: Path, revision: str) -> set[str] | None:
    """Reads the noted system accounts of a root; None for an old root without that note."""
    path = paths.facts_of(volume, revision) / "system.json"
    return set(json.loads(path.read_text())) if path.exists() else None


def packages(root: Path) -> dict[str, str]:
    """Returns Debian packages that are installed, name → version; empty where dpkg is not used (deb822(5))."""
    result: dict[str, str] = {}
    for block in _text(root, image_root.inside(root, f"/{DPKG_STATUS}")).split("\n\n"):
        fields = dict(line.split(": ", 1) for line in block.splitlines() if ": " in line and line[:1] != " ")
        if fields.get("Status", "").endswith(" installed"):
            result[fields.get("Package", "")] = fields.get("Version", "")
    return result


def system_accounts(root: Path) -> set[str]:
    """Returns the system users and groups, each with its kind, such as "user sshd"."""
    known = accounts.Accounts({})
    with _in_use(), account_files.etc(root) as folder:
        known = account_files.read(folder)
    kinds = {"user": known.ids("passwd"), "group": known.ids("group")}
    return {f"{kind} {name}" for kind, ids in kinds.items() for name in ids if not accounts.is_ordinary(ids[name])}


def conffiles(root: Path) -> dict[str, str]:
    """Returns the configuration files of installed Debian packages: path → MD5 sum of the package's version."""
    lines = _text(root, image_root.inside(root, f"/{DPKG_STATUS}")).splitlines()
    rows = (line.split() for line in lines if line.startswith(" /"))
    return {row[0].lstrip("/"): row[1] for row in rows if len(row) > 1}


def _text(root: Path, path: Path | None) -> str:
    """Reads a plain file; "" for what users may have put in its place: a link, a pipe, an endless file."""
    if path is not None:
        with _in_use(), opened_inside(root, f"/{path.relative_to(root)}") as opened:
            if opened.is_file() and opened.stat().st_size <= _LARGEST_LIST:
                return opened.read_text(errors="replace")
    return ""


def checksum(root: Path, path: str) -> str:
    """Returns the MD5 sum of a plain file of a root, as dpkg notes it; "" for no such file."""
    with _in_use(), opened_inside(root, f"/{path}") as opened:
        if opened.is_file():
            with opened.open("rb") as file:
                return hashlib.file_digest(file, "md5").hexdigest()
    return ""


def files_of_packages(root: Path, names: Iterable[str]) -> set[str]:
    """Returns the files that packages brought, with links such as /bin → usr/bin resolved as the root has them."""
    folder = image_root.inside(root, f"/{DPKG_LISTS}")
    if folder is None:
        return set()
    links = {path: target for path, _, target in _entries(root, "") if target}
    wanted, result = set(names), set[str]()
    for path, _, _ in _entries(root, str(folder.relative_to(root))):
        name, _, kind = path.rpartition("/")[2].rpartition(".")
        if kind != "list" or name.partition(":")[0] not in wanted:
            continue
        for line in _text(root, root / path).splitlines():
            top, slash, rest = line.lstrip("/").partition("/")
            result.add(f"{links.get(top, top).strip('/')}{slash}{rest}")
    return result
