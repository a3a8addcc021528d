"""Has slurmd register once more some time after the one before it was killed: for batch jobs that never began.

A slurmd may be killed between slurmctld's request and the start of a job's script. The job then seems to run, and
nothing of it does. slurmctld misses it only when its node registers and the job is old enough (src/slurmctld/job_mgr.c,
_foreach_purge_missing_jobs); then it requeues it. A new slurmd registers too early for that, and next after half an
hour (src/slurmctld/ping_nodes.c, MAX_REG_FREQUENCY).
"""

import math
import re
import signal
from pathlib import Path

from slurm_node.pod import paths
from slurm_node.pod.supervise import Daemon
from slurm_node.slurm import configless_cache

BATCH_START_SECONDS = MESSAGE_SECONDS = 10
"""Slurm's defaults of BatchStartTimeout and MessageTimeout: slurmctld misses a job older than both together."""
LONGEST_MESSAGE_SECONDS = 10
"""What counts of MessageTimeout (DEFAULT_MSG_TIMEOUT)."""
SPARE_SECONDS = 2
"""slurmctld counts whole seconds."""


class LateRegistration:
    """Waits until slurmctld would miss a job that began when slurmd was killed, and sends slurmd SIGHUP.

    Args:
        slurmd: its program.
        conf: folder of the fetched configuration.
    """

    def __init__(self, slurmd: Path = paths.SLURMD, conf: Path = paths.FETCHED) -> None:
        self._slurmd, self._conf = slurmd, conf
        self._started: float | None = None
        self._due = math.inf

    def tick(self, now: float, slurmd: Daemon) -> None:
        """Called about twice a second."""
        # Before it is slurmd, it fetches its configuration: the signal would end it (native/programs/slurmd_start.c).
        if slurmd.process is None or program(slurmd.process.pid) != self._slurmd:
            return
        if slurmd.started != self._started:
            # Before this container's first one no job was here.
            self._due = math.inf if self._started is None else now + self._seconds()
            self._started = slurmd.started
        if now >= self._due:
            self._due = math.inf
            slurmd.send(signal.SIGHUP)

    def _seconds(self) -> int:
        return missed_after((configless_cache.read(self._conf) or {}).get("slurm.conf", ""))


def program(process: int) -> Path | None:
    """Returns what a process runs; None if it ended."""
    try:
        return Path(f"/proc/{process}/exe").readlink()
    except OSError:
        return None


def missed_after(slurm_conf: str) -> int:
    """Returns after how many seconds slurmctld misses a batch job that did not begin."""
    start = _seconds_of("BatchStartTimeout", slurm_conf, BATCH_START_SECONDS)
    message = _seconds_of("MessageTimeout", slurm_conf, MESSAGE_SECONDS)
    return start + min(message, LONGEST_MESSAGE_SECONDS) + SPARE_SECONDS


def _seconds_of(key: str, slurm_conf: str, default: int) -> int:
    text = "\n".join(configless_cache.logical_lines(slurm_conf))
    said = re.findall(rf"^\s*{key}\s*=\s*(\d+)\s*$", text, re.IGNORECASE | re.MULTILINE)
    return int(said[-1]) if said else default
