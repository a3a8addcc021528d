"""This node's view of the jail, planned as a list of mounts.

The shared root and the persistent paths come from the volume. What belongs to one node comes from the pod: devices,
processes, /run, /tmp, names. So nothing of a node is ever written to the shared file system.
"""

from dataclasses import dataclass
from enum import Enum
from pathlib import Path

from slurm_node.pod import paths
from slurm_node.pod.settings import Jail, Submount


class Kind(Enum):
    """Kind of a mount."""

    BIND = "bind"
    READ_ONLY = "read-only bind"
    VOLUME = "bind without devices and set-id programs"
    READ_ONLY_VOLUME = "the same, read-only"
    WITH_SUBMOUNTS = "recursive bind"
    DEVICES = "the same, itself read-only"
    FILE = "read-only bind of a file"
    COVER = "bind of /dev/null over a file that the pod may have"
    MEMORY = "tmpfs"


@dataclass(frozen=True, slots=True)
class Mount:
    """One line of the tree.

    Attributes:
        kind: how it is mounted.
        source: a path in the pod, or the name of a tmpfs.
        target: a path as the jail's processes see it.
        options: those of a tmpfs.
        everybodys: whether every user may write to the source, like /tmp.
    """

    kind: Kind
    source: str
    target: str
    options: str = ""
    everybodys: bool = False


def plan(
    jail: Jail,
    volume: Path = paths.VOLUME,
    spool: Path | None = None,
    nccl_conf: Path | None = None,
    task_scripts: Path | None = None,
) -> list[Mount]:
    """Returns the mounts that make the tree, in order.

    Args:
        jail: which revision, which persistent paths.
        volume: where the shared volume is mounted in the pod.
        spool: slurmd's folder, where batch scripts are started from; None on a login node.
        nccl_conf: NCCL's configuration file of this node; None keeps the image's own.
        task_scripts: the folder with the site's task prologs and epilogs; None on a login node.
    """
    return [
        Mount(Kind.BIND, str(paths.root_of(volume, jail.revision)), "/"),
        *(Mount(Kind.BIND, str(paths.persistent_of(volume, path)), path) for path in sorted(jail.persistent)),
        Mount(Kind.READ_ONLY, str(paths.PREFIX), str(paths.PREFIX)),
        # Root in a job would put a link to a file of the pod in the place of its /dev/null.
        Mount(Kind.DEVICES, "/dev", "/dev"),
        # Kubelet would show what a job wrote there as the pod's termination message.
        Mount(Kind.COVER, "/dev/termination-log", "/dev/termination-log"),
        Mount(Kind.MEMORY, "shm", "/dev/shm", f"mode=1777,size={jail.shm_mib}m"),  # noqa: S108 - a mount point
        Mount(Kind.WITH_SUBMOUNTS, "/proc", "/proc"),
        Mount(Kind.WITH_SUBMOUNTS, "/sys", "/sys"),
        Mount(Kind.MEMORY, "run", "/run", "mode=755,size=64m"),
        # Read-only: sockets still answer, and nobody can change the link to the configuration.
        Mount(Kind.READ_ONLY, str(paths.SLURM_RUN), str(paths.SLURM_RUN)),
        # Jobs keep this part of /run (job_mounts.c). Kubelet changes files behind the mount.
        *([Mount(Kind.READ_ONLY, str(task_scripts), str(paths.JAIL_TASK_SCRIPTS))] if task_scripts else []),
        Mount(Kind.MEMORY, "tmp", "/tmp", f"mode=1777,size={jail.tmp_mib}m"),  # noqa: S108 - a mount point
        *([Mount(Kind.WITH_SUBMOUNTS, str(spool), str(paths.SPOOL))] if spool else []),
        # Kubelet lets a pod write its /etc/hosts, by which daemons find slurmctld.
        *(Mount(Kind.FILE, name, name) for name in ("/etc/resolv.conf", "/etc/hosts", "/etc/hostname")),
        *([Mount(Kind.FILE, str(nccl_conf), "/etc/nccl.conf")] if nccl_conf else []),
        *(of_submount(submount) for submount in jail.submounts),
    ]


def of_submount(wanted: Submount) -> Mount:
    """Returns the mount of a submount."""
    if wanted.memory_mib:
        return Mount(Kind.MEMORY, "submount", wanted.path, f"mode=1777,size={wanted.memory_mib}m")
    kind = Kind.READ_ONLY_VOLUME if wanted.read_only else Kind.VOLUME
    return Mount(kind, wanted.source, wanted.path, everybodys=wanted.everybodys)
