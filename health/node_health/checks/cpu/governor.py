"""Checks the frequency governor of the CPUs."""

from collections import Counter

from contract import reasons
from node_health.check import Check, DoesNotApplyError, Machine
from node_health.verdict import Finding, passes, warns

FOLDER = "/sys/devices/system/cpu/cpufreq"
FAST = "performance"
OWN_GOVERNORS = frozenset({"intel_pstate", "amd-pstate-epp"})
"""Drivers that choose frequencies by themselves: with `powersave` they also reach the highest one
(Linux, Documentation/admin-guide/pm/intel_pstate.rst, amd-pstate.rst)."""


def look(machine: Machine) -> list[tuple[str, str]]:
    """Returns driver and governor of each frequency policy."""
    folder = machine.path(FOLDER)
    if not folder.is_dir() or not (policies := sorted(folder.glob("policy[0-9]*"))):
        raise DoesNotApplyError("the kernel does not choose this machine's CPU frequencies")
    return [
        ((policy / "scaling_driver").read_text().strip(), (policy / "scaling_governor").read_text().strip())
        for policy in policies
    ]


def judge(policies: list[tuple[str, str]], machine: Machine) -> Finding:
    """WARNING when a governor keeps CPUs slow."""
    slow = Counter(governor for driver, governor in policies if governor != FAST and driver not in OWN_GOVERNORS)
    if slow:
        told = ", ".join(f"{governor} ({count} of {len(policies)})" for governor, count in sorted(slow.items()))
        return warns(f"CPUs have the governor {told}, not {FAST}")
    return passes(f"{len(policies)} frequency policies are fast")


CHECK = Check(
    reasons.Check.CPU_GOVERNOR,
    look,
    judge,
    fails="",
    warns="a governor other than `performance` keeps CPUs slow",
    remedy="set the governor on the Kubernetes node: `cpupower frequency-set -g performance`",
)
