"""Readiness probes: each ends with 0, or prints why not."""

import socket
import subprocess
from pathlib import Path

from slurm_node.pod import node_state, paths
from slurm_node.pod.log import NodeError

SECONDS = 5
SSH_PORT = 22


def worker() -> int:
    """Ready when slurmd runs with a configuration that keeps jobs in the jail, and jail probes work."""
    return _said("starting")


def login() -> int:
    """Ready when jail probes work, sshd listens and Slurm's commands find their socket."""
    _said("starting")
    if not (paths.SLURM_RUN / "sack.socket").exists():
        raise NodeError("not ready: sackd does not listen")
    # Without a connection: sshd would log each one.
    tables = [Path("/proc/net") / name for name in ("tcp", "tcp6")]
    if not any(listens(table.read_text(), SSH_PORT) for table in tables if table.exists()):
        raise NodeError("not ready: sshd is not listening")
    return 0


def _said(without: str) -> int:
    """Reads the pod's own state. It asks the jail nothing: probes would pile up while storage hangs."""
    state = node_state.read(without)
    if state != node_state.READY:
        raise NodeError(f"not ready: {state}")
    return 0


def listens(table: str, port: int) -> bool:
    """Return True if /proc/net/tcp has a socket that listens on a port (proc(5): field 2 ends in it, state 0A)."""
    rows = [line.split() for line in table.splitlines()[1:]]
    return any(row[1].endswith(f":{port:04X}") and row[3] == "0A" for row in rows)


def accounting() -> int:
    """Ready when a query reaches the database through slurmdbd and returns."""
    question = ["sacctmgr", "--noheader", "--parsable2", "show", "cluster", "format=cluster"]
    try:
        asked = subprocess.run(question, capture_output=True, text=True, timeout=SECONDS, check=False)
    except subprocess.TimeoutExpired:
        raise NodeError(f"not ready: slurmdbd did not answer in {SECONDS} s") from None
    if asked.returncode != 0:
        raise NodeError(f"not ready: {asked.stderr.strip() or asked.stdout.strip()}")
    return 0


def ldap() -> int:
    """Ready when the LDAP server answered the last query."""
    return _said("the directory has not been asked yet")


def rest() -> int:
    """Ready when slurmrestd takes connections on its socket."""
    connect(paths.REST_SOCKET)
    return 0


def connect(path: Path) -> None:
    """Opens a connection and closes it.

    Raises:
        NodeError: nothing accepts it.
    """
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as client:
        client.settimeout(SECONDS)
        try:
            client.connect(str(path))
        except OSError as error:
            raise NodeError(f"not ready: {path}: {error.strerror or error}") from None
