"""Before a login node ends: tells its users, and waits until they have left, up to a deadline."""

import os
import socket
import stat
import time
from collections.abc import Callable
from pathlib import Path

from slurm_node.pod.log import say

TERMINALS = Path("/dev/pts")
REMIND_SECONDS = 60.0


def message(node: str, seconds: float) -> str:
    """The message to users."""
    left = f"{seconds / 60:.0f} minutes" if seconds >= 120 else f"{seconds:.0f} seconds"
    return (
        f"\r\n*** {node} is being replaced: your session here ends in {left}.\r\n"
        "*** Save your work and log in again. Jobs are not concerned, nor are your files.\r\n"
    )


def wait(
    seconds: float,
    sessions: Callable[[], int],
    terminals: Path = TERMINALS,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> None:
    """Writes the message on every terminal and waits until nobody is logged in, or the time is up.

    Args:
        seconds: the longest wait.
        sessions: counts those who are logged in.
        terminals: folder of their terminals.
        clock: seconds.
        sleep: passes time.
    """
    node, end = socket.gethostname(), clock() + seconds
    told: set[str] = set()
    remind = end
    while (left := end - clock()) > 0 and (count := sessions()) > 0:
        if left <= remind - REMIND_SECONDS or not told:
            say(f"{count} sessions are told that this node goes in {left:.0f} s")
            remind, told = left, set()
        for terminal in {path.name for path in terminals.glob("[0-9]*")} - told:
            told.add(terminal)
            write(terminals / terminal, message(node, left))
        told.add("")
        sleep(min(1.0, left))  # The kernel tells nobody when another one's child ends.


def sessions_of(listener: int) -> int:
    """Counts the connections of an sshd, each of which is a child process."""
    try:
        return len(Path(f"/proc/{listener}/task/{listener}/children").read_text().split())
    except OSError:
        return 0


def write(terminal: Path, text: str) -> None:
    """Writes to a terminal without waiting for it: after Ctrl-S its buffer may be full."""
    try:
        file = os.open(terminal, os.O_WRONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_NOFOLLOW)
    except OSError:
        return
    try:
        if stat.S_ISCHR(os.fstat(file).st_mode):
            os.write(file, text.encode())
    except OSError:
        return
    finally:
        os.close(file)
