"""The writable part of the pod's own root, besides the daemons' /run and slurmd's spool.

slurmd writes a file of `srun --bcast` before it knows the jail, as the user, to any path that he names. So the pod's
root is read-only. Folders that everybody must write to are small, in memory, and noexec.
"""

from contextlib import suppress
from pathlib import Path

from slurm_node.pod.log import NodeError
from slurm_node.pod.system import MountFlag, mount

TMP = Path("/tmp")  # noqa: S108 - the pod's own
TMP_MIB = 16
"""Size of /tmp, where slurmstepd makes folders. It counts as the pod's memory, outside of any job."""
TERMINATION_LOG = Path("/dev/termination-log")
"""A file on the Kubernetes node's disk, which kubelet makes writable for everybody."""


def close() -> None:
    """Mounts a small /tmp for users of the pod's root.

    Raises:
        NodeError: the kernel or the runtime does not allow it.
    """
    flags = MountFlag.NOSUID | MountFlag.NODEV | MountFlag.NOEXEC
    try:
        mount("tmp", TMP, "tmpfs", flags, f"mode=1777,size={TMP_MIB}m,nr_inodes=4096")
        with suppress(FileNotFoundError):
            TERMINATION_LOG.chmod(0o600)
    except OSError as error:
        raise NodeError(f"can't mount the pod's /tmp: {error.strerror} (the pod needs SYS_ADMIN)") from error
