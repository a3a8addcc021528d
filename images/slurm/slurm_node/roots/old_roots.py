"""Finds out which roots are in use, and deletes unused ones that are too many.

Every few minutes each pod touches a file beside the roots, to show that it uses its root. All times are the file
server's, so no clocks are compared. A job lives in a pod, so no pod means no job. The next pod needs a root that the
configuration names, even if no pod uses it now.
"""

import fcntl
import shutil
import subprocess
from collections.abc import Collection, Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from slurm_node.accounts import account_sync
from slurm_node.pod import paths
from slurm_node.pod.log import say
from slurm_node.roots import root_report

TOUCH_SECONDS = 300.0
UNUSED_SECONDS = 3600.0
"""A root without a touch for so long is unused: twelve touches are missing."""
COLLECT_SECONDS = 600.0


@dataclass(frozen=True, slots=True)
class OldRoot:
    """A complete root; times in seconds of the file server's clock."""

    revision: str
    made: float
    used: float

    @property
    def last(self) -> float:
        """The time at which it was last made or used."""
        return max(self.made, self.used)


def surplus(roots: Iterable[OldRoot], keep: int, now: float, named: Collection[str]) -> list[str]:
    """Returns the revisions to delete: unused, not named, and not among the last used.

    Args:
        roots: all complete roots.
        keep: how many stay in any case, those in use included.
        now: the time.
        named: revisions that the configuration names. If it is empty, it could not be read, and nothing is deleted.
    """
    if not named:
        return []
    by_last = sorted(roots, key=lambda root: root.last, reverse=True)
    unused = [root.revision for root in by_last[max(keep, 1) :] if now - root.last > UNUSED_SECONDS]
    return [revision for revision in unused if revision not in named]


def named(folder: Path = paths.ETC_ROOTS) -> frozenset[str]:
    """Returns the revisions that the stack's configuration names; empty if that is unknown."""
    with suppress(FileNotFoundError):
        return frozenset(file.name for file in folder.iterdir() if not file.name.startswith("."))
    return frozenset()


class Use:
    """Touches a file to show that this pod uses a root. Only a separate process waits for storage that hangs."""

    def __init__(self, revision: str, pod: str, volume: Path = paths.VOLUME) -> None:
        self._file = _uses(volume, revision) / pod
        self._process: subprocess.Popen[bytes] | None = None
        self._next = 0.0

    def tick(self, now: float) -> None:
        """Called often; returns at once."""
        # poll() each time, since it reaps a process that has ended.
        runs = self._process is not None and self._process.poll() is None
        if runs or now < self._next:
            return
        self._next = now + TOUCH_SECONDS
        script = 'mkdir -p "${1%/*}" && touch "$1"'
        self._process = subprocess.Popen(["sh", "-c", script, "use", str(self._file)], stdin=subprocess.DEVNULL)


def read(volume: Path) -> list[OldRoot]:
    """Reads which complete roots there are and when they were used."""
    return [_read(volume, revision) for revision in account_sync.complete_roots(volume)]


def in_use(volume: Path) -> list[str]:
    """Returns the complete roots that pods use now or used within the hour."""
    now = _now(volume)
    return [root.revision for root in read(volume) if now - root.used <= UNUSED_SECONDS]


def _now(volume: Path) -> float:
    """The file server's time."""
    clock = volume / "manifests/.clock"
    clock.touch()
    return clock.stat().st_mtime


def _read(volume: Path, revision: str) -> OldRoot:
    uses = _uses(volume, revision)
    times = [file.stat().st_mtime for file in uses.iterdir()] if uses.is_dir() else []
    return OldRoot(revision, paths.manifest_of(volume, revision).stat().st_mtime, max(times, default=0.0))


def collect(volume: Path, keep: int, persistent: Iterable[str], named: Collection[str]) -> None:
    """Deletes roots that are unused, not named and too many. Their report keeps the list of users' changes.

    It holds populate's lock, so that no root is deleted while it becomes the newest again. While a root is being made,
    nothing is deleted.
    """
    with (volume / "manifests/.lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return
        _collect(volume, keep, persistent, named)


def _collect(volume: Path, keep: int, persistent: Iterable[str], named: Collection[str]) -> None:
    now = _now(volume)
    for revision in surplus(read(volume), keep, now, named):
        root = paths.root_of(volume, revision)
        if not root_report.tell(volume, revision, persistent):
            continue
        aside = root.with_name(f".collecting-{revision}")
        root.rename(aside)
        if _read(volume, revision).used > now:  # a pod began to use it at this moment
            aside.rename(root)
            continue
        paths.manifest_of(volume, revision).unlink()
        say(f"deleting the root {revision}: nobody uses it, no configuration names it, and {keep} newer ones are there")
    for aside in (volume / "roots").glob(".collecting-*"):
        if _delete(aside):
            shutil.rmtree(_uses(volume, aside.name.removeprefix(".collecting-")), ignore_errors=True)


def _delete(root: Path) -> bool:
    """Deletes a root. Users may have nested folders deeper than Python can delete.

    The next check tries again to delete the rest, such as a file that is still open on NFS.
    """
    done = subprocess.run(["rm", "-rf", "--", str(root)], stdin=subprocess.DEVNULL, capture_output=True, check=False)
    if done.returncode == 0:
        return True
    reason = done.stderr.decode(errors="replace").partition("\n")[0]
    held = next((path for path in _silly_names(root)), None)
    why = f"a process on this node still has {held} open" if held else reason
    say(f"{root.name} is not deleted whole: {why}; trying again in {COLLECT_SECONDS / 60:.0f} minutes")
    return False


def _silly_names(root: Path) -> Iterable[Path]:
    """Prefix of names that an NFS client gives to deleted files that are still open (nfs(5), "silly rename")."""
    return root.rglob(".nfs*")


def _uses(volume: Path, revision: str) -> Path:
    return paths.facts_of(volume, revision) / "uses"
