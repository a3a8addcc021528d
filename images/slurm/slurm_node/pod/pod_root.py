"""What of the pod's own root somebody may write to, besides the daemons' /run and slurmd's spool.

slurmd writes a file of `srun --bcast` before it knows of the jail, as the user, wherever he names. The pod's root is
read-only. What everybody must write to is small, in memory, and no place to run anything from.
"""

from contextlib import suppress
from pathlib import Path

from slurm_node.pod.log import NodeError
from slurm_node.pod.system import MountFlag, mount

TMP = Path("/tmp")  # noqa: S108 - the pod's own
TMP_MIB = 16
"""slurmstepd makes folders there; it counts as the pod's memory, outside of any job."""
LAST_WORDS = Path("/dev/termination-log")
"""A file of the machine's disk, which kubelet makes everybody's to write."""


def close() -> None:
    """Leaves users of the pod's root a small /tmp.

    Raises:
        NodeError: the kernel or the runtime does not allow it.
    """
    flags = MountFlag.NOSUID | MountFlag.NODEV | MountFlag.NOEXEC
    try:
        mount("tmp", TMP, "tmpfs", flags, f"mode=1777,size={TMP_MIB}m,nr_inodes=4096")
        with suppress(FileNotFoundError):
            LAST_WORDS.chmod(0o600)
    except OSError as error:
        raise NodeError(f"can't mount the pod's /tmp: {error.strerror} (the pod needs SYS_ADMIN)") from error
