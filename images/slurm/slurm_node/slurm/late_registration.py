"""Makes slurmd register once more after it or slurmctld was killed, for batch jobs that run in slurmctld's eyes alone.

A slurmd may be killed between slurmctld's request and the start of a job's script. A slurmctld may be killed before it
has saved a job's end, which takes it up to 5 s. The job then seems to run, but has no process, and keeps its nodes.
slurmctld notices that only when the node registers and the job is old enough (src/slurmctld/job_mgr.c,
_foreach_purge_missing_jobs). Then it requeues the job, or fails it. Both daemons' starts make the node register too
early for that; it does so next after half an hour (src/slurmctld/ping_nodes.c, MAX_REG_FREQUENCY).
"""

import math
import re
import signal
from pathlib import Path

from contract import names
from slurm_node.pod import paths
from slurm_node.pod.supervise import Daemon
from slurm_node.slurm import configless_cache

BATCH_START_SECONDS = MESSAGE_SECONDS = 10
"""Slurm's defaults of BatchStartTimeout and MessageTimeout. slurmctld looks for jobs older than their sum."""
LONGEST_MESSAGE_SECONDS = 10
"""Largest MessageTimeout that counts here (DEFAULT_MSG_TIMEOUT)."""
SPARE_SECONDS = 2
"""Seconds to wait beyond the sum of its timeouts, since slurmctld counts whole seconds."""
FETCH_SECONDS = 60
"""Time within which a slurmd that starts, or that gets SIGHUP, has fetched its configuration, even on a busy node."""
UNSAVED_SECONDS = 10
"""slurmctld saves what became of jobs every 5 s. What is older than that before its last start, it knows."""


class LateRegistration:
    """Waits until slurmctld would notice a lost job from the time of the kill, and sends slurmd SIGHUP.

    Args:
        slurmd: its program.
        conf: folder of the fetched configuration. slurmctld sends it whenever it starts; slurmd fetches it at its own.
        prologs: folder with a file for each job whose prolog ran here, until its end.
    """

    def __init__(
        self,
        slurmd: Path = paths.SLURMD,
        conf: Path = paths.FETCHED,
        prologs: Path = paths.PROLOGS,
    ) -> None:
        self._slurmd, self._conf, self._prologs = slurmd, conf, prologs
        self._started: float | None = None
        self._seen = self._sent = changed(conf / names.SLURM_CONF)
        self._fetches_until = 0.0
        self._due = math.inf

    def tick(self, now: float, slurmd: Daemon) -> None:
        """Called about twice a second."""
        # While it still fetches its configuration, the signal would end it (native/programs/slurmd_start.c).
        if slurmd.process is None or program(slurmd.process.pid) != self._slurmd:
            return
        if slurmd.started != self._started:
            # Before this container's first slurmd, no job was here.
            self._due = math.inf if self._started is None else now + self._seconds()
            self._started, self._fetches_until = slurmd.started, now + FETCH_SECONDS
        if (seen := changed(self._conf / names.SLURM_CONF)) != self._seen:
            fetched, self._seen, self._fetches_until = now < self._fetches_until, seen, 0.0
            if not fetched:
                if changed(self._prologs) > self._sent - UNSAVED_SECONDS:
                    self._due = now + self._seconds()
                self._sent = seen
        if now >= self._due:
            self._due, self._fetches_until = math.inf, now + FETCH_SECONDS
            slurmd.send(signal.SIGHUP)

    def _seconds(self) -> int:
        return missed_after((configless_cache.read(self._conf) or {}).get(names.SLURM_CONF, ""))


def changed(path: Path) -> float:
    """Returns when a file or folder was changed last, in seconds since the epoch; 0 if it is not there."""
    try:
        return path.stat().st_mtime
    except OSError:
        return 0.0


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
