"""Readiness probes: each ends with 0, or prints why not."""

import socket
import subprocess

from slurm_node import paths
from slurm_node.log import NodeError

SECONDS = 5


def worker() -> int:
    """Ready when slurmd runs with a configuration that keeps jobs in the jail, and the jail's tree stands."""
    state = paths.NODE_STATE.read_text() if paths.NODE_STATE.exists() else "starting"
    if state != "ready":
        raise NodeError(f"not ready: {state}")
    if not paths.MARKER.exists():
        raise NodeError(f"not ready: {paths.MARKER} is gone: delete this pod")
    return 0


def login() -> int:
    """Ready when sshd answers and Slurm's commands find their socket."""
    if not paths.MARKER.exists() or not (paths.SLURM_RUN / "sack.socket").exists():
        raise NodeError("not ready: sackd has no configuration yet: is slurmctld up?")
    try:
        with socket.create_connection(("127.0.0.1", 22), SECONDS) as connection:
            connection.settimeout(SECONDS)
            if not connection.recv(4) == b"SSH-":
                raise NodeError("not ready: what answers on port 22 is no sshd")
    except OSError as error:
        raise NodeError(f"not ready: sshd: {error}") from error
    return 0


def controller() -> int:
    """Ready when slurmctld answers a ping."""
    try:
        ping = subprocess.run(["scontrol", "ping"], capture_output=True, text=True, timeout=SECONDS, check=False)
    except subprocess.TimeoutExpired:
        raise NodeError(f"not ready: slurmctld did not answer in {SECONDS} s") from None
    if " is UP" not in ping.stdout:
        raise NodeError(f"not ready: {ping.stdout.strip() or ping.stderr.strip()}")
    return 0
