"""The populate Job: makes a complete root of the jail image on the shared volume.

A root is built aside, renamed when it is whole, and only then marked. An older root is not touched, and nothing is
deleted that this program did not write.
"""

import fcntl
import json
import os
import shutil
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path

from slurm_node.accounts import account_files, account_sync, accounts
from slurm_node.jail import driver
from slurm_node.pod import durable, paths, resolve_beneath, settings
from slurm_node.pod.durable import write_durably
from slurm_node.pod.log import NodeError, say
from slurm_node.pod.system import is_mount_point, opened_inside, sync_file_system
from slurm_node.roots import image_root, inventory, old_roots, root_report, volume_probe
from slurm_node.roots.copying import MEBIBYTE, Copy

IMAGE_SECONDS = 120.0
POLL_SECONDS = 0.2
ROOM_TO_SPARE = 1.05
MOUNT_POINTS = ("dev", "proc", "sys", "run", "opt/slurm", "var/spool/slurmd")
EMPTY_FILES = ("etc/hosts", "etc/hostname", "etc/resolv.conf")
SUDOERS = "pulumi-slurm"
SUDO_RULE = "# Members of sudo have no password: they come by key.\n%sudo ALL=(ALL:ALL) NOPASSWD: ALL\n"


def main() -> int:
    """Makes the root of SLURM_JAIL's revision, unless it is complete, and adds the initial users that it lacks."""
    jail, users = settings.read_jail(), settings.read_users()
    volume = paths.VOLUME
    if not is_mount_point(volume):
        raise NodeError(f"{volume} is not a mount: the pod has no jail volume")
    volume_probe.check(volume)
    try:
        # An error of somebody's earlier write is told to who synchronizes first, and says nothing about this root.
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
        seed_persistent(root, jail, volume)
        account_sync.synchronize(volume, needed=jail.revision)
        add_users(root, users, volume)
        account_sync.synchronize(volume)
        _tell_changes(volume, jail, last=True)
        return
    started = time.monotonic()
    # Where pods are, which after going back is not the root that was completed last.
    used = old_roots.in_use(volume) or account_sync.complete_roots(volume)[:1]
    building = root.with_name(f".building-{jail.revision}")
    copied = 0
    if not root.is_dir():
        source = wait_for_image()
        image_root.check(source)
        copied = copy_image(source, building, manifest.with_name(f".building-{jail.revision}.json"), volume)
        complete_root(building)
        inventory.note_image(building, volume, jail.revision)
        # A root without its marker is taken for whole: what it names has to be on the disk.
        durable.move_root(building, root)
    seed_persistent(root, jail, volume)
    # The users first: an initial user who was made before keeps his id.
    account_sync.synchronize(volume, joining=jail.revision)
    add_users(root, users, volume)
    inventory.note_files(root, volume, jail.revision)
    # Before the marker, after which a Job that is started again does not know it any more.
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
    """Tells what users changed in the roots that were in use when this one was made, unless that is done.

    Args:
        volume: the shared volume.
        jail: of the new root, which is complete: it waits for no report.
        last: give up if it ends the Job once more, as an old root of millions of files could.
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
    """Holds the volume's lock: a Job's pod may be started a second time while the first is still ending."""
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
    """Returns the image's root: that of the process which the pod runs in the jail image.

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
            except FileNotFoundError:  # the file is of a container that has been started again since
                pass
            else:
                return root
        time.sleep(POLL_SECONDS)
    raise NodeError(f"the jail image's container did not start in {IMAGE_SECONDS:.0f} s: see the pod's events")


def copy_image(source: Path, building: Path, journal: Path, volume: Path) -> int:
    """Copies the image's root aside, after a look whether there is room; returns its size in bytes."""
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
        # While the disk takes what it does not have yet, the copy is looked at in memory.
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
            raise NodeError(f"the copy differs from the image in {len(missing)} files, such as {missing[0]}")
        say(f"{len(missing)} files of the copy differ from the image, such as {missing[0]}: copying again")
        write_durably(journal, "[]")
    return image.size


def complete_root(root: Path) -> None:
    """Adds what a node needs: mount points, Slurm's commands and user.

    Raises:
        NodeError: the image has a symbolic link where something is to be mounted.
    """
    for name in MOUNT_POINTS:
        with resolve_beneath.folder(root, f"/{name}"):
            pass
    with resolve_beneath.folder(root, "/tmp") as tmp:  # noqa: S108 - of the root
        tmp.chmod(0o1777)
    for name in EMPTY_FILES:
        with resolve_beneath.in_words(f"/{name}"):
            resolve_beneath.make_folder(root, f"/{name.rpartition('/')[0]}")
            resolve_beneath.make_file(root, f"/{name}")
    link_commands(root)
    driver.link(root)
    with account_files.etc(root) as etc:
        before = account_files.read(etc)
        account_files.write(etc, before, accounts.with_slurm(before))


def link_commands(root: Path) -> None:
    """Puts Slurm's commands on everybody's PATH, and slurmstepd where `sbatch --get-user-env` calls it."""
    programs = {program.name: program for program in (paths.PREFIX / "bin").iterdir()}
    # /usr/local/bin comes first on Debian's PATH; the one that a shell without a profile has, as busybox's, lacks it.
    for folder in ("/usr/local/bin", "/usr/bin"):
        _link_into(root, folder, programs)
    _link_into(root, "/usr/sbin", {"slurmstepd": paths.PREFIX / "sbin/slurmstepd"})


def _link_into(root: Path, folder: str, wanted: Mapping[str, Path]) -> None:
    # Some distributions' /usr/sbin is a link to bin.
    there = image_root.inside(root, folder)
    try:
        with resolve_beneath.folder(root, f"/{there.relative_to(root)}" if there else folder) as opened:
            for name, target in wanted.items():
                if not os.path.lexists(opened / name):
                    (opened / name).symlink_to(target)
    except NodeError as error:
        say(f"no links to Slurm's commands in {folder}: {error}")


def seed_persistent(root: Path, jail: settings.Jail, volume: Path) -> None:
    """Gives each persistent path, once, what the root has there; the root may be in use."""
    for path in sorted(jail.persistent):
        target = paths.persistent_of(volume, path)
        with resolve_beneath.folder(root, path) as inside:
            if target.exists():
                tell_hidden(inside, target, path)
                continue
            # Beside it, where no mount shows it to users.
            aside = target.with_name(f".seeding-{target.name}")
            aside.parent.mkdir(parents=True, exist_ok=True)
            if aside.exists():  # ours, of an attempt that was ended
                shutil.rmtree(aside)
            resolve_beneath.copy_out(inside, aside)
        durable.move(aside, target)


def tell_hidden(inside: Path, target: Path, path: str) -> None:
    """Says what an image has under a persistent path and nobody will see, since the path has content of its own."""
    hidden = sorted(each.name for each in inside.iterdir() if not (target / each.name).exists())
    if hidden:
        shown = ", ".join(hidden[:5]) + (" …" if hidden[5:] else "")
        say(f"warning: the image has {shown} in {path}, which is persistent: it is not taken over, copy it by hand")


def add_users(root: Path, users: tuple[settings.User, ...], volume: Path) -> None:
    """Adds the initial users whose names the root does not have; who is there is left as he is.

    One who has an account and no home gets it: an attempt before may have ended between the two.
    """
    shell = "/bin/bash" if image_root.inside(root, "/bin/bash") else "/bin/sh"
    with account_files.locked(root) as etc:
        before = after = account_files.read(etc)
        for user in users:
            after = accounts.with_user(after, user, shell)
        account_files.write(etc, before, after)
        if any(user.sudo for user in users):
            _allow_sudo(etc)
    for user in users:
        if after.homes().get(user.name) == f"/home/{user.name}":
            make_home(root, volume, user, after.ids("passwd")[user.name])
        if user.name not in before.names("passwd"):
            say(f"added the user {user.name}")


def _allow_sudo(etc: int) -> None:
    with account_files.sudoers(etc) as folder:
        if folder is not None and SUDOERS not in account_files.names(folder):
            account_files.replace(folder, SUDOERS, SUDO_RULE, 0o440)


def make_home(root: Path, volume: Path, user: settings.User, number: int) -> None:
    """Makes an initial user's home, with the skeleton and the keys that open it; an existing home is left alone."""
    persistent = paths.persistent_of(volume, "/home")
    with opened_inside(persistent, "/") if persistent.is_dir() else resolve_beneath.folder(root, "/home") as homes:
        if os.path.lexists(homes / user.name):
            return
        # Made where users see nothing of it, since /home is theirs to change, and renamed when it is whole.
        aside = volume / "accounts" / f"home-{user.name}"
        aside.parent.mkdir(mode=0o700, exist_ok=True)
        if aside.exists():
            shutil.rmtree(aside)
        copy_skeleton(root, aside)
        _give_keys(aside, user)
        for path in [aside, *aside.rglob("*")]:
            os.chown(path, number, number, follow_symlinks=False)
        durable.move(aside, homes / user.name)


def copy_skeleton(root: Path, home: Path) -> None:
    """Begins a home with what the root has for each, if it has anything."""
    try:
        with resolve_beneath.in_words("/etc/skel"), opened_inside(root, "/etc/skel/.") as skeleton:
            resolve_beneath.copy_out(skeleton, home)
    except FileNotFoundError:
        return
    except NodeError as error:
        say(f"a home begins without the skeleton: {error}")


def _give_keys(home: Path, user: settings.User) -> None:
    keys = home / ".ssh/authorized_keys"
    for folder in (home, keys.parent):
        folder.mkdir(exist_ok=True)
    keys.write_text("".join(f"{key}\n" for key in user.ssh_public_keys))
    for path, mode in ((home, 0o750), (keys.parent, 0o700), (keys, 0o600)):
        path.chmod(mode)
