"""Makes the pod's own cgroup writable for slurmd, without a privileged pod and without a path of the host.

A runtime mounts cgroups read-only in an unprivileged container, rooted at the container's own cgroup. A remount of the
bind makes them writable; what can be reached stays below the container's limits.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from contract import paths
from slurm_node.pod.log import NodeError, say
from slurm_node.pod.system import MountFlag, mount

CGROUPS = Path(paths.CGROUPS)
PROCESSES_FOLDER = Path(paths.CGROUP_OF_POD).name
JOBS_FOLDER = "system.slice"
"""Folder in which slurmd makes its scope, with IgnoreSystemd (Slurm's cgroup_v2 plugin)."""


@dataclass(frozen=True, slots=True)
class Controllers:
    """The cgroup mounts that a pod sees.

    Attributes:
        v1: mount points of version 1 hierarchies.
        v2: the mount point of the unified hierarchy at /sys/fs/cgroup itself, if the node uses version 2.
        by_name: a controller's name, such as memory → the version 1 hierarchy that has it.
    """

    v1: tuple[Path, ...]
    v2: Path | None
    by_name: Mapping[str, Path] = field(default_factory=dict)


def find(mountinfo: str) -> Controllers:
    """Reads /proc/self/mountinfo (proc(5): the mount point is field 5, the type follows the dash)."""
    v1: list[Path] = []
    v2: Path | None = None
    by_name: dict[str, Path] = {}
    for line in mountinfo.splitlines():
        before, _, after = line.partition(" - ")
        point, kind = Path(before.split()[4]), after.split()[0]
        if kind == "cgroup" and point.is_relative_to(CGROUPS):
            v1.append(point)
            # The last field has the super block's options, controllers among them.
            by_name |= dict.fromkeys(after.split()[-1].split(","), point)
        elif kind == "cgroup2" and point == CGROUPS:
            v2 = point
    return Controllers(tuple(v1), v2, by_name)


def make_writable() -> Controllers:
    """Remounts this pod's cgroups writable; on version 2 also lets sub-groups have controllers.

    Raises:
        NodeError: the kernel or the runtime does not allow it.
    """
    controllers = find(Path("/proc/self/mountinfo").read_text())
    try:
        for point in [*controllers.v1, *([controllers.v2] if controllers.v2 else [])]:
            mount("none", point, flags=MountFlag.REMOUNT | MountFlag.BIND)
        if controllers.v2:
            _delegate(controllers.v2)
    except OSError as error:
        raise NodeError(f"can't make the pod's cgroups writable: {error}; users would have no limits") from error
    version = "2" if controllers.v2 else "1" if controllers.v1 else "none"
    say(f"cgroups: version {version}, writable below the pod's own")
    return controllers


def _delegate(group: Path) -> None:
    """Moves the pod's processes to a leaf: a version 2 group with processes can't give controllers to its children."""
    leaf = group / PROCESSES_FOLDER
    leaf.mkdir(exist_ok=True)
    for process in (group / "cgroup.procs").read_text().split():
        (leaf / "cgroup.procs").write_text(process)
    controllers = (group / "cgroup.controllers").read_text().split()
    (group / "cgroup.subtree_control").write_text(" ".join(f"+{name}" for name in controllers))


def limit_jobs(controllers: Controllers, processes: int) -> None:
    """Limits the processes and threads of all jobs and slurmd together, so that the pod's entry can always start some.

    Only on version 2: with version 1 Slurm makes no group of the pids controller.

    Raises:
        NodeError: the kernel does not allow it.
    """
    if controllers.v2 is None:
        return
    jobs = controllers.v2 / JOBS_FOLDER
    try:
        jobs.mkdir(exist_ok=True)
        (jobs / "pids.max").write_text(str(processes))
    except OSError as error:
        raise NodeError(f"can't limit the processes of jobs: {error}") from error
