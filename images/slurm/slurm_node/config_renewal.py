"""Asks slurmctld for the configuration again and again, since it may forget that sackd wants each new one.

slurmctld sends a changed configuration to each sackd that fetched one. It forgets a sackd that it did not reach once
(src/slurmctld/agent.c, _wdog), or whose first fetch it had not saved when it was killed. Users' commands would go on
with what sackd has then, for ever. A second sackd, which is asked for nothing else, fetches and so also makes itself
known again: slurmctld tells sackds apart by host name.
"""

import os
import shutil
import signal
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from slurm_node import fetched, paths
from slurm_node.accounts import SLURM_ID
from slurm_node.log import say
from slurm_node.supervise import Daemon

EVERY_SECONDS = 30.0
ANSWER_SECONDS = 15.0

# Its socket has one place, that of the sackd that users' commands ask: it gets that place for itself.
APART = ("unshare", "--mount", "--propagation", "private", "sh", "-c", 'mount --bind "$0" "$1" && shift && exec "$@"')


class ConfigRenewal:
    """Keeps what sackd fetched as slurmctld has it.

    Args:
        sackd: whose configuration it is; what its command and environment are, the second one's are.
    """

    def __init__(self, sackd: Daemon) -> None:
        self._sackd = sackd
        self._asking: subprocess.Popen[bytes] | None = None
        self._due = 0.0
        self._answered = True

    def tick(self, now: float) -> None:
        """Called about twice a second, with the monotonic clock's seconds."""
        if self._asking is None:
            if now >= self._due and fetched.read() is not None:
                self._ask()
                self._due = now + ANSWER_SECONDS
            return
        # It makes its socket once it has written all files.
        answered = (paths.ASKED / "sack.socket").exists()
        if not answered and now < self._due and self._asking.poll() is None:
            return
        self._asking.kill()
        self._asking.wait()
        self._asking, self._due = None, now + EVERY_SECONDS
        if answered != self._answered:
            say("slurmctld answers again" if answered else f"slurmctld gave no configuration in {ANSWER_SECONDS:.0f} s")
        self._answered = answered
        if answered and take_over(paths.ASKED / "conf", paths.FETCHED):
            say("sackd had not got slurmctld's newest configuration: it reads it now")
            self._sackd.send(signal.SIGHUP)

    def _ask(self) -> None:
        shutil.rmtree(paths.ASKED, ignore_errors=True)
        paths.ASKED.mkdir(mode=0o755)
        os.chown(paths.ASKED, SLURM_ID, SLURM_ID)
        self._asking = subprocess.Popen(
            [*APART, str(paths.ASKED), str(paths.SLURM_RUN), *self._sackd.command],
            env=os.environ | self._sackd.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,  # It can't have the other's port, and says so each time.
        )


def take_over(source: Path, target: Path) -> bool:
    """Makes the files of a folder those of another; each is replaced at once.

    Returns:
        whether there was a difference.
    """
    new, old = fetched.read(source), fetched.read(target)
    if not new or new == old:
        return False
    for name in _changed(new, old or {}):
        fresh = target / f".{name}"
        fresh.write_text(new[name])
        os.chown(fresh, SLURM_ID, SLURM_ID)
        fresh.replace(target / name)
    for name in set(old or {}) - set(new):
        (target / name).unlink(missing_ok=True)
    return True


def _changed(new: Mapping[str, str], old: Mapping[str, str]) -> Sequence[str]:
    return [name for name, text in new.items() if old.get(name) != text]
