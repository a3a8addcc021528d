"""The door to Slurm's authentication for jobs and logins of this node (native/doors/sack_door.c).

The daemon's own socket gives everybody who reaches it a token with his id, root included. Slurm trusts a token of any
root. Jobs and logins therefore see the door's folder in place of the daemon's (native/jail/job_mounts.c).
"""

import shutil
from pathlib import Path

from contract import paths as shared
from slurm_node.pod import paths
from slurm_node.pod.supervise import Daemon

SOCKET = "sack.socket"
MARK = Path(shared.DOOR_MARK).name
"""File that tells Slurm's commands that root of the jail runs them (native/commands/root_guard.c)."""


def prepare(folder: Path = paths.DOOR) -> None:
    """Makes the folder that is /run/slurm in jobs and logins. job_mounts.c mounts the configuration there."""
    folder.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
    shutil.rmtree(folder, ignore_errors=True)  # From an earlier container.
    folder.mkdir(mode=0o755)
    (folder / MARK).touch(mode=0o444)
    (folder / paths.FETCHED.name).mkdir(mode=0o755)


def daemon() -> Daemon:
    """Returns the daemon of the door."""
    return Daemon("door", [str(paths.SACK_DOOR), str(paths.DOOR / SOCKET), str(paths.SLURM_RUN / SOCKET)])
