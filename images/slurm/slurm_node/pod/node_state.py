"""A pod's own state: "ready", or why it is not. Its readiness probe reads the file (/usr/libexec/slurm-node/ready).

"ready" counts only for a time. So a pod whose entry hangs becomes not ready.
"""

import contextlib
from pathlib import Path

from slurm_node.pod import paths

READY = "ready"
COUNTS_SECONDS = 60.0
"""Longer than all that an entry waits for between two looks, as slurmctld's answers to scontrol."""
UPTIME = Path("/proc/uptime")
"""The clock that a shell can read."""


def read() -> str:
    """Returns the state; empty while the pod has not written any yet."""
    return paths.NODE_STATE.read_text() if paths.NODE_STATE.exists() else ""


def write(state: str, seconds: float = COUNTS_SECONDS) -> bool:
    """Writes the state, in one line, and until when it counts; returns whether it changed.

    Args:
        state: "ready", or a sentence.
        seconds: time for which "ready" counts.
    """
    line = " ".join(state.splitlines())
    paths.OWN_RUN.mkdir(parents=True, exist_ok=True)
    now = float(UPTIME.read_text().split()[0])
    _replace(paths.STATE_UNTIL, str(int(now + seconds)))
    if read() == line:
        return False
    _replace(paths.NODE_STATE, line)
    return True


def renew() -> None:
    """Lets the last state count for longer, while the entry waits for the end of jobs. It never ends that wait."""
    with contextlib.suppress(OSError):
        write(read())


def _replace(file: Path, text: str) -> None:
    aside = file.with_suffix(".new")
    aside.write_text(text)
    aside.replace(file)
