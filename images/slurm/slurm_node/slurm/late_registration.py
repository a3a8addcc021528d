"""Makes a new slurmd register once more after its predecessor was killed, for batch jobs that never began.

A slurmd may be killed between slurmctld's request and the start of a job's script. The job then seems to run, but has
no process. slurmctld notices that only when the node registers and the job is old enough (src/slurmctld/job_mgr.c,
_foreach_purge_missing_jobs). Then it requeues the job. A new slurmd registers too early for that, and next after half
an hour (src/slurmctld/ping_nodes.c, MAX_REG_FREQUENCY).
"""

import math
import re
import signal
from pathlib import Path

from slurm_node.pod import paths
from slurm_node.pod.supervise import Daemon
from slurm_node.slurm import configless_cache

BATCH_START_SECONDS = MESSAGE_SECONDS = 10
"""Slurm's defaults of BatchStartTimeout and MessageTimeout. slurmctld looks for jobs older than their sum."""
LONGEST_MESSAGE_SECONDS = 10
"""Largest MessageTimeout that counts here (DEFAULT_MSG_TIMEOUT)."""
SPARE_SECONDS = 2
"""Seconds to wait beyond the sum of its timeouts, since slurmctld counts whole seconds."""


class LateRegistration:
    """Waits until slurmctld would notice a lost job from the time of the kill, and sends slurmd SIGHUP.

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
        # While it still fetches its configuration, the signal would end it (native/programs/slurmd_start.c).
        if slurmd.process is None or program(slurmd.process.pid) != self._slurmd:
            return
        if slurmd.started != self._started:
            # Before this container's first slurmd, no job was here.
            self._due = math.inf if self._started is None else now + self._seconds()
            self._started = slurmd.started
        if now >= self._due:
            self._due = math.inf
            slurmd.send(signal.SIGHUP)

    def _seconds(self) -> int:
        return missed_after((configless_cache.read(self._conf) or {}).get("slurm.conf", ""))


def program(process: int) -> Path | None:
    """Returns the program of a process; None if it ended."""
    try:
        return Path(f"/proc/{process}/exe").readlink()
    except OSError:
        return None


def missed_after(slurm_conf: str) -> int:
    """Returns the seconds after which slurmctld notices a batch job that did not begin."""
    start = _seconds_of("BatchStartTimeout", slurm_conf, BATCH_START_SECONDS)
    message = _seconds_of("MessageTimeout", slurm_conf, MESSAGE_SECONDS)
    return start + min(message, LONGEST_MESSAGE_SECONDS) + SPARE_SECONDS


def _seconds_of(key: str, slurm_conf: str, default: int) -> int:
    text = "\n".join(configless_cache.logical_lines(slurm_conf))
    said = re.findall(rf"^\s*{key}\s*=\s*(\d+)\s*$", text, re.IGNORECASE | re.MULTILINE)
    return int(said[-1]) if said else default
