"""Removes what slurmstepd leaves in the pod for each step with a container: an empty folder that nobody uses.

It makes the folder as oci.conf's ContainerPath says, then enters the jail, makes it there again, and cleans up there.
"""

import contextlib
import time
from pathlib import Path

from slurm_node import paths

KEPT_SECONDS = 60.0
"""A step enters the jail within this time."""


def sweep(folder: Path = paths.CONTAINER_FOLDERS, now: float | None = None) -> None:
    """Removes empty folders of steps that began a while ago.

    Args:
        folder: where they are.
        now: seconds since the epoch; the present time unless given.
    """
    now = time.time() if now is None else now
    for path in folder.glob(".slurm-*/oci-job*"):
        with contextlib.suppress(OSError):  # gone by itself, or not empty and so not ours
            if now - path.stat().st_mtime > KEPT_SECONDS:
                path.rmdir()
