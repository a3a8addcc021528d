"""Checks how often the machine's CPUs were throttled for heat."""

from contract import reasons
from node_health import thresholds
from node_health.check import Check, DoesNotApplyError, Machine
from node_health.sources.counters import Increase, increase
from node_health.verdict import Action, Finding, passes, warns

FOLDER = "/sys/devices/system/cpu"
COUNTERS = ("core_throttle_count", "package_throttle_count")
"""Linux, Documentation/ABI/testing/sysfs-devices-system-cpu."""


def look(machine: Machine) -> Increase:
    """Returns the increase of the throttling events of the CPU with the most, by kind."""
    folders = sorted(machine.path(FOLDER).glob("cpu[0-9]*/thermal_throttle"))
    if not folders:
        raise DoesNotApplyError("the machine does not count throttling")
    most = {
        counter: max(int(file.read_text()) for folder in folders if (file := folder / counter).exists())
        for counter in COUNTERS
        if any((folder / counter).exists() for folder in folders)
    }
    return increase(machine, "throttling", most)


def judge(throttled: Increase, machine: Machine) -> Finding:
    """WARNING at a high rate."""
    most = thresholds.of().number("cpu.throttled")
    if any(throttled.per_hour(counter) > most for counter in throttled.by):
        return warns(f"CPUs were throttled for heat more than {most:g} times an hour", Action.CHECK_MECHANICALS)
    return passes(f"{sum(throttled.by.values())} times throttled in {throttled.hours * 60:.0f} minutes")


CHECK = Check(
    reasons.Check.CPU_THROTTLING,
    look,
    judge,
    fails="",
    warns="CPUs are often throttled for heat",
    remedy="look at the machine's fans, filters and inlet temperature",
)
