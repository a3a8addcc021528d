"""Checks that the pod has the CPUs that Slurm schedules."""

import re
from dataclasses import dataclass

from contract import reasons
from node_health.check import Check, Machine
from node_health.verdict import Finding, Verdict

WHOLE_PERIOD = 100
"""Thousandths of a CPU that rounding may take from a limit."""
CGROUPS = "/sys/fs/cgroup"


@dataclass(frozen=True, slots=True)
class Cpus:
    """CPUs that the pod's processes may run on, and its limit in thousandths of a CPU, None without one."""

    allowed: int
    limit_millis: int | None


def look(machine: Machine) -> Cpus:
    """Reads them from the kernel (version 2: cpu.max is "quota period"; version 1: two files, quota -1 for none)."""
    quota, period = "max", "100000"
    if machine.path(f"{CGROUPS}/cpu.max").exists():
        quota, period = machine.text(f"{CGROUPS}/cpu.max").split()
    elif machine.path(f"{CGROUPS}/cpu/cpu.cfs_quota_us").exists():
        quota = machine.text(f"{CGROUPS}/cpu/cpu.cfs_quota_us")
        period = machine.text(f"{CGROUPS}/cpu/cpu.cfs_period_us")
    limit = None if quota == "max" or int(quota) < 0 else int(quota) * 1000 // int(period)
    allowed = re.search(r"^Cpus_allowed_list:\s*(\S+)$", machine.text("/proc/self/status"), re.MULTILINE)
    if not allowed:
        raise ValueError("/proc/self/status has no Cpus_allowed_list")
    # The list also names CPUs that a virtual machine could have (sched_getaffinity(2) leaves them out).
    return Cpus(len(numbers(allowed[1]) & numbers(machine.text("/sys/devices/system/cpu/online"))), limit)


def numbers(listed: str) -> set[int]:
    """Returns the CPUs that a list such as 0-3,8 names (cpuset(7), "List format")."""
    ends = [part.partition("-") for part in listed.split(",")]
    return {number for first, _, last in ends for number in range(int(first), int(last or first) + 1)}


def judge(cpus: Cpus, machine: Machine) -> Finding:
    """FAIL when there are fewer; WARNING where the configuration lets pods share the machine's CPUs."""
    declared = machine.declared
    limit = "no limit" if cpus.limit_millis is None else f"limit {cpus.limit_millis / 1000:g}"
    evidence = f"{cpus.allowed} CPUs ({limit}), {declared.cpus} declared"
    enough = cpus.limit_millis is None or cpus.limit_millis + WHOLE_PERIOD > declared.cpus * 1000
    if cpus.allowed >= declared.cpus and enough:
        return Finding(Verdict.PASS, evidence)
    return Finding(Verdict.WARNING if declared.shares_cpus else Verdict.FAIL, evidence)


CHECK = Check(
    reasons.Check.CPUS,
    look,
    judge,
    fails="the pod has fewer than Slurm schedules",
    warns="the same, where `cpuRequest` lets pods share a Kubernetes node's CPUs",
    remedy="look for CPUs that the machine lost, or declare fewer in nodeSets[].resources.cpu",
)
