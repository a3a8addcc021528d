"""Jobs of this pod, by Slurm's own processes and cgroups, and other processes of users."""

import contextlib
import os
import re
from dataclasses import dataclass
from pathlib import Path

from node_health.check import Machine

_STEP = re.compile(r"^slurmstepd: \[(\d+)")
"""Title of a step's slurmstepd: slurmstepd: [JOB.STEP]."""
_JOB = re.compile(r"/(job_[^/\n]+)")
"""Folder of a job in a path of /proc/PID/cgroup."""
USERS = range(1000, 60000)
"""Ids of ordinary users (login.defs, UID_MIN and UID_MAX). The test step's nobody is none."""


@dataclass(frozen=True, slots=True)
class Process:
    """A process.

    Attributes:
        number: its id.
        parent: its parent's.
        title: its command line, or the program's name without one.
        user: id of its user.
        groups: folders of jobs in its cgroups.
        age: in seconds.
    """

    number: int
    parent: int
    title: str
    user: int
    groups: frozenset[str]
    age: float


@dataclass(frozen=True, slots=True)
class Jobs:
    """The jobs that have a step here, and the processes of users that belong to none of them."""

    running: frozenset[int]
    left: tuple[Process, ...] = ()


def look(machine: Machine) -> Jobs:
    """Reads /proc."""
    uptime = float(machine.text("/proc/uptime").split()[0])
    processes: dict[int, Process] = {}
    for folder in machine.path("/proc").iterdir():
        if folder.name.isdigit():
            with contextlib.suppress(OSError):  # it has just ended
                if process := _read(folder, uptime):
                    processes[process.number] = process
    return _jobs(processes)


def _jobs(processes: dict[int, Process]) -> Jobs:
    steps = {number: step for number, each in processes.items() if (step := _STEP.match(each.title)) and not each.user}
    running = frozenset(int(step[1]) for step in steps.values())
    # A step's processes have its cgroups, and most descend from it.
    groups = {group for number in steps for group in processes[number].groups} | {f"job_{job}" for job in running}

    def descends(number: int) -> bool:
        while number not in steps and number in processes:
            number = processes[number].parent
        return number in steps

    users = [process for process in processes.values() if process.user in USERS]
    left = [process for process in users if not process.groups & groups and not descends(process.number)]
    return Jobs(running, tuple(left))


def _read(folder: Path, uptime: float) -> Process | None:
    stat = (folder / "stat").read_text()
    name, rest = stat[stat.index("(") + 1 : stat.rindex(")")], stat[stat.rindex(")") + 1 :].split()
    if rest[0] in "ZX":
        return None
    user = re.search(r"^Uid:\s+(\d+)", (folder / "status").read_text(), re.MULTILINE)
    command = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace").strip()
    groups = frozenset(_JOB.findall((folder / "cgroup").read_text()))
    age = uptime - int(rest[19]) / os.sysconf("SC_CLK_TCK")
    return Process(int(folder.name), int(rest[1]), command or name, int(user[1]) if user else 0, groups, age)
