"""Checks that the CPUs to which jobs keep are the pod's own.

Slurm numbers the CPUs of the whole machine, by package and core, and gives out the first ones. (In slurmd that is
xcpuinfo_hwloc_topo_get, tag slurm-26-05-3-1.) A pod may own others: those that Kubernetes' static CPU manager gives it.
"""

import re
from dataclasses import dataclass
from pathlib import Path

from contract import names, reasons
from node_health.check import Check, DoesNotApplyError, Machine
from node_health.checks.cpu.cpus import numbers
from node_health.verdict import Finding, fails, passes, warns

_CONF = "/run/slurm/conf"
_CPUS = "/sys/devices/system/cpu"
_LEVELS = ("topology/package_cpus_list", "cache/index3/shared_cpu_list", "topology/core_cpus_list")
"""Files that name a CPU's neighbours: those of its package, of its largest cache, of its core."""


@dataclass(frozen=True, slots=True)
class Pinning:
    """CPUs by number.

    Attributes:
        own: those on which the pod's processes may run.
        ordered: all of the machine, in Slurm's order.
        binds: whether slurmstepd binds tasks, with task/affinity.
        keeps: whether a job's processes keep to its cores (ConstrainCores).
    """

    own: frozenset[int]
    ordered: tuple[int, ...]
    binds: bool
    keeps: bool


def look(machine: Machine) -> Pinning:
    """Reads the fetched configuration, and the machine's CPUs."""
    binds = re.search(r"(?im)^TaskPlugin=.*\baffinity\b", machine.text(f"{_CONF}/{names.SLURM_CONF}")) is not None
    keeps = re.search(r"(?im)^ConstrainCores=yes$", machine.text(f"{_CONF}/{names.CGROUP_CONF}")) is not None
    allowed = re.search(r"^Cpus_allowed_list:\s*(\S+)$", machine.text("/proc/self/status"), re.MULTILINE)
    if not allowed:
        raise ValueError("/proc/self/status has no Cpus_allowed_list")
    online = numbers(machine.text(f"{_CPUS}/online"))
    ordered = sorted(online, key=lambda cpu: (*_first_neighbours(machine.path(f"{_CPUS}/cpu{cpu}")), cpu))
    pinning = Pinning(frozenset(numbers(allowed[1]) & online), tuple(ordered), binds, keeps)
    # What no pod owns may be few CPUs too: their number alone does not tell that they are the pod's.
    if not (binds or keeps) and (machine.declared.shares_cpus or len(pinning.own) > machine.declared.cpus):
        why = _not_exclusive(pinning, machine)
        raise DoesNotApplyError(f"jobs are not pinned: {why}, and slurm.constrainCores is false")
    return pinning


def _not_exclusive(pinning: Pinning, machine: Machine) -> str:
    counted = f"{len(pinning.own)} CPUs, {machine.declared.cpus} declared"
    less = ", cpuRequest is less" if machine.declared.shares_cpus else ""
    return f"the pod has no exclusive CPUs ({counted}{less})"


def _first_neighbours(folder: Path) -> list[int]:
    """Returns the lowest CPU of each group that a CPU is in, the largest group first."""
    lists = [folder / level for level in _LEVELS if (folder / level).exists()]
    return [min(numbers(threads.read_text().strip())) for threads in lists]


def judge(pinning: Pinning, machine: Machine) -> Finding:
    """FAIL when steps would not start, WARNING when jobs do not keep to CPUs of their own."""
    if not (pinning.binds or pinning.keeps):
        return passes(f"jobs share the pod's own CPUs {listed(pinning.own)}: slurm.constrainCores is false")
    declared = machine.declared.cpus
    given = frozenset(pinning.ordered[:declared])
    if not given <= pinning.own:
        why = f"Slurm gives out the machine's CPUs {listed(given)}, and the pod owns {listed(pinning.own)}"
        return fails(f"steps do not start: {why}") if pinning.binds else warns(f"jobs are not pinned: {why}")
    if len(pinning.own) > declared:
        why = _not_exclusive(pinning, machine)
        return warns(f"jobs keep to CPUs {listed(given)}, which other pods may use: {why}")
    return passes(f"jobs keep to their own of the pod's CPUs {listed(given)}")


def listed(cpus: frozenset[int]) -> str:
    """Returns CPUs as a list such as 0-3,8 (cpuset(7), "List format")."""
    first = [cpu for cpu in sorted(cpus) if cpu - 1 not in cpus]
    last = [cpu for cpu in sorted(cpus) if cpu + 1 not in cpus]
    return ",".join(f"{a}" if a == b else f"{a}-{b}" for a, b in zip(first, last, strict=True))


CHECK = Check(
    reasons.Check.CPU_PINNING,
    look,
    judge,
    fails="with task/affinity, Slurm would bind tasks to CPUs that are not the pod's: their steps do not start",
    warns="with `slurm.constrainCores`, jobs keep to CPUs that other pods may use, or do not keep to any",
    remedy="one worker for each Kubernetes node, with all its CPUs; else `slurm.constrainCores: false`",
)
