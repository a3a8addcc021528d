"""Removes what steps leave in the pod's own /tmp, which nothing else uses.

For a step with a container, slurmstepd makes the folder of oci.conf's ContainerPath. Then it enters the jail, makes it
there again, and cleans up only there. A user's own client may make slurmd write files (`srun --bcast`).
"""

import contextlib
import shutil
import time
from pathlib import Path

from slurm_node.pod import paths

KEPT_SECONDS = 60.0
"""Age from which on what steps left is removed: a step enters the jail within this time."""
OURS = ".slurm-"


def sweep(folder: Path = paths.CONTAINER_FOLDERS, now: float | None = None) -> None:
    """Removes empty folders of steps after a while, and everything else of that age.

    Args:
        folder: the pod's /tmp.
        now: seconds since the epoch; the present time unless given.
    """
    now = time.time() if now is None else now
    for path in folder.glob(f"{OURS}*/oci-job*"):
        with contextlib.suppress(OSError):  # already removed, or not empty and so not ours
            if now - path.stat().st_mtime > KEPT_SECONDS:
                path.rmdir()
    for path in folder.iterdir():
        with contextlib.suppress(OSError):
            # A client may set a file's mtime, but not its ctime.
            if not path.name.startswith(OURS) and now - path.lstat().st_ctime > KEPT_SECONDS:
                _remove(path)


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink()
