"""The populate Job: makes a complete root of the jail image on the shared volume.

A root is built under another name, renamed when it is complete, and only then marked. It does not touch older roots,
and only deletes what it wrote itself.
"""

import fcntl
import json
import shutil
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path

from slurm_node.accounts import account_sync
from slurm_node.pod import durable, paths, settings
from slurm_node.pod.durable import write_durably
from slurm_node.pod.log import NodeError, say
from slurm_node.pod.system import is_mount_point, sync_file_system
from slurm_node.roots import (
    completion,
    image_root,
    initial_users,
    inventory,
    nfs_mounts,
    old_roots,
    root_report,
    volume_probe,
)
from slurm_node.roots.copying import MEBIBYTE, Copy

IMAGE_SECONDS = 120.0
POLL_SECONDS = 0.2
ROOM_TO_SPARE = 1.05


def main() -> int:
    """Makes the root of SLURM_JAIL's revision, unless it is complete, and adds missing initial users."""
    jail, users = settings.read_jail(), settings.read_users()
    volume = paths.VOLUME
    if not is_mount_point(volume):
        raise NodeError(f"{volume} is not a mount: the pod has no jail volume")
    volume_probe.check(volume)
    try:
        # The first flush reports an earlier write error of another process, which has nothing to do with this root.
        with suppress(OSError):
            sync_file_system(volume)
        with _alone(volume):
            _populate(jail, users, volume)
    except OSError as error:
        raise NodeError(f"populating {volume} failed: {error}") from error
    return 0


def _populate(jail: settings.Jail, users: tuple[settings.User, ...], volume: Path) -> None:
    root = paths.root_of(volume, jail.revision)
    manifest = paths.manifest_of(volume, jail.revision)
    if manifest.exists() and root.is_dir():
        say(f"the root {jail.revision} is complete")
        completion.seed_persistent(root, jail, volume)
        account_sync.synchronize(volume, needed=jail.revision)
        initial_users.add(root, users, volume)
        account_sync.synchronize(volume)
        _tell_changes(volume, jail, last=True)
        return
    started = time.monotonic()
    # The root that pods use. After a rollback it is not the root that was completed last.
    used = old_roots.in_use(volume) or account_sync.complete_roots(volume)[:1]
    building = root.with_name(f".building-{jail.revision}")
    copied = 0
    if not root.is_dir():
        source = wait_for_image()
        image_root.check(source)
        copied = copy_image(source, building, manifest.with_name(f".building-{jail.revision}.json"), volume)
        completion.complete_root(building)
        inventory.note_image(building, volume, jail.revision)
        # After this, a restarted Job takes the root for copied. So all of its files have to be on the disk.
        durable.move_root(building, root)
    completion.seed_persistent(root, jail, volume)
    # Existing users first, so that an initial user who exists keeps his id.
    account_sync.synchronize(volume, joining=jail.revision)
    initial_users.add(root, users, volume)
    inventory.note_files(root, volume, jail.revision)
    # Before the marker: after it, a restarted Job no longer knows what to report.
    write_durably(_to_tell(volume, jail), "".join(f"{revision}\n" for revision in used))
    sync_file_system(volume)
    write_durably(manifest, json.dumps({"revision": jail.revision, "bytes": copied, "made": int(time.time())}) + "\n")
    manifest.with_name(f".building-{jail.revision}.json").unlink(missing_ok=True)
    account_sync.synchronize(volume)
    say(f"the root {jail.revision} is complete after {time.monotonic() - started:.0f} s")
    _tell_changes(volume, jail)


def _to_tell(volume: Path, jail: settings.Jail) -> Path:
    return paths.facts_of(volume, jail.revision) / "to-tell"


def _tell_changes(volume: Path, jail: settings.Jail, *, last: bool = False) -> None:
    """Reports users' changes of the roots that were in use when this one was made, unless that is done.

    Args:
        volume: the shared volume.
        jail: settings of the new root, which is complete and does not wait for the report.
        last: give up after one more interruption of the Job, which an old root of millions of files could cause.
    """
    note = _to_tell(volume, jail)
    if not note.exists():
        return
    revisions = note.read_text().split()
    if last:
        note.unlink()
    for revision in revisions:
        root_report.tell(volume, revision, jail.persistent)
    note.unlink(missing_ok=True)


@contextmanager
def _alone(volume: Path) -> Iterator[None]:
    """Holds the volume's lock, since a Job's second pod may start while the first is still ending."""
    folder = volume / "manifests"
    folder.mkdir(exist_ok=True)
    with (folder / ".lock").open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say("another populate is at work on this volume: waiting for it")
            fcntl.flock(file, fcntl.LOCK_EX)
        yield


def wait_for_image() -> Path:
    """Returns the image's root, as the root of the process that the pod runs in the jail image.

    Raises:
        NodeError: no such process appeared.
    """
    deadline = time.monotonic() + IMAGE_SECONDS
    file = paths.TOOLS / "pid"
    while time.monotonic() < deadline:
        if file.exists():
            root = Path("/proc") / file.read_text().strip() / "root"
            try:
                root.stat()
            except PermissionError:
                raise NodeError(f"{root} may not be read: the pod needs SYS_PTRACE, or equal users") from None
            except FileNotFoundError:  # the file is from a container that has restarted since
                pass
            else:
                return root
        time.sleep(POLL_SECONDS)  # No container is told of another one's start.
    raise NodeError(f"the jail image's container did not start in {IMAGE_SECONDS:.0f} s: see the pod's events")


def _remedy(missing: list[str]) -> str:
    only_times = all(entry.rpartition("(")[2].startswith("time ") for entry in missing)
    return f": {nfs_mounts.TIMES_LOST}" if only_times else ""


def copy_image(source: Path, building: Path, journal: Path, volume: Path) -> int:
    """Checks the free space and copies the image's root under another name; returns its size in bytes."""
    image = inventory.look(source)
    there = inventory.look(building).size if journal.exists() and building.exists() else 0
    free = shutil.disk_usage(volume).free
    needed = int(image.size * ROOM_TO_SPARE) - there
    if free < needed:
        raise NodeError(
            f"the jail image needs {needed // MEBIBYTE} MiB and the jail volume has {free // MEBIBYTE} MiB free:"
            " enlarge pulumi-slurm:jail.storage.size or remove old roots"
        )
    if building.exists() and not journal.exists():
        raise NodeError(f"{building} is there without its journal: remove it")
    write_durably(journal, journal.read_text() if journal.exists() else "[]")
    for last_attempt in (False, True):
        copy = Copy(source, building, journal, image.size)
        # The disk still writes while the copy is verified from memory.
        with ThreadPoolExecutor(1) as beside:
            try:
                copy.run()
            finally:
                noted = beside.submit(copy.note)
            missing = inventory.missing(image, source, building)
        noted.result()
        if copy.bare:
            lost = f"{len(copy.bare)} files: {copy.bare[0]}" + (" …" if copy.bare[1:] else "")
            say(f"warning: the storage keeps no extended attributes, such as file capabilities, of {lost}")
        if not missing:
            break
        if last_attempt:
            raise NodeError(
                f"the copy differs from the image in {len(missing)} files, such as {missing[0]}{_remedy(missing)}"
            )
        say(f"{len(missing)} files of the copy differ from the image, such as {missing[0]}: copying again")
        write_durably(journal, "[]")
    return image.size
