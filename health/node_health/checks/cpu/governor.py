"""Checks the frequency governor of the CPUs."""

from collections import Counter
from contextlib import suppress

from contract import reasons
from node_health.check import CannotJudgeError, Check, DoesNotApplyError, Machine
from node_health.verdict import Finding, passes, warns

FOLDER = "/sys/devices/system/cpu/cpufreq"
FAST = "performance"
OWN_GOVERNORS = frozenset({"intel_pstate", "amd-pstate-epp"})
"""Drivers that choose frequencies by themselves: with `powersave` they also reach the highest one
(Linux, Documentation/admin-guide/pm/intel_pstate.rst, amd-pstate.rst)."""


def look(machine: Machine) -> list[tuple[str, str]]:
    """Returns driver and governor of each frequency policy, without those of CPUs that are offline."""
    folder = machine.path(FOLDER)
    if not folder.is_dir() or not (policies := sorted(folder.glob("policy[0-9]*"))):
        raise DoesNotApplyError("the kernel does not choose this machine's CPU frequencies")
    active: list[tuple[str, str]] = []
    for policy in policies:
        with suppress(OSError):  # EBUSY: its CPUs are offline (Linux, drivers/cpufreq/cpufreq.c, show)
            active.append(
                ((policy / "scaling_driver").read_text().strip(), (policy / "scaling_governor").read_text().strip())
            )
    if not active:
        raise CannotJudgeError("no frequency policy can be read")
    return active


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
