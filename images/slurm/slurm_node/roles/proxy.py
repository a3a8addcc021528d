"""The REST pod's proxy: haproxy, which ends TLS in front of slurmrestd's socket."""

import hashlib
import signal
from collections.abc import Callable
from pathlib import Path

from contract import names
from slurm_node.pod import paths
from slurm_node.pod.log import say
from slurm_node.pod.supervise import Daemon, run

CONFIG = Path("/etc/slurm-proxy/haproxy.cfg")
PAIR = (names.TLS_CERTIFICATE, names.TLS_KEY)


def main() -> int:
    """Keeps haproxy running with the current key pair of the Secret."""
    # -W: a master that starts a new process at SIGUSR2. Once that one is up, the old one finishes its requests.
    haproxy = Daemon("haproxy", ["/usr/sbin/haproxy", "-W", "-db", "-f", str(CONFIG)])
    return run([haproxy], reload_on_change(paths.REST_TLS, lambda: haproxy.send(signal.SIGUSR2)))


def reload_on_change(folder: Path, reload: Callable[[], None]) -> Callable[[], None]:
    """Returns a function that checks whether the key pair changed, for a loop to call.

    Args:
        folder: mounted Secret; kubelet changes all its files at once, by a link.
        reload: called once per change.
    """
    last = content(folder)

    def look() -> None:
        nonlocal last
        now = content(folder)
        if now not in (None, last):
            say("the certificate changed: haproxy reads it anew")
            last = now
            reload()

    return look


def content(folder: Path) -> bytes | None:
    """Returns a digest of the key pair; None while it is being replaced."""
    try:
        # Both files from the same folder, even if the link changes meanwhile.
        there = (folder / PAIR[0]).resolve().parent
        return hashlib.sha256(b"\0".join((there / name).read_bytes() for name in PAIR)).digest()
    except OSError:
        return None
