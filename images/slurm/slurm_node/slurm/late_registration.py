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
import subprocess
from collections import deque
from collections.abc import Callable, Collection
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
ASK_SECONDS = 10.0
"""Deadline of a question to slurmctld: while it is away, the node's other work must go on."""
AGAIN_SECONDS = 60.0
"""Pause until the next question, if slurmctld did not answer."""
MOST_ENDED = 64
"""Jobs that a node remembers: more do not end on it in the 5 s in which slurmctld saves no job."""


def some_run(jobs: Collection[str]) -> bool | None:
    """Tells whether one of some jobs runs or is suspended; None without an answer. slurmctld looks up these alone."""
    command = [f"{paths.PREFIX}/bin/squeue", "--only-job-state", "-h", "-j", ",".join(sorted(jobs)), "-o", "%T"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=ASK_SECONDS, check=False)
    except (subprocess.TimeoutExpired, OSError):  # the system refuses another process
        return None
    return None if done.returncode else not {"RUNNING", "SUSPENDED"}.isdisjoint(done.stdout.split())


class LateRegistration:
    """Waits until slurmctld would notice a lost job from the time of the kill, and sends slurmd SIGHUP.

    After a start of slurmctld it does so only if slurmctld takes a job for running that has ended here. slurmd takes no
    requests for a moment then, such as to suspend a job.

    Args:
        slurmd: its program.
        conf: folder of the fetched configuration. slurmctld sends it whenever it starts.
        jobs: folder with a file for each job that has processes here (native/job/job.h).
        are_running: says whether one of some jobs runs for slurmctld, as `some_run` does.
    """

    def __init__(
        self,
        slurmd: Path = paths.SLURMD,
        conf: Path = paths.FETCHED,
        jobs: Path = paths.JOBS,
        are_running: Callable[[Collection[str]], bool | None] = some_run,
    ) -> None:
        self._slurmd, self._conf, self._jobs, self._are_running = slurmd, conf, jobs, are_running
        self._started: float | None = None
        self._sent = changed(conf / names.SLURM_CONF)
        self._due = self._asks_at = math.inf
        self._here: set[str] = set()
        self._ended: deque[str] = deque(maxlen=MOST_ENDED)
        self._doubtful: set[str] = set()

    def tick(self, now: float, slurmd: Daemon) -> None:
        """Called about twice a second; it does not see a job that was here for less."""
        here = {file.name for file in self._jobs.glob("[1-9]*")}  # 0 is a jail probe's.
        self._ended.extend(self._here - here)
        self._here = here
        # While it still fetches its configuration, the signal would end it (native/programs/slurmd_start.c).
        if slurmd.process is None or program(slurmd.process.pid) != self._slurmd:
            return
        if slurmd.started != self._started:
            # Before this container's first slurmd, no job was here.
            self._due = math.inf if self._started is None else now + self._seconds()
            self._started = slurmd.started
        if (sent := changed(self._conf / names.SLURM_CONF)) != self._sent:
            self._sent = sent
            self._doubtful.update(self._ended)
            self._ended.clear()
            self._asks_at = now + self._seconds()
        if now >= self._asks_at:
            self._ask(now)
        if now >= self._due:
            self._due = math.inf
            slurmd.send(signal.SIGHUP)

    def _ask(self, now: float) -> None:
        """Have slurmd register now if slurmctld takes a job for running that has ended here. Each is asked for once."""
        asked = self._doubtful - self._here
        are_running = self._are_running(asked) if asked else False
        self._asks_at = now + AGAIN_SECONDS if are_running is None else math.inf
        if are_running is not None:
            self._doubtful.clear()
        if are_running:
            self._due = now

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
