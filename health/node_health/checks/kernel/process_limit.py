"""Checks that the pod can start further processes, where its container's cgroup has a limit.

Some runtimes set one. The kubelet's podPidsLimit stands above, in the pod's cgroup, which nobody sees from inside.
"""

from dataclasses import dataclass

from contract import reasons
from node_health import thresholds
from node_health.check import Check, DoesNotApplyError, Machine
from node_health.verdict import Finding, passes, warns

FOLDERS = ("/sys/fs/cgroup", "/sys/fs/cgroup/pids")
"""The container's cgroup, version 2, then 1."""


@dataclass(frozen=True, slots=True)
class Processes:
    """Processes and threads of the pod, and their limit."""

    now: int
    limit: int


def look(machine: Machine) -> Processes:
    """Reads both from the container's cgroup."""
    for folder in FOLDERS:
        if machine.path(f"{folder}/pids.max").exists():
            limit = machine.text(f"{folder}/pids.max")
            if limit == "max":
                break
            return Processes(int(machine.text(f"{folder}/pids.current")), int(limit))
    raise DoesNotApplyError("no limit shows in the pod; the kubelet's podPidsLimit is outside of its view")


def judge(processes: Processes, machine: Machine) -> Finding:
    """WARNING when most of them are in use."""
    most = thresholds.of().number("kernel.processes")
    if processes.now * 100 > processes.limit * most:
        return warns(f"more than {most:g} percent of the pod's {processes.limit} processes are in use")
    return passes(f"{processes.now} of {processes.limit} processes are in use")


CHECK = Check(
    reasons.Check.PROCESS_LIMIT,
    look,
    judge,
    fails="",
    warns="most of the processes that the runtime allows the pod are in use",
    remedy="raise the container runtime's limit (CRI-O's pids_limit), or lower nodeSets[].resources.processes",
)
