"""Checks that the pod has the CPUs that Slurm schedules."""

import os
from dataclasses import dataclass
from pathlib import Path

from node_health.node import Declared
from node_health.verdict import Finding, Verdict

WHOLE_PERIOD = 100
"""Thousandths of a CPU that rounding may take from a limit."""


@dataclass(frozen=True, slots=True)
class Cpus:
    """CPUs that the pod's processes may run on, and its limit in thousandths of a CPU, None without one."""

    allowed: int
    limit_millis: int | None


def look(cgroups: Path = Path("/sys/fs/cgroup")) -> Cpus:
    """Reads them from the kernel (version 2: cpu.max is "quota period"; version 1: two files, quota -1 for none)."""
    quota, period = "max", "100000"
    if (both := cgroups / "cpu.max").exists():
        quota, period = both.read_text().split()
    elif (own := cgroups / "cpu/cpu.cfs_quota_us").exists():
        quota, period = own.read_text(), (own.parent / "cpu.cfs_period_us").read_text()
    limit = None if quota == "max" or int(quota) < 0 else int(quota) * 1000 // int(period)
    return Cpus(len(os.sched_getaffinity(0)), limit)


def judge(cpus: Cpus, declared: Declared) -> Finding:
    """FAIL when there are fewer; WARNING where the configuration lets pods share the machine's CPUs."""
    limit = "no limit" if cpus.limit_millis is None else f"limit {cpus.limit_millis / 1000:g}"
    evidence = f"{cpus.allowed} CPUs ({limit}), {declared.cpus} declared"
    enough = cpus.limit_millis is None or cpus.limit_millis + WHOLE_PERIOD > declared.cpus * 1000
    if cpus.allowed >= declared.cpus and enough:
        return Finding(Verdict.PASS, evidence)
    return Finding(Verdict.WARNING if declared.shares_cpus else Verdict.FAIL, evidence)
