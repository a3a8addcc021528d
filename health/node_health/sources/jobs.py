"""Jobs of this pod, by Slurm's own processes and cgroups, and other processes of users."""

import contextlib
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from contract import names
from node_health.check import Machine

_STEPD = "slurmstepd"
_STEP = re.compile(rf"^{_STEPD}: \[(\d+)")
"""Title of a step's slurmstepd: slurmstepd: [JOB.STEP]."""
_JOB = re.compile(r"/(job_[^/\n]+)")
"""Folder of a job in a path of /proc/PID/cgroup."""
_USERS = (
    range(names.FIRST_USER_ID, names.LAST_USER_ID + 1),
    range(names.FIRST_LDAP_ID, names.LAST_LDAP_ID + 1),
)
"""Ids of people, and of what they run in containers by their subordinate ids. The test step's nobody is none."""


@dataclass(frozen=True, slots=True)
class Process:
    """A process.

    Attributes:
        number: its id.
        parent: its parent's.
        title: its command line if it is a slurmstepd of root, else its program's name. Another process can keep a
            reader of its command line waiting: that lies in its memory, which may be a file of dead storage.
        user: id of its user.
        groups: folders of jobs in its cgroups.
        age: in seconds.
        cpu: seconds of CPU time that it has used.
    """

    number: int
    parent: int
    title: str
    user: int
    groups: frozenset[str]
    age: float
    cpu: float = 0.0


@dataclass(frozen=True, slots=True)
class Use:
    """Seconds of CPU time that a job's processes use here, and its user: that of the oldest one.

    Later ones may have subordinate ids, in containers.
    """

    cpu: float
    user: int


@dataclass(frozen=True, slots=True)
class Jobs:
    """The jobs that have a step here, and the processes of users that belong to none of them.

    `used` has the jobs with a process of a user.
    """

    running: frozenset[int]
    left: tuple[Process, ...] = ()
    used: Mapping[int, Use] = field(default_factory=dict)


def look(machine: Machine) -> Jobs:
    """Reads /proc."""
    uptime = _uptime(machine)
    processes: dict[int, Process] = {}
    for folder in machine.path("/proc").iterdir():
        if folder.name.isdigit():
            with contextlib.suppress(OSError):  # it has just ended
                if process := _read(folder, uptime):
                    processes[process.number] = process
    return _jobs(processes)


def _uptime(machine: Machine) -> float:
    """Returns the seconds since boot; with lxcfs, whose /proc/uptime is the container's, as of this process's start."""
    uptime = float(machine.text("/proc/uptime").split()[0])
    with contextlib.suppress(OSError):
        uptime = max(uptime, _started(machine.text("/proc/self/stat").rpartition(")")[2].split()))
    return uptime


def _started(fields: Sequence[str]) -> float:
    """Returns when a process began, in seconds since boot, of the fields after its name in /proc/PID/stat."""
    return int(fields[19]) / os.sysconf("SC_CLK_TCK")


def _jobs(processes: dict[int, Process]) -> Jobs:
    steps = {
        number: step
        for number, process in processes.items()
        if (step := _STEP.match(process.title)) and not process.user
    }
    running = frozenset(int(step[1]) for step in steps.values())
    # A step's processes have its cgroups, and most descend from it.
    groups = {group for number in steps for group in processes[number].groups} | {f"job_{job}" for job in running}

    def job_above(number: int) -> int | None:
        while number not in steps and number in processes:
            number = processes[number].parent
        return int(steps[number][1]) if number in steps else None

    users = [process for process in processes.values() if any(process.user in ids for ids in _USERS)]
    used: dict[int, Use] = {}
    left = []
    for process in sorted(users, key=lambda process: -process.age):
        of_group = next((job for group in process.groups if (job := _number(group)) in running), None)
        job = job_above(process.number) if of_group is None else of_group
        if job is not None:
            before = used.get(job, Use(0.0, process.user))
            used[job] = Use(before.cpu + process.cpu, before.user)
        elif not process.groups & groups:
            left.append(process)
    return Jobs(running, tuple(left), used)


def _number(group: str) -> int | None:
    """Returns the job of a folder job_N."""
    digits = group.removeprefix("job_")
    return int(digits) if digits.isdigit() else None


def _read(folder: Path, uptime: float) -> Process | None:
    stat = _text(folder / "stat")
    name, rest = stat[stat.index("(") + 1 : stat.rindex(")")], stat[stat.rindex(")") + 1 :].split()
    if rest[0] in "ZX":
        return None
    user = re.search(r"^Uid:\s+(\d+)", _text(folder / "status"), re.MULTILINE)
    number = int(user[1]) if user else 0
    is_stepd = not number and name == _STEPD
    command = (folder / "cmdline").read_bytes().replace(b"\0", b" ").strip() if is_stepd else b""
    groups = frozenset(_JOB.findall(_text(folder / "cgroup")))
    age = uptime - _started(rest)
    cpu = (int(rest[11]) + int(rest[12])) / os.sysconf("SC_CLK_TCK")
    title = command.decode(errors="replace") or name
    return Process(int(folder.name), int(rest[1]), title, number, groups, age, cpu)


def _text(file: Path) -> str:
    """Returns a text that has a process's name, of which a user chooses each byte but newline and NUL."""
    return file.read_bytes().decode(errors="replace")
