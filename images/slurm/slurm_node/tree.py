"""This node's view of the jail: planned as a list of mounts, built once in the pod's own mount namespace.

The shared root and the persistent paths come from the volume; everything that belongs to one node (devices, processes,
/run, /tmp, names) comes from the pod, so nothing of a node is ever written to the shared file system.
"""

import json
import time
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

from slurm_node import driver, paths
from slurm_node.log import NodeError, say
from slurm_node.settings import Jail
from slurm_node.system import MountFlag, is_mount_point, mount

POLL_SECONDS = 1.0
REMIND_SECONDS = 15.0


class Kind(Enum):
    """How something is mounted."""

    BIND = "bind"
    READ_ONLY = "read-only bind"
    WITH_SUBMOUNTS = "recursive bind"
    FILE = "bind of a file"
    MEMORY = "tmpfs"


@dataclass(frozen=True, slots=True)
class Mount:
    """One line of the tree.

    Attributes:
        kind: how it is mounted.
        source: a path in the pod, or the name of a tmpfs.
        target: a path as the jail's processes see it.
        options: those of a tmpfs.
    """

    kind: Kind
    source: str
    target: str
    options: str = ""


def plan(
    jail: Jail, volume: Path = paths.VOLUME, spool: Path | None = None, nccl_conf: Path | None = None
) -> list[Mount]:
    """Returns the mounts that make the tree, in order.

    Args:
        jail: which revision, which persistent paths.
        volume: where the shared volume is mounted in the pod.
        spool: slurmd's folder, where batch scripts are started from; None on a login node.
        nccl_conf: what NCCL is told on this node; None leaves the image's own file.
    """
    return [
        Mount(Kind.BIND, str(paths.root_of(volume, jail.revision)), "/"),
        *(Mount(Kind.BIND, str(paths.persistent_of(volume, path)), path) for path in sorted(jail.persistent)),
        Mount(Kind.READ_ONLY, str(paths.PREFIX), str(paths.PREFIX)),
        Mount(Kind.WITH_SUBMOUNTS, "/dev", "/dev"),
        # What a job wrote there, kubelet would show as the pod's last words.
        Mount(Kind.FILE, "/dev/null", "/dev/termination-log"),
        Mount(Kind.MEMORY, "shm", "/dev/shm", f"mode=1777,size={jail.shm_mib}m"),  # noqa: S108 - a mount point
        Mount(Kind.WITH_SUBMOUNTS, "/proc", "/proc"),
        Mount(Kind.WITH_SUBMOUNTS, "/sys", "/sys"),
        Mount(Kind.MEMORY, "run", "/run", "mode=755,size=64m"),
        # Sockets answer through a read-only mount; the link to the configuration is nobody's to change.
        Mount(Kind.READ_ONLY, str(paths.SLURM_RUN), str(paths.SLURM_RUN)),
        Mount(Kind.MEMORY, "tmp", "/tmp", f"mode=1777,size={jail.tmp_mib}m"),  # noqa: S108 - a mount point
        *([Mount(Kind.WITH_SUBMOUNTS, str(spool), str(paths.SPOOL))] if spool else []),
        *(Mount(Kind.FILE, name, name) for name in ("/etc/resolv.conf", "/etc/hosts", "/etc/hostname")),
        *([Mount(Kind.FILE, str(nccl_conf), "/etc/nccl.conf")] if nccl_conf else []),
    ]


def wait_for_root(jail: Jail, volume: Path = paths.VOLUME) -> None:
    """Waits, with a word in the log, until the populate Job has completed the revision's root.

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
        time.sleep(POLL_SECONDS)
    if json.loads(manifest.read_text()).get("revision") != jail.revision:
        raise NodeError(f"{manifest} is not the marker of revision {jail.revision}: remove it and populate again")


def build(mounts: list[Mount], tree: Path = paths.TREE) -> None:
    """Makes the tree and, last of all, the marker that the plugin looks for.

    Raises:
        NodeError: a mount failed, with what the pod may lack.
    """
    paths.SLURM_RUN.mkdir(parents=True, exist_ok=True)
    tree.mkdir(parents=True, exist_ok=True)
    # A volume at /run is everybody's to write, and sshd trusts no key file below such a folder.
    tree.parent.chmod(0o755)
    try:
        mount("none", Path("/"), flags=MountFlag.REC | MountFlag.PRIVATE)
        for wanted in mounts:
            _carry_out(wanted, tree / wanted.target.lstrip("/"))
        driver.bring(tree, Path("/proc/self/mountinfo").read_text())
    except OSError as error:
        raise NodeError(
            f"can't build the node's view of the jail: {error.strerror or error}"
            " (the pod needs SYS_ADMIN and an AppArmor profile that allows mount)"
        ) from error
    for name, mode in (("run/lock", 0o1777), ("run/user", 0o755)):
        (tree / name).mkdir(exist_ok=True)
        (tree / name).chmod(mode)
    (tree / "run/.jail-ready").touch(mode=0o444)
    say(f"the jail's view is complete: {len(mounts)} mounts under {tree}")


def _carry_out(wanted: Mount, target: Path) -> None:
    if wanted.kind is Kind.FILE:
        if not Path(wanted.source).exists():
            return
        _regular_file(target)
    else:
        target.mkdir(parents=True, exist_ok=True)
    for source, kind, flags in _calls(wanted):
        mount(source, target, kind, flags, wanted.options if wanted.kind is Kind.MEMORY else "")


def _regular_file(target: Path) -> None:
    # A link here (to systemd's stub, say) would be followed out of the tree.
    if target.is_symlink():
        raise NodeError(f"{target} is a link: populate the root again, it makes a plain file of it")
    if not target.exists():
        target.parent.mkdir(parents=True, exist_ok=True)
        target.touch()


def _calls(wanted: Mount) -> Iterator[tuple[str, str, MountFlag]]:
    match wanted.kind:
        case Kind.MEMORY:
            yield wanted.source, "tmpfs", MountFlag.NOSUID | MountFlag.NODEV
        case Kind.WITH_SUBMOUNTS:
            yield wanted.source, "", MountFlag.BIND | MountFlag.REC
        case Kind.BIND | Kind.FILE:
            yield wanted.source, "", MountFlag.BIND
        case Kind.READ_ONLY:
            yield wanted.source, "", MountFlag.BIND
            yield wanted.source, "", MountFlag.BIND | MountFlag.REMOUNT | MountFlag.RDONLY
