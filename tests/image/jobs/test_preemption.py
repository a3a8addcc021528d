"""Preemption by partition and by QOS in the jail: what slurm.conf(5) says of each mode, and what becomes of namespaces.

A suspended job goes on in its own namespaces. A requeued one begins in new ones. Both have the same root.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from devcluster.images.layers import unpack_image
from tests.image import roots
from tests.image.pods import CONTROLLER
from tests.image.records.accounting_room import AccountingRoom
from tests.image.small_cluster import ALICE, SmallCluster

KINDS = ("pid", "mnt", "ipc")
SPACES = f"readlink {' '.join(f'/proc/self/ns/{kind}' for kind in KINDS)} | tr '\\n' ' '"
VICTIM = f"""#!/bin/sh
echo began ${{SLURM_RESTART_COUNT:-0}} $(stat -c %i /) $(ls /tmp | wc -l) $({SPACES})
echo mine > /tmp/mine
while [ ! -e go ]; do sleep 0.1; done
echo went on $(stat -c %i /) $(cat /tmp/mine) $({SPACES})
srun -n1 sh -c 'echo a step $(stat -c %i /) $(cat /tmp/mine)'
"""
WARNED = f"""#!/bin/sh
trap 'echo term; exit 0' TERM
echo began $({SPACES})
while :; do sleep 0.1; done
"""
FIRST = "echo $(stat -c %i /) $(ls /tmp | wc -l) > first.out; while [ ! -e done ]; do sleep 0.1; done"
MODES = {"frozen": "SUSPEND", "again": "REQUEUE", "gone": "CANCEL", "warned": "CANCEL"}
GRACE_SECONDS = 600
"""Longer than the test: a job that ends earlier was warned."""
OF_TIERS: list[dict[str, Any]] = [
    {"name": name, "nodeSets": ["cpu"], "priorityTier": 1, "preemptMode": mode} for name, mode in MODES.items()
]
OF_TIERS[-1]["graceTime"] = GRACE_SECONDS
OF_TIERS.append({"name": "first", "nodeSets": ["cpu"], "priorityTier": 10, "preemptMode": "OFF"})
PLAIN = [{"name": "low", "nodeSets": ["cpu"]}, {"name": "high", "nodeSets": ["cpu"], "priorityTier": 10}]


@dataclass(frozen=True)
class Preempting:
    """A cluster, and how jobs of a mode and those that preempt them are submitted."""

    cluster: SmallCluster
    by: str

    def victim(self, mode: str) -> str:
        """Options of sbatch."""
        return f"-p {mode}" if self.by == "partition" else f"-p low -q {mode}"

    def first(self, mode: str) -> str:
        """Options of sbatch. By QOS a job suspends others from a partition of a higher tier (slurm.conf(5))."""
        if self.by == "partition":
            return "-p first"
        return f"-p {'high' if mode == 'frozen' else 'low'} -q first"


@contextmanager
def by_partition(image: Path, root: Path, folder: Path) -> Iterator[SmallCluster]:
    options = {"PreemptType": "preempt/partition_prio", "PreemptMode": "SUSPEND,GANG"}
    with SmallCluster(image, root, folder, slurm={"options": options}, partitions=OF_TIERS) as cluster:
        cluster.start()
        yield cluster


@contextmanager
def by_qos(image: Path, root: Path, folder: Path, database: Path) -> Iterator[SmallCluster]:
    slurm = {"options": {"PreemptType": "preempt/qos", "PreemptMode": "SUSPEND,GANG"}}
    accounting = {"mode": "mariadb", "enforce": ["qos"]}
    with SmallCluster(image, root, folder, slurm=slurm, partitions=PLAIN, accounting=accounting) as cluster:
        of_database = folder / "room"
        of_database.mkdir()
        with AccountingRoom(image, database, of_database, cluster) as room:
            cluster.start()
            room.wait(lambda: "root" in room.sh("sacctmgr", "-nP", "show", "assoc", "cluster=dev", "format=account"))
            for name, mode in MODES.items():
                room.sh("sacctmgr", "-i", "add", "qos", name, f"preemptmode={mode.lower()}")
            room.sh("sacctmgr", "-i", "modify", "qos", "warned", "set", f"gracetime={GRACE_SECONDS}")
            room.sh("sacctmgr", "-i", "add", "qos", "first", f"preempt={','.join(MODES)}")
            room.sh("sacctmgr", "-i", "add", "account", "physics")
            room.sh("sacctmgr", "-i", "add", "user", "alice", "account=physics", f"qos=first,{','.join(MODES)}")
            taken = "sbatch --test-only -p low -q first -n1 --wrap true"
            cluster.wait("slurmctld knows them", lambda: cluster.jail(taken, user=ALICE).returncode == 0, 60)
            yield cluster


@pytest.fixture(scope="module", params=["partition", "qos"])
def preempting(
    image: Path, tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest
) -> Iterator[Preempting]:
    folder = tmp_path_factory.mktemp("cluster")
    root = roots.make("bookworm", folder / "root")
    if request.param == "partition":
        with by_partition(image, root, folder) as cluster:
            yield Preempting(cluster, request.param)
    else:
        database = unpack_image(tmp_path_factory.mktemp("database"), "database")
        with by_qos(image, root, folder, database) as cluster:
            yield Preempting(cluster, request.param)


@dataclass(frozen=True)
class Job:
    """A job of alice's that has a folder of its own, and takes all CPUs of the node.

    Attributes:
        cluster: where it runs.
        number: its number.
        folder: its folder, as the jail has it.
    """

    cluster: SmallCluster
    number: str
    folder: str

    def shown(self, form: str) -> str:
        """Return what squeue shows; nothing of a job that has ended."""
        return self.cluster.jail(f"squeue -h -j {self.number} -o '{form}'", user=ALICE).stdout.strip()

    def until(self, state: str) -> None:
        """Wait for a state."""
        self.cluster.wait(f"{self.folder} is {state}", lambda: self.shown("%T") == state, 120)

    def ends(self) -> str:
        """Wait for its end; returned is the state that it ended with."""
        self.cluster.wait(f"{self.folder} ends", lambda: self.shown("%T") == "", 120)
        shown = administer(self.cluster, f"scontrol show job {self.number}")
        return next(word.partition("=")[2] for word in shown.split() if word.startswith("JobState="))

    def out(self) -> list[str]:
        """Return the lines that it wrote."""
        return self.cluster.jail(f"cat {self.folder}/out", user=ALICE).stdout.splitlines()

    def says(self, word: str, times: int = 1) -> str:
        """Wait for a line that begins so; returned is the last one."""

        def lines() -> list[str]:
            return [line for line in self.out() if line.startswith(word)]

        self.cluster.wait(f"{self.folder} says {word}", lambda: len(lines()) == times, 120)
        return lines()[-1]

    def touch(self, name: str) -> None:
        """Make a file that it waits for."""
        self.cluster.jail(f"touch {self.folder}/{name}", user=ALICE).check_returncode()


def submit(cluster: SmallCluster, folder: str, options: str, script: str) -> Job:
    """Submit a script that runs in a new folder of alice's home."""
    home = cluster.root.parents[1] / "persistent/home/alice"
    program = home / f"{folder}.sh"
    program.write_text(script)
    program.chmod(0o755)
    all_of_it = f"-n1 -c{os.cpu_count()} --mem=100 --open-mode=append -o out {options}"
    done = cluster.jail(f"mkdir {folder}; cd {folder}; sbatch --parsable {all_of_it} ../{folder}.sh", user=ALICE)
    assert done.returncode == 0, done.stderr
    return Job(cluster, done.stdout.strip(), folder)


def administer(cluster: SmallCluster, command: str) -> str:
    """Run a command as SlurmUser in slurmctld's pod, as `kubectl exec` does."""
    become = "setpriv --reuid=64030 --regid=64030 --clear-groups"
    done = cluster.pod(f"{become} /opt/slurm/bin/{command}", name=CONTROLLER)
    assert done.returncode == 0, done.stderr
    return done.stdout


Process = tuple[int, str]
"""Number and start time: numbers come again."""


def processes(spaces: list[str]) -> set[Process]:
    """Return this machine's processes in one of these namespaces."""
    found = set[Process]()
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if {str((folder / "ns" / kind).readlink()) for kind in KINDS} & set(spaces):
                found.add((int(folder.name), _stat(int(folder.name))[19]))
    return found


def states(of: set[Process]) -> set[str]:
    """Return the states of those that are still there, such as S and T, as proc(5) has them."""
    found = set[str]()
    for number, started in of:
        with suppress(OSError):
            fields = _stat(number)
            found |= {fields[0]} if fields[19] == started else set()
    return found


def of_alice(of: set[Process]) -> set[Process]:
    """Leave out processes of others, such as slurmstepd's, and those that have ended."""
    found = set[Process]()
    for number, started in of:
        with suppress(OSError):
            found |= {(number, started)} if Path(f"/proc/{number}").stat().st_uid == ALICE else set()
    return found


def _stat(number: int) -> list[str]:
    """Return a process's fields of proc(5), from its state on."""
    return Path(f"/proc/{number}/stat").read_text().rpartition(")")[2].split()


@contextmanager
def two_jobs(preempting: Preempting, mode: str, script: str = VICTIM) -> Iterator[tuple[Job, Job, set[Process]]]:
    """A job that runs, one that preempts it, and the first one's processes as they were before."""
    cluster = preempting.cluster
    name = f"{preempting.by}-{mode}"
    victim = submit(cluster, name, preempting.victim(mode), script)
    jobs = [victim]
    try:
        spaces = victim.says("began").split()[-len(KINDS) :]
        inside = processes(spaces)
        first = submit(cluster, f"{name}-first", preempting.first(mode), f"#!/bin/sh\n{FIRST}\n")
        jobs.append(first)
        yield victim, first, inside
    finally:
        cluster.jail(f"scancel {' '.join(job.number for job in jobs)}", user=ALICE)
        for job in jobs:
            job.ends()


def test_a_suspended_job_is_frozen_in_its_namespaces_and_goes_on_in_them(preempting: Preempting) -> None:
    inode = str(preempting.cluster.root.stat().st_ino)
    with two_jobs(preempting, "frozen") as (victim, first, _):
        spaces = victim.says("began").split()[-len(KINDS) :]
        first.until("RUNNING")
        victim.until("SUSPENDED")
        preempting.cluster.wait("all stop", lambda: states(of_alice(processes(spaces))) == {"T"}, 60)
        first.cluster.wait("the first one's word", lambda: first_says(first), 60)
        assert first_says(first) == f"{inode} 0\n", "it has the same root, and a /tmp of its own"
        first.touch("done")
        assert first.ends() == "COMPLETED"
        victim.until("RUNNING")
        victim.touch("go")
        assert victim.ends() == "COMPLETED"
        began, went_on, step = (line.split() for line in victim.out())
        assert went_on == ["went", "on", inode, "mine", *began[-len(KINDS) :]], "in the same namespaces"
        assert step == ["a", "step", inode, "mine"]


def test_a_requeued_job_leaves_nothing_and_runs_again_in_a_new_view_of_the_jail(preempting: Preempting) -> None:
    inode = str(preempting.cluster.root.stat().st_ino)
    with two_jobs(preempting, "again") as (victim, first, inside):
        first.until("RUNNING")
        victim.until("PENDING")
        preempting.cluster.wait("its processes go", lambda: not states(inside), 60)
        first.touch("done")
        assert first.ends() == "COMPLETED"
        # Slurm lets a requeued job begin after two minutes.
        administer(preempting.cluster, f"scontrol update jobid={victim.number} starttime=now")
        assert victim.says("began", 2).split()[:4] == ["began", "1", inode, "0"], "the same root, and an empty /tmp"
        victim.touch("go")
        assert victim.ends() == "COMPLETED"
        assert victim.says("a step") == f"a step {inode} mine"


def test_a_cancelled_job_leaves_nothing_and_its_user_reads_why(preempting: Preempting) -> None:
    with two_jobs(preempting, "gone") as (victim, first, inside):
        first.until("RUNNING")
        assert victim.ends() == "PREEMPTED"
        preempting.cluster.wait("its processes go", lambda: not states(inside), 60)
        began, told = victim.out()
        assert began.startswith("began")
        assert "DUE TO PREEMPTION" in told


def test_a_job_with_a_grace_time_is_asked_to_end_and_may(preempting: Preempting) -> None:
    script = f"#!/bin/sh\ncat > loop <<'END'\n{WARNED}END\nchmod +x loop; srun -n1 ./loop"
    with two_jobs(preempting, "warned", script) as (victim, first, inside):
        victim.says("term")
        first.until("RUNNING")
        preempting.cluster.wait("its processes go", lambda: not states(inside), 60)


def first_says(first: Job) -> str:
    return first.cluster.jail(f"cat {first.folder}/first.out", user=ALICE).stdout
