"""Checks that a login node's daemons take connections. It makes none: sshd would log each one."""

from collections.abc import Sequence
from pathlib import Path

from slurm_node.pod import paths

PERIOD_SECONDS = 5.0
"""Time between checks of daemons that listen: the kernel takes 5 ms for a table, however short that is."""
SSH_PORT = 22
TABLES = (Path("/proc/net/tcp"), Path("/proc/net/tcp6"))


class Listening:
    """Watches whether Slurm's commands and users find their daemon.

    Args:
        sackd: the socket of Slurm's commands.
        tables: the kernel's tables of TCP sockets. One is missing where the kernel has no IPv6.
    """

    def __init__(self, sackd: Path = paths.SLURM_RUN / "sack.socket", tables: Sequence[Path] = TABLES) -> None:
        self._sackd = sackd
        self._tables = tables
        self._next = 0.0
        self.sentence: str | None = "sackd does not listen"
        """The daemon that does not listen; None while both do."""

    def tick(self, now: float) -> None:
        """Called about twice a second. Daemons that listen are looked at less often.

        Args:
            now: seconds of a clock that only goes forward.
        """
        if self.sentence is None and now < self._next:
            return
        self._next = now + PERIOD_SECONDS
        if not self._sackd.exists():
            self.sentence = "sackd does not listen"
        elif not any(listens(table.read_text(), SSH_PORT) for table in self._tables if table.exists()):
            self.sentence = "sshd is not listening"
        else:
            self.sentence = None


def listens(table: str, port: int) -> bool:
    """Return whether /proc/net/tcp has a socket that listens on a port (proc(5): field 2 ends in it, state 0A)."""
    rows = [line.split() for line in table.splitlines()[1:]]
    return any(row[1].endswith(f":{port:04X}") and row[3] == "0A" for row in rows)
