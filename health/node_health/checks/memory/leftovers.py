"""Checks that a node without jobs has its memory back: files in memory file systems outlive a job."""

import re
from dataclasses import dataclass

from contract import reasons
from node_health import thresholds
from node_health.check import WITHOUT_JOBS, Check, DoesNotApplyError, Machine
from node_health.sources import jobs
from node_health.verdict import Finding, passes, warns

STATS = (
    ("/sys/fs/cgroup/memory.stat", ("anon", "shmem")),
    ("/sys/fs/cgroup/memory/memory.stat", ("total_rss", "total_shmem")),
)
"""Files of the pod's cgroup, version 2, then 1, and their keys for memory that only its owner can free."""
MIB = 1024**2


@dataclass(frozen=True, slots=True)
class Used:
    """Memory in use in MiB; None while a job runs here."""

    mib: int | None


def look(machine: Machine) -> Used:
    """Reads how much memory the pod's cgroup uses, as far as only its owner can free it."""
    stat = next(((file, keys) for file, keys in STATS if machine.path(file).exists()), None)
    if stat is None:
        raise DoesNotApplyError("the pod's cgroup does not count memory")
    if machine.once(jobs.look).running:
        return Used(None)
    text = machine.text(stat[0])
    values = [re.search(rf"^{key} (\d+)$", text, re.MULTILINE) for key in stat[1]]
    return Used(sum(int(value[1]) for value in values if value) // MIB)


def judge(used: Used, machine: Machine) -> Finding:
    """WARNING when much of the jobs' memory is in use without a job."""
    if used.mib is None:
        return passes("jobs run here")
    most = thresholds.of().number("memory.leftovers")
    if used.mib * 100 > machine.declared.memory_mib * most:
        return warns(f"{used.mib} MiB are in use without a job, more than {most:g} percent of the jobs' memory")
    return passes(f"{used.mib} MiB are in use without a job")


CHECK = Check(
    reasons.Check.IDLE_MEMORY,
    look,
    judge,
    fails="",
    warns="much memory is in use on a node without jobs: files in /tmp or /dev/shm, or processes left",
    remedy="delete the files and kill the processes, or restart the pod",
    contexts=WITHOUT_JOBS,
)
