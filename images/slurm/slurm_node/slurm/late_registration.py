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
import socket
import subprocess
from collections.abc import Callable
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
ASK_SECONDS = 10.0
"""Deadline of a question to slurmctld: while it is away, the node's other work must go on."""
AGAIN_SECONDS = 60.0
"""Pause until the next question, if slurmctld did not answer."""
SURE_SECONDS = 5.0
"""Time after which a job that had no process here is looked at again: it may just have begun, or ended."""
UNSAVED_SECONDS = 10
"""slurmctld saves what became of jobs every 5 s. What is older than that before its last start, it knows."""


class LateRegistration:
    """Waits until slurmctld would notice a lost job from the time of the kill, and sends slurmd SIGHUP.

    After a start of slurmctld it does so only if a job of slurmctld's has no process here. slurmd takes no requests for
    a moment then, such as to suspend a job.

    Args:
        slurmd: its program.
        conf: folder of the fetched configuration. slurmctld sends it whenever it starts; slurmd fetches it at its own.
        prologs: folder with a file for each job whose prolog ran here, until its end.
        jobs: folder with a file for each job that has processes here (native/job/job.h).
        running: returns the jobs that slurmctld takes for running here; None if it does not answer.
    """

    def __init__(
        self,
        slurmd: Path = paths.SLURMD,
        conf: Path = paths.FETCHED,
        prologs: Path = paths.PROLOGS,
        jobs: Path = paths.JOBS,
        running: Callable[[], set[str] | None] = lambda: running_here(socket.gethostname()),
    ) -> None:
        self._slurmd, self._conf, self._prologs, self._jobs = slurmd, conf, prologs, jobs
        self._running = running
        self._started: float | None = None
        self._seen = self._sent = changed(conf / names.SLURM_CONF)
        self._fetches_until = 0.0
        self._due = self._asks_at = math.inf
        self._suspects: set[str] = set()

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
                    self._asks_at, self._suspects = now + self._seconds(), set()
                self._sent = seen
        if now >= self._asks_at:
            self._ask(now)
        if now >= self._due:
            self._due, self._fetches_until = math.inf, now + FETCH_SECONDS
            slurmd.send(signal.SIGHUP)

    def _ask(self, now: float) -> None:
        """Have slurmd register now if a job has no process here for the second time."""
        self._asks_at = math.inf
        running = self._running()
        if running is None:
            self._asks_at = now + AGAIN_SECONDS
            return
        missing = running - {file.name for file in self._jobs.glob("[0-9]*")}
        if missing & self._suspects:
            self._due = now
        elif missing:
            self._asks_at = now + SURE_SECONDS
        self._suspects = missing

    def _seconds(self) -> int:
        return missed_after((configless_cache.read(self._conf) or {}).get(names.SLURM_CONF, ""))


def running_here(node: str) -> set[str] | None:
    """Returns the ids of jobs that slurmctld takes for running on a node; None if it does not answer in time."""
    command = [f"{paths.PREFIX}/bin/squeue", "-h", "-w", node, "-o", "%A %t"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=ASK_SECONDS, check=False)
    except (subprocess.TimeoutExpired, OSError):  # the system refuses another process
        return None
    rows = (line.split() for line in done.stdout.splitlines())
    return None if done.returncode else {row[0] for row in rows if row[1:] in (["R"], ["S"])}


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
