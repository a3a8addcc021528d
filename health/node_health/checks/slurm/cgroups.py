"""Checks that the pod has the cgroup controllers by which Slurm limits jobs."""

from dataclasses import dataclass

from contract import reasons
from node_health.check import Check, Machine
from node_health.verdict import Finding, passes, warns

FOLDER = "/sys/fs/cgroup"
MEMORY, CPUSET = "memory", "cpuset"


@dataclass(frozen=True, slots=True)
class Controllers:
    """The version of the cgroups and the names of the pod's controllers."""

    version: int
    names: frozenset[str]


def look(machine: Machine) -> Controllers:
    """Reads the version and the controllers of the pod's cgroup (cgroups(7))."""
    if machine.path(f"{FOLDER}/cgroup.controllers").exists():
        return Controllers(2, frozenset(machine.text(f"{FOLDER}/cgroup.controllers").split()))
    folders = [entry.name for entry in machine.path(FOLDER).iterdir() if entry.is_dir()]
    return Controllers(1, frozenset(name for folder in folders for name in folder.split(",")))


def judge(controllers: Controllers, machine: Machine) -> Finding:
    """WARNING without controllers for memory and sets of CPUs. slurmd does not start where slurm.conf wants them."""
    if missing := [name for name in (MEMORY, CPUSET) if name not in controllers.names]:
        return warns(f"the pod has no cgroup controller {' and '.join(missing)}: jobs have no such limit")
    return passes(f"version {controllers.version}: {', '.join(sorted(controllers.names))}")


CHECK = Check(
    reasons.Check.CGROUPS,
    look,
    judge,
    fails="",
    warns="the pod has no cgroup controller for memory or for sets of CPUs",
    remedy="start the Kubernetes node's kernel with the controller, then restart the pod",
)
