"""Makes mariadbd reload its certificate when the mounted Secret changes: python3 -m slurm_database.renewal."""

import hashlib
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from contract import names
from slurm_database.start import OS_USER, SOCKET, TLS

FILES = (names.TLS_CERTIFICATE, names.TLS_KEY, names.TLS_AUTHORITY)
POLL_SECONDS = 5.0
FLUSH = (
    "mariadb",
    "--no-defaults",
    f"--socket={SOCKET}",
    f"--user={OS_USER}",
    "--connect-timeout=5",
    # Open connections keep their certificate. New ones get the new one.
    "--execute=FLUSH SSL",
)


def main() -> None:
    """Watches the files while the server runs."""
    look = reload_on_change(TLS, flush)
    while True:
        time.sleep(POLL_SECONDS)  # The kubelet renews the files, and tells no container.
        look()


def reload_on_change(folder: Path, reload: Callable[[], bool]) -> Callable[[], None]:
    """Returns a function that checks whether the files changed, for a loop to call.

    Args:
        folder: mounted Secret; kubelet changes all its files at once, by a link.
        reload: called after a change until it returns true.
    """
    last = content(folder)

    def look() -> None:
        nonlocal last
        now = content(folder)
        if now not in (None, last) and reload():
            last = now

    return look


def content(folder: Path) -> bytes | None:
    """Returns a digest of the files; None while they are being replaced."""
    try:
        there = (folder / FILES[0]).resolve().parent
        return hashlib.sha256(b"\0".join((there / name).read_bytes() for name in FILES)).digest()
    except OSError:
        return None


def flush() -> bool:
    """Tells mariadbd and logs it; false when the caller has to try again."""
    try:
        done = subprocess.run(FLUSH, capture_output=True, text=True, timeout=30, check=False)
    except subprocess.TimeoutExpired:
        return False
    if done.returncode == 0:
        print("slurm-database: the certificate changed: mariadbd has read it anew", file=sys.stderr, flush=True)
    return done.returncode == 0


if __name__ == "__main__":
    main()
