"""This node's view of the jail: the mounts of its plan (tree_plan.py), made once in the pod's own mount namespace.

A mount point that the root lacks is made there, as an empty folder of root's. The folder is the same for every node. A
tmpfs over its parent would hide what users keep beside it. On another node set, where the submount is missing, only
root can write into the folder. So no job fills the shared volume with files for a local disk.

Root in a job may replace a mount point, or a folder above it, by a symbolic link. A mount through it would cover the
pod's own files. So no link is followed on the way to any mount point.
"""

import errno
import json
import os
import time
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path

from slurm_node.jail import driver
from slurm_node.jail.tree_plan import Kind, Mount
from slurm_node.pod import paths, resolve_beneath
from slurm_node.pod.log import NodeError, say
from slurm_node.pod.settings import Jail
from slurm_node.pod.system import (
    MountFlag,
    bind,
    detach,
    is_mount_point,
    mount,
    mount_points,
    mount_table,
    opened_inside,
)

POLL_SECONDS = 1.0
REMIND_SECONDS = 15.0
_TAKEN = {
    Kind.READ_ONLY: MountFlag.RDONLY,
    Kind.DEVICES: MountFlag.RDONLY,
    Kind.FILE: MountFlag.RDONLY,
    Kind.COVER: MountFlag.RDONLY,
    Kind.VOLUME: MountFlag.NOSUID | MountFlag.NODEV,
    Kind.READ_ONLY_VOLUME: MountFlag.NOSUID | MountFlag.NODEV | MountFlag.RDONLY,
}
"""Kind of mount → flags that restrict it."""
_RECURSIVE = (Kind.WITH_SUBMOUNTS, Kind.DEVICES)


def wait_for_root(jail: Jail, volume: Path = paths.VOLUME) -> None:
    """Waits until the populate Job has completed the revision's root, and logs that it waits.

    Raises:
        NodeError: the volume is not mounted, or its marker names another revision.
    """
    if not is_mount_point(volume):
        raise NodeError(f"{volume} is not a mount: the pod has no jail volume")
    manifest = paths.manifest_of(volume, jail.revision)
    reminded = 0.0
    while not manifest.exists():
        if time.monotonic() - reminded >= REMIND_SECONDS or not reminded:
            say(f"waiting for the jail's root {jail.revision}: the populate Job has not completed it yet")
            reminded = time.monotonic()
        time.sleep(POLL_SECONDS)  # inotify does not report changes of shared storage by other nodes.
    if json.loads(manifest.read_text()).get("revision") != jail.revision:
        raise NodeError(f"{manifest} is not the marker of revision {jail.revision}: remove it and populate again")


def build(mounts: Sequence[Mount], tree: Path = paths.TREE) -> None:
    """Makes the tree and, last of all, the marker that the plugin looks for.

    Args:
        mounts: the plan.
        tree: where it is made.

    Raises:
        NodeError: a mount failed; the text says what the pod may lack.
    """
    paths.SLURM_RUN.mkdir(parents=True, exist_ok=True)
    tree.mkdir(parents=True, exist_ok=True)
    # Everybody may write to a volume at /run, and sshd trusts no key file below such a folder.
    tree.parent.chmod(0o755)
    try:
        mount("none", Path("/"), flags=MountFlag.REC | MountFlag.PRIVATE)
        for wanted in mounts:
            make_mount(wanted, tree)
            if wanted.target == "/":
                # Later mounts in it reach jobs' slurmstepd (jail.c), but not their tasks (job_mounts.c).
                mount("none", tree, flags=MountFlag.SHARED)
        _fill_run(tree)
        _mark(mounts, tree)
    except OSError as error:
        lacks = "SYS_ADMIN and an AppArmor profile that allows mount"
        if error.errno == errno.ENOSYS:  # Runtimes give the same error for system calls that are newer than they are.
            lacks = "Linux 5.12 and a container runtime as new"
        why = error.strerror or error
        raise NodeError(f"can't build the node's view of the jail: {why} (the pod needs {lacks})") from error
    say(f"the jail's view is complete: {len(mounts)} mounts under {tree}")


def _fill_run(tree: Path) -> None:
    """Fills a new /run, before anybody else has access to it."""
    driver.bring(tree, mount_table())
    with opened_inside(tree, "/run") as run:
        for name, mode in (("lock", 0o1777), ("user", 0o755)):
            (run / name).mkdir()
            (run / name).chmod(mode)


def _mark(mounts: Iterable[Mount], tree: Path) -> None:
    """Writes the marker atomically and follows no link: root in a login session may write to /run."""
    with opened_inside(tree, "/run") as run:
        aside = run / f"{paths.MARKER.name}.new"
        aside.unlink(missing_ok=True)
        with os.fdopen(os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o444), "w") as marker:
            marker.write(
                "".join(f"{planned.target}\n" for planned in mounts if planned.target != "/" and _has_source(planned))
            )
        aside.replace(run / paths.MARKER.name)


def _has_source(wanted: Mount) -> bool:
    return wanted.kind not in (Kind.FILE, Kind.COVER) or Path(wanted.source).exists()


def missing(mounts: Sequence[Mount], tree: Path = paths.TREE) -> list[Mount]:
    """Returns the mounts of a plan that are missing now, or lie on the wrong mount, in the plan's order.

    It only reads the mount table, which never waits for storage. The root itself is mounted on the pod's own file
    system. Only the pod's administrator can unmount it, and without it nothing can be mounted.
    """
    there, lost = mount_points(), list[Mount]()
    if tree not in there:
        return []
    for planned in mounts[1:]:
        if tree / planned.target.lstrip("/") not in there or _is_below(planned, (one.target for one in lost)):
            lost += [planned] if _has_source(planned) else []
    return lost


def _is_below(wanted: Mount, targets: Iterable[str]) -> bool:
    return wanted.target.startswith(tuple(f"{target}/" for target in targets))


def remount(mounts: Sequence[Mount], tree: Path = paths.TREE) -> str:
    """Mounts again what is missing, except where something is in the way. It hangs while the storage does.

    No job or login starts meanwhile: they need the marker. It is removed while another folder could pass for a mount,
    such as the pod's /dev/shm in a new /dev.

    Returns:
        what was mounted, for the log.

    Raises:
        NodeError: some mounts failed; the text has what was done and what was not. The caller has to try again.
        OSError: no mount was possible.
    """
    # Looks the path up: after the kernel took the root's path for removed, it mounts nothing below before a look-up.
    Path(mounts[0].source).stat()
    lost = missing(mounts, tree)
    if any(planned.kind in _RECURSIVE for planned in lost) and tree / "run" in mount_points():
        with opened_inside(tree, "/run") as run:
            (run / paths.MARKER.name).unlink(missing_ok=True)
    done, failed, reasons = list[str](), list[str](), list[str]()

    def give_up(target: str, error: Exception) -> None:
        reasons.append(f"can't mount {target} again: {error}")
        # Together with the new mount that it stands on, so that no part stays.
        top = next((one for one in done if target == one or target.startswith(f"{one}/")), target)
        failed.append(top)
        _take_away(top, tree)
        done[:] = [one for one in done if one != top and not one.startswith(f"{top}/")]

    for wanted in lost:
        if _is_below(wanted, failed):
            continue
        try:
            _remount_one(wanted, mounts, tree)
            done.append(wanted.target)
        except (NodeError, OSError) as error:
            give_up(wanted.target, error)
    if "/run" in done:
        try:
            _fill_run(tree)
        except (NodeError, OSError) as error:
            give_up("/run", error)
    if done:
        why = "what they stood on was removed or renamed in the shared root, or its storage failed"
        reasons.insert(0, f"mounted {', '.join(done)} again: {why}")
    if "/run" not in failed:
        _mark(mounts, tree)
    if failed:
        raise NodeError("; ".join(reasons))
    return "; ".join(reasons)


def _remount_one(wanted: Mount, mounts: Sequence[Mount], tree: Path) -> None:
    above = [planned.target for planned in mounts[1:] if _is_below(wanted, [planned.target])]
    if any(tree / target.lstrip("/") not in mount_points() for target in above):
        raise NodeError("what it stands on has gone again")
    make_mount(wanted, tree)


def _take_away(target: str, tree: Path) -> None:
    with suppress(OSError), opened_inside(tree, target) as opened:
        detach(opened)


def make_mount(wanted: Mount, tree: Path) -> None:
    """Makes one mount, and its mount point where that is missing.

    Raises:
        NodeError: a symbolic link, or a file where a folder belongs, is in the way.
        OSError: the kernel refused.
    """
    if not _has_source(wanted):
        return
    if wanted.everybodys:
        Path(wanted.source).chmod(0o1777)
    try:
        with resolve_beneath.in_words(wanted.target):
            _ensure_mount_point(wanted, tree)
            with opened_inside(tree, wanted.target) as target:
                _mount(wanted, target)
            if wanted.kind is Kind.WITH_SUBMOUNTS:
                _close_masks(wanted, tree)
    except OSError as error:
        reason = os.strerror(error.errno) if error.errno else str(error)
        raise OSError(error.errno, f"mount {wanted.source} on {wanted.target}: {reason}") from error


def _close_masks(wanted: Mount, tree: Path) -> None:
    """Makes files that are mounted below a folder read-only: runtimes mask some of /proc by the pod's /dev/null.

    Root in a login session would change the mode of /dev/null by them.
    """
    for path in sorted(mount_points()):
        if path.is_relative_to(wanted.source) and not path.is_dir():
            with opened_inside(tree, f"{wanted.target}/{path.relative_to(wanted.source)}") as masked:
                bind(str(path), masked, MountFlag.RDONLY)


def _ensure_mount_point(wanted: Mount, tree: Path) -> None:
    try:
        with opened_inside(tree, wanted.target):
            return
    except FileNotFoundError:
        pass
    if wanted.kind is Kind.FILE:
        resolve_beneath.make_folder(tree, str(Path(wanted.target).parent))
        resolve_beneath.make_file(tree, wanted.target)
    else:
        resolve_beneath.make_folder(tree, wanted.target)


def _mount(wanted: Mount, target: Path) -> None:
    if wanted.kind is Kind.MEMORY:
        mount(wanted.source, target, "tmpfs", MountFlag.NOSUID | MountFlag.NODEV, wanted.options)
    else:
        # Final options from the start: the mount reaches the jobs' slurmstepd at that moment, and stays as it is.
        source = os.devnull if wanted.kind is Kind.COVER else wanted.source
        bind(source, target, _TAKEN.get(wanted.kind, 0), recursive=wanted.kind in _RECURSIVE)
