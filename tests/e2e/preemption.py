"""Jobs that another one preempts, by QOS or by partition: how they end, and what becomes of their namespaces."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

MODES = {"frozen": "suspend", "again": "requeue", "gone": "cancel", "warned": "cancel"}
"""Name of a QOS or partition → what happens to its jobs."""
GRACE = {"warned": 600}
"""Seconds of grace, longer than a test: such a job ends because it was asked to."""
OPTIONS = {"PreemptMode": "SUSPEND,GANG"}
"""Of slurm.conf; without them Slurm suspends no job."""
QOS = [
    *({"name": name, "preemptMode": mode, "graceTime": GRACE.get(name, 0)} for name, mode in MODES.items()),
    {"name": "first", "preempts": [*MODES]},
]
HIGH = {"name": "high", "nodeSets": ["cpu"], "priorityTier": 10}
"""A partition from which jobs of a QOS suspend others (slurm.conf(5))."""
PARTITIONS = [
    *({"name": name, "nodeSets": ["cpu"], "preemptMode": MODES[name].upper()} for name in MODES if name not in GRACE),
    {"name": "first", "nodeSets": ["cpu"], "priorityTier": 10, "preemptMode": "OFF"},
]
"""Without grace: beside GANG Slurm ends a partition's jobs at once (docs/limits.md)."""

_NODE = "cpu-0"
_SPACES = "$(readlink /proc/self/ns/mnt /proc/self/ns/pid /proc/self/ns/ipc)"
_SCRIPT = f"""#!/bin/sh
echo began ${{SLURM_RESTART_COUNT:-0}} $(stat -c %i /) $(ls /tmp | wc -l) $(id -u) {_SPACES}
echo mine > /tmp/mine
until [ -e go ]; do sleep 0.1; done
echo went on $(stat -c %i /) $(cat /tmp/mine) {_SPACES}
"""
_WARNED = """#!/bin/sh
trap 'echo asked to end; exit 0' TERM
. ./script
"""


@dataclass(frozen=True)
class Preempted:
    """A job of a folder of its own, whose only CPU another job has taken.

    Attributes:
        slurm: its cluster.
        number: its number.
        folder: its folder in the user's home.
        began: its first words.
        processes: its processes before, by number and start.
    """

    slurm: Any
    number: str
    folder: str
    began: list[str]
    processes: frozenset[str]

    def is_in(self, state: str) -> None:
        """Wait for a state in Slurm's words."""
        show = f"scontrol -o show job {self.number}"
        self.slurm.wait(f"{self.folder} is {state}", lambda: f"JobState={state} " in self.slurm.sh(show).ok())

    def states(self) -> dict[str, set[str]]:
        """Return the states of those of its processes that are still there, as proc(5) has them, by user."""
        there = [row for process, row in processes(self.slurm).items() if process in self.processes]
        return {user: {state for state, whose, _ in there if whose == user} for _, user, _ in there}

    def leaves_nothing(self) -> None:
        """Wait until all its processes have ended, and with them the one that keeps its namespaces."""
        self.slurm.wait(f"processes of {self.folder} go", lambda: not self.states())

    def writes(self, words: str) -> list[str]:
        """Wait for a line that begins so, and return it."""
        show = f"grep '^{words}' {self.folder}/out"
        return self.slurm.wait(f"{self.folder} writes", lambda: self.slurm.sh(show).stdout.split())

    def goes_on(self) -> list[str]:
        """Free the CPU, let the job go on to its end, and return its last words."""
        self.slurm.sh(f"scancel -n first; touch {self.folder}/go").ok()
        self.is_in("COMPLETED")
        return self.writes("went on")


def processes(slurm) -> dict[str, tuple[str, str, str]]:
    """Return the state, user and mount namespace of each process of the worker's pod, by number and start."""
    shown = slurm.on_pod(_NODE, "ps -e -o pid=,lstart=,stat=,uid=,mntns=").ok()
    rows = [line.split() for line in shown.splitlines()]
    return {" ".join(row[:6]): (row[6][0], row[7], f"mnt:[{row[8]}]") for row in rows}


@contextmanager
def two_jobs(slurm, name: str, victim: str, first: str) -> Iterator[Preempted]:
    """A job that began with options of sbatch, and one that took its only CPU with options of salloc."""
    folder = f"preempted-{name}"
    program = "--wrap 'srun ./warned'" if name in GRACE else "./script"
    asked = f"-w {_NODE} -n1 --mem=100"
    begins = (
        *(f"mkdir -p {folder}", f"cd {folder}", f"cat > script <<'END'\n{_SCRIPT}END"),
        *(f"cat > warned <<'END'\n{_WARNED}END", "chmod +x script warned"),
        f"sbatch --parsable --open-mode=append -o out {asked} {victim} {program}",
        "until grep began out 2>/dev/null; do sleep 0.1; done",
    )
    try:
        number, line = slurm.sh("\n".join(("set -e", *begins))).ok().splitlines()
        words = line.split()
        inside = {process for process, (_, *of) in processes(slurm).items() if {*of} & {*words[4:6]}}
        slurm.sh(f"salloc -Q --no-shell -J first {asked} {first}").ok()
        yield Preempted(slurm, number, folder, words, frozenset(inside))
    finally:
        slurm.sh(f"scancel --me; rm -r {folder}").ok()


def is_suspended(job: Preempted, root: str) -> None:
    """A suspended job is frozen in its namespaces, and goes on in them."""
    job.is_in("SUSPENDED")
    job.slurm.wait("all stop", lambda: job.states()[job.began[4]] == {"T"})
    assert job.goes_on() == ["went", "on", root, "mine", *job.began[5:]]


def is_requeued(job: Preempted, root: str) -> None:
    """A requeued job leaves nothing, and begins again in a new view of the jail."""
    job.is_in("PENDING")
    job.leaves_nothing()
    # Slurm lets a requeued job begin after two minutes.
    job.slurm.on_pod("slurm-controller-0", f"scontrol update jobid={job.number} starttime=now").ok()
    assert job.goes_on()[:4] == ["went", "on", root, "mine"]
    assert job.writes("began 1")[:4] == ["began", "1", root, "0"], "an empty /tmp"


def is_cancelled(job: Preempted, root: str) -> None:
    """A cancelled job leaves nothing, and its user reads why."""
    job.is_in("PREEMPTED")
    job.leaves_nothing()
    assert "DUE TO PREEMPTION" in job.slurm.sh(f"cat {job.folder}/out").ok()


def is_warned(job: Preempted, root: str) -> None:
    """A job with a grace time is asked to end, and may: nobody cancels it."""
    job.writes("asked to end")
    job.leaves_nothing()
    job.is_in("PREEMPTED")
    assert "DUE TO PREEMPTION" not in job.slurm.sh(f"cat {job.folder}/out").ok()


LOOKS = {"frozen": is_suspended, "again": is_requeued, "gone": is_cancelled, "warned": is_warned}


def look(slurm, name: str, victim: str, first: str) -> None:
    """Try one mode, on a job that begins with the jail as its root and an empty /tmp."""
    root = slurm.sh("stat -c %i /").ok()
    with two_jobs(slurm, name, victim, first) as job:
        assert job.began[:4] == ["began", "0", root, "0"]
        LOOKS[name](job, root)


def by_qos(slurm, name: str) -> None:
    look(slurm, name, f"-q {name}", f"-q first -p {'high' if name == 'frozen' else 'main'}")


def by_partition(slurm, name: str) -> None:
    look(slurm, name, f"-p {name}", "-p first")
