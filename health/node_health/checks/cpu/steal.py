"""Checks how much CPU time a hypervisor takes from this machine."""

from contract import reasons
from node_health import thresholds
from node_health.check import Check, Machine
from node_health.sources.counters import Increase, increase
from node_health.verdict import Finding, passes, warns

STEAL = 8
"""Place of steal after "cpu" in /proc/stat (proc(5)): user nice system idle iowait irq softirq steal."""


def look(machine: Machine) -> Increase:
    """Returns the increase of the stolen time and of all time, in clock ticks."""
    line = machine.text("/proc/stat").splitlines()[0].split()
    if line[0] != "cpu" or len(line) <= STEAL:
        raise ValueError("/proc/stat does not begin with the CPUs' times")
    return increase(machine, "steal", {"steal": int(line[STEAL]), "all": sum(map(int, line[1 : STEAL + 1]))})


def judge(times: Increase, machine: Machine) -> Finding:
    """WARNING when it takes much."""
    most, everything = thresholds.of().number("cpu.steal"), times.count("all")
    percent = 100 * times.count("steal") / everything if everything else 0.0
    if percent > most:
        return warns(f"a hypervisor takes more than {most:g} percent of the CPUs' time")
    return passes(f"a hypervisor takes {percent:.1f} percent of the CPUs' time")


CHECK = Check(
    reasons.Check.CPU_STEAL,
    look,
    judge,
    fails="",
    warns="a hypervisor takes much of the CPUs' time",
    remedy="move the virtual machine to a host that is not overcommitted",
)
