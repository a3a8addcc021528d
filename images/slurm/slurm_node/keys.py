"""Keys out of a mounted Secret: daemons insist on owner and mode, which a Secret's volume can't give."""

import os
from pathlib import Path

from slurm_node.log import NodeError


def install(source: Path, target: Path) -> Path:
    """Copies a key to a file that only this process's user may read, and returns the copy."""
    try:
        content = source.read_bytes()
    except OSError as error:
        raise NodeError(f"key {source}: {error.strerror}: is the Secret mounted?") from error
    target.parent.mkdir(parents=True, exist_ok=True)
    target.unlink(missing_ok=True)
    descriptor = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(content)
    return target
