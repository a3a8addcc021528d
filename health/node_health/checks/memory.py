"""Checks that the pod has the memory that Slurm gives to jobs."""

import re
from dataclasses import dataclass
from pathlib import Path

from node_health.node import Declared
from node_health.verdict import Finding, Verdict

CGROUP_LIMITS = ("memory.max", "memory/memory.limit_in_bytes")
"""Version 2, then version 1, below the cgroup mount."""


@dataclass(frozen=True, slots=True)
class Memory:
    """Memory in MiB: of the machine, and the pod's limit, None without one."""

    machine_mib: int
    limit_mib: int | None


def look(meminfo: Path = Path("/proc/meminfo"), cgroups: Path = Path("/sys/fs/cgroup")) -> Memory:
    """Reads it from the kernel (proc(5): MemTotal in KiB)."""
    total = re.search(r"^MemTotal:\s+(\d+) kB", meminfo.read_text(), re.MULTILINE)
    if not total:
        raise ValueError(f"{meminfo} has no MemTotal")
    limits = [file.read_text().strip() for name in CGROUP_LIMITS if (file := cgroups / name).exists()]
    return Memory(int(total[1]) // 1024, int(limits[0]) // 1024**2 if limits and limits[0] != "max" else None)


def judge(memory: Memory, declared: Declared) -> Finding:
    """FAIL when Slurm could give jobs more than there is: then Slurm kills jobs, or the kernel the pod."""
    has = memory.machine_mib if memory.limit_mib is None else min(memory.machine_mib, memory.limit_mib)
    of_what = "the machine's memory" if has == memory.machine_mib else "the pod's limit"
    evidence = f"{has} MiB ({of_what}), {declared.memory_mib} MiB declared for jobs"
    return Finding(Verdict.PASS if has >= declared.memory_mib else Verdict.FAIL, evidence)
