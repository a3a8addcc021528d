"""Reports what users changed in a root since it was made, so that its deletion loses nothing unseen."""

import stat
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from slurm_node.accounts import accounts, image_note, users
from slurm_node.pod import paths, settings
from slurm_node.pod.durable import write_durably
from slurm_node.pod.log import NodeError, say
from slurm_node.roots import inventory

CARRIED = tuple(f"etc/{name}" for name in accounts.FILES)
"""Files of users, which are the same in all roots."""
VOLATILE = (
    *("var/log", "var/cache", "var/tmp", "var/lib/dpkg", "var/lib/apt", "var/spool/slurmd"),
    *("etc/ld.so.cache", "etc/.pwd.lock"),
)
"""Files that programs write by themselves."""
SUDOERS = f"etc/{users.SUDOERS}/"
SHOWN = 200


@dataclass(frozen=True, slots=True)
class Report:
    """Changes of one root.

    Attributes:
        packages: name → (version in the image or "", version now or "").
        accounts: system users and groups, which are each root's own.
        files: other differences.
    """

    revision: str
    packages: Mapping[str, tuple[str, str]]
    accounts: inventory.Difference
    files: inventory.Difference

    @property
    def summary(self) -> str:
        """One sentence."""
        if not self.packages and not self.accounts.count and not self.files.count:
            return f"nobody changed the root {self.revision}"
        system = f", {self.accounts.count} system users and groups" if self.accounts.count else ""
        counts = f"{len(self.packages)} packages{system} and {self.files.count} other files"
        return f"people changed {counts} in the root {self.revision}"

    @property
    def text(self) -> str:
        """The whole report, one line for each change."""
        lines = [f"{self.summary} (persistent paths and people are carried over, and not listed)"]
        for name, (before, now) in sorted(self.packages.items()):
            lines.append(f"package {name}: {before or 'not there'} → {now or 'removed'}")
        lines += [f"added system {account}" for account in self.accounts.added]
        lines += [f"gone system {account}" for account in self.accounts.removed]
        for word, names in (("added", self.files.added), ("changed", self.files.changed), ("gone", self.files.removed)):
            lines += [f"{word} /{path}" for path in names[:SHOWN]]
            lines += [f"{word} {len(names) - SHOWN} more"] if len(names) > SHOWN else []
        # A file's name may not be UTF-8.
        return "".join(f"{line}\n" for line in lines).encode(errors="backslashreplace").decode()


def report(volume: Path, revision: str, persistent: Iterable[str]) -> Report:
    """Compares a root with the notes from when it was made.

    Raises:
        NodeError: there are no notes, or there is no such root.
    """
    root = paths.root_of(volume, revision)
    before, image = inventory.load_files(volume, revision), image_note.load(volume, revision)
    if before is None or image is None or not root.is_dir():
        raise NodeError(f"of the root {revision} nothing was noted when it was made, or it is gone")
    now = inventory.packages(root)
    packages = {
        name: (image.packages.get(name, ""), now.get(name, ""))
        for name in now.keys() | image.packages.keys()
        if now.get(name) != image.packages.get(name)
    }
    there = inventory.look(root).files
    changes = inventory.difference(before, there)
    # Empty files and folders are mount points that nodes make, or no loss.
    parents = {path.rpartition("/")[0] for path in there}
    folders = {path for path in changes.added if stat.S_ISDIR(there[path][0]) and path not in parents}
    files = {path for path in changes.added if stat.S_ISREG(there[path][0]) and there[path][3] == 0}
    added = [path for path in changes.added if path not in folders | files]
    known = inventory.files_of_packages(root, packages)
    known -= _edited(root, known, changes, there)
    rules = {path for path in {**before, **there} if path.startswith(SUDOERS)}
    carried = rules - {f"{SUDOERS}{name}" for name in image.sudoers}
    skipped = (*VOLATILE, *carried, *(path.lstrip("/") for path in persistent))
    own = inventory.system_accounts(root)
    noted = inventory.load_system_accounts(volume, revision)
    noted = own if noted is None else noted
    return Report(
        revision,
        packages,
        inventory.Difference(added=sorted(own - noted), removed=sorted(noted - own)),
        inventory.Difference(
            added=_topmost(_told(added, known, skipped)),
            changed=_told(changes.changed, known, skipped),
            removed=_topmost(_told(changes.removed, known, skipped)),
        ),
    )


def write(volume: Path, revision: str, persistent: Iterable[str]) -> Report | None:
    """Stores the report of a root beside it; None if there are no notes about the root."""
    try:
        changed = report(volume, revision, persistent)
    except NodeError:
        return None
    write_durably(paths.facts_of(volume, revision) / "changes.txt", changed.text)
    return changed


def main(revision: str | None = None) -> int:
    """Prints the report of a root, by default of the one that this pod uses."""
    jail = settings.read_jail()
    sys.stdout.write(report(paths.VOLUME, revision or jail.revision, jail.persistent).text)
    return 0


def tell(volume: Path, revision: str, persistent: Iterable[str]) -> bool:
    """Logs what changed in a root, and stores the report; False if that failed, after a warning."""
    try:
        changed = write(volume, revision, persistent)
    except Exception as error:  # Whatever users did to their root: the next root must not wait for its report.
        say(f"warning: what people changed in the root {revision} can't be told: {error}")
        return False
    if changed:
        say(f"{changed.summary}: see manifests/{revision}/changes.txt on the volume")
    return True


def _edited(
    root: Path, known: set[str], changes: inventory.Difference, there: Mapping[str, inventory.Facts]
) -> set[str]:
    """Returns packages' files in /etc that differ from their package. At an upgrade, dpkg keeps such edits."""
    brought = inventory.conffiles(root)
    gone = {path for path in changes.removed if path in known and path in brought}
    files = [path for path in (*changes.added, *changes.changed) if path in known and path.startswith("etc/")]
    plain = (path for path in files if stat.S_ISREG(there[path][0]))
    return gone | {path for path in plain if inventory.checksum(root, path) != brought.get(path)}


def _told(listed: Iterable[str], known: set[str], skipped: tuple[str, ...]) -> list[str]:
    return [
        path
        for path in listed
        if path not in known
        and path not in CARRIED
        and path.rstrip("-") not in CARRIED
        and "/__pycache__/" not in f"{path}/"
        and not any(path == folder or path.startswith(f"{folder}/") for folder in skipped)
    ]


def _topmost(names: list[str]) -> list[str]:
    """Replaces the files of a folder that was added or removed as a whole by the folder itself."""
    whole = set(names)
    return [path for path in names if not any(str(parent) in whole for parent in Path(path).parents)]
