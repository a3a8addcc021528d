"""Removes what steps leave in the pod's own /tmp, which nobody there uses.

For a step with a container slurmstepd makes a folder as oci.conf's ContainerPath says. Then it enters the jail, makes
it there again, and cleans up there. A client of a user's own may have slurmd write files (`srun --bcast`).
"""

import contextlib
import shutil
import time
from pathlib import Path

from slurm_node.pod import paths

KEPT_SECONDS = 60.0
"""A step enters the jail within this time."""
OURS = ".slurm-"


def sweep(folder: Path = paths.CONTAINER_FOLDERS, now: float | None = None) -> None:
    """Removes empty folders of steps that began a while ago, and all else that is as old.

    Args:
        folder: where they are.
        now: seconds since the epoch; the present time unless given.
    """
    now = time.time() if now is None else now
    for path in folder.glob(f"{OURS}*/oci-job*"):
        with contextlib.suppress(OSError):  # gone by itself, or not empty and so not ours
            if now - path.stat().st_mtime > KEPT_SECONDS:
                path.rmdir()
    for path in folder.iterdir():
        with contextlib.suppress(OSError):
            # A file's own time is the client's to say; when it was made is not.
            if not path.name.startswith(OURS) and now - path.lstat().st_ctime > KEPT_SECONDS:
                _remove(path)


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink()
