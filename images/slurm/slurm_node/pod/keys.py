"""Keys from a mounted Secret: daemons require an owner and mode that a Secret's volume can't give."""

import os
from pathlib import Path

from slurm_node.pod.log import NodeError


def install(source: Path, target: Path, owner: int | None = None) -> Path:
    """Copies a key to a file that only its owner may read, and returns the copy.

    Args:
        source: file in the mounted Secret.
        target: the copy.
        owner: user id; None: this process's user.
    """
    try:
        content = source.read_bytes()
    except OSError as error:
        raise NodeError(f"key {source}: {error.strerror}: is the Secret mounted?") from error
    target.parent.mkdir(parents=True, exist_ok=True)
    target.unlink(missing_ok=True)
    descriptor = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        if owner is not None:
            os.fchown(descriptor, owner, -1)
        file.write(content)
    return target
