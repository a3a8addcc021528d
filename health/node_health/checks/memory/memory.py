"""Checks that the pod has the memory that Slurm gives to jobs."""

import re
from dataclasses import dataclass

from contract import reasons
from node_health.check import Check, Machine
from node_health.verdict import Finding, Verdict

CGROUP_LIMITS = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")
"""Version 2, then version 1."""


@dataclass(frozen=True, slots=True)
class Memory:
    """Memory in MiB: of the machine, and the pod's limit, None without one."""

    machine_mib: int
    limit_mib: int | None


def look(machine: Machine) -> Memory:
    """Reads it from the kernel (proc(5): MemTotal in KiB)."""
    total = re.search(r"^MemTotal:\s+(\d+) kB", machine.text("/proc/meminfo"), re.MULTILINE)
    if not total:
        raise ValueError("/proc/meminfo has no MemTotal")
    limits = [machine.text(name) for name in CGROUP_LIMITS if machine.path(name).exists()]
    return Memory(int(total[1]) // 1024, int(limits[0]) // 1024**2 if limits and limits[0] != "max" else None)


def judge(memory: Memory, machine: Machine) -> Finding:
    """FAIL when Slurm could give jobs more than there is: then Slurm kills jobs, or the kernel the pod."""
    has = memory.machine_mib if memory.limit_mib is None else min(memory.machine_mib, memory.limit_mib)
    of_what = "the machine's memory" if has == memory.machine_mib else "the pod's limit"
    evidence = f"{has} MiB ({of_what}), {machine.declared.memory_mib} MiB declared for jobs"
    return Finding(Verdict.PASS if has >= machine.declared.memory_mib else Verdict.FAIL, evidence)


CHECK = Check(
    reasons.Check.MEMORY,
    look,
    judge,
    fails="the pod's limit or the Kubernetes node has less than Slurm gives to jobs",
    warns="",
    remedy="replace memory modules that the machine lost, or declare less in nodeSets[].resources",
)
