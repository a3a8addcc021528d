"""Jobs of this pod, by Slurm's own processes and cgroups, and other processes of users."""

import contextlib
import os
import re
from dataclasses import dataclass
from pathlib import Path

from node_health.check import Machine

_STEP = re.compile(rb"^slurmstepd: \[(\d+)")
"""Title of a step's slurmstepd: slurmstepd: [JOB.STEP]."""
_JOB = re.compile(r"/job_(\d+)(?:/|$)", re.MULTILINE)
"""Folder of a job in a path of /proc/PID/cgroup."""
USERS = range(1000, 60000)
"""Ids of ordinary users (login.defs, UID_MIN and UID_MAX). The test step's nobody is none."""


@dataclass(frozen=True, slots=True)
class Process:
    """A process of an ordinary user.

    Attributes:
        number: its id.
        name: the program's.
        user: id of its user.
        job: the job whose cgroup it is in; None: no job's.
        age: in seconds.
    """

    number: int
    name: str
    user: int
    job: int | None
    age: float


@dataclass(frozen=True, slots=True)
class Jobs:
    """The jobs that have a step here, and the processes of ordinary users."""

    running: frozenset[int]
    processes: tuple[Process, ...] = ()

    @property
    def left(self) -> tuple[Process, ...]:
        """Processes that belong to no running job."""
        return tuple(process for process in self.processes if process.job not in self.running)


def look(machine: Machine) -> Jobs:
    """Reads /proc."""
    proc = machine.path("/proc")
    uptime = float(machine.text("/proc/uptime").split()[0])
    running: set[int] = set()
    processes: list[Process] = []
    for folder in proc.iterdir():
        if not folder.name.isdigit():
            continue
        with contextlib.suppress(OSError):  # it has just ended
            if step := _STEP.match((folder / "cmdline").read_bytes()):
                running.add(int(step[1]))
            elif process := _of_user(folder, uptime):
                processes.append(process)
    return Jobs(frozenset(running), tuple(processes))


def _of_user(folder: Path, uptime: float) -> Process | None:
    status = (folder / "status").read_text()
    user = re.search(r"^Uid:\s+(\d+)", status, re.MULTILINE)
    if not user or int(user[1]) not in USERS:
        return None
    stat = (folder / "stat").read_text()
    name, rest = stat[stat.index("(") + 1 : stat.rindex(")")], stat[stat.rindex(")") + 1 :].split()
    if rest[0] in "ZX":
        return None
    job = _JOB.search((folder / "cgroup").read_text())
    age = uptime - int(rest[19]) / os.sysconf("SC_CLK_TCK")
    return Process(int(folder.name), name, int(user[1]), int(job[1]) if job else None, age)
