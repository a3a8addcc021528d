"""Checks that a login node's daemons take connections. It makes none: sshd would log each one."""

from collections.abc import Sequence
from pathlib import Path

from slurm_node.pod import paths

SSH_PORT = 22
TABLES = (Path("/proc/net/tcp"), Path("/proc/net/tcp6"))


def refusal(sackd: Path = paths.SLURM_RUN / "sack.socket", tables: Sequence[Path] = TABLES) -> str | None:
    """Returns which daemon does not listen; None when Slurm's commands and users find theirs.

    Args:
        sackd: the socket of Slurm's commands.
        tables: the kernel's tables of TCP sockets. One is missing where the kernel has no IPv6.
    """
    if not sackd.exists():
        return "sackd does not listen"
    if not any(listens(table.read_text(), SSH_PORT) for table in tables if table.exists()):
        return "sshd is not listening"
    return None


def listens(table: str, port: int) -> bool:
    """Return True if /proc/net/tcp has a socket that listens on a port (proc(5): field 2 ends in it, state 0A)."""
    rows = [line.split() for line in table.splitlines()[1:]]
    return any(row[1].endswith(f":{port:04X}") and row[3] == "0A" for row in rows)
