"""The small cluster on cgroup v2, and what it must look like at rest."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.image.pods import REVISION, SECOND, WORKER
from tests.image.small_cluster import ALICE
from tests.vm.resting_cluster import IDLE, RestingCluster
from tests.vm.v2_groups import below, remove
from tests.witness.small import BOB

JOBS_PROCESSES = 400
"""So many processes may all jobs of a node have (nodeSets[].resources.processes).

The witness runs six lines in a job, which has half of it, and each srun has two dozen threads.
"""
POD_PROCESSES = 800
"""So many may its pod have: what a kubelet sets by podPidsLimit."""
RESOURCES = {"cpu": 2, "memory": "1Gi", "processes": JOBS_PROCESSES}
GPUS = {"type": "fake", "perNode": 2, "devices": "/dev/fakegpu[0-1]", "runtimeClass": "none"}
NODE_SET = {"gpus": GPUS, "resources": RESOURCES}
# Character devices of this kernel that open: FUSE's and that of tunnels.
FAKE_GPUS = "mknod -m 666 /dev/fakegpu0 c 10 229; mknod -m 666 /dev/fakegpu1 c 10 200; "


@dataclass(frozen=True, slots=True)
class LoginLimits:
    """Limits of one user on the login node: memory in MiB, processes, thousandths of a CPU."""

    mib: int
    processes: int
    cpu_millis: int


@contextmanager
def bound_processes(group: Path) -> Iterator[None]:
    """Meanwhile a pod's group has at most POD_PROCESSES."""
    limit = group / "pids.max"
    limit.write_text(str(POD_PROCESSES))
    try:
        yield
    finally:
        limit.write_text("max")


def rest_of(name: str) -> set[str]:
    """Groups of a worker without a job: the entry's own, and Slurm's for slurmd and for what holds its scope.

    Those of users, for their start-up files, stay as on a login node.
    """
    scope = f"system.slice/{name}_slurmstepd.scope"
    return {
        "pod",
        "users",
        f"users/{ALICE}",
        f"users/{BOB}",
        "users/0",
        "system.slice",
        scope,
        f"{scope}/slurmd",
        f"{scope}/system",
    }


class V2Cluster(RestingCluster):
    """A cluster whose pods have groups of their own below `groups`, with cores and devices constrained.

    Args:
        image: as for SmallCluster.
        root: the same.
        folder: the same.
        groups: hands all controllers down.
        node_set: what the configuration says besides of the workers.
        first: shell in each worker's pod, before its entry.
        slurm: what the configuration says besides of Slurm.
    """

    logins = LoginLimits(mib=64, processes=120, cpu_millis=200)
    """The witness runs several lines of one user at once, and each srun has a dozen threads."""

    def __init__(
        self,
        image: Path,
        root: Path,
        folder: Path,
        groups: Path,
        node_set: Mapping[str, object],
        first: str = "",
        slurm: Mapping[str, object] | None = None,
    ) -> None:
        super().__init__(
            image, root, folder, slurm={"constrainCores": True, **(slurm or {})}, node_set=node_set, groups=groups
        )
        self._first = first

    def start(self, first: str = "") -> None:
        """As a small cluster does."""
        super().start(first or self._first)

    def start_limited_login(self) -> None:
        """Starts the login node with the limits of `logins`."""
        wanted = self.logins
        self.start_login(cpuMillis=wanted.cpu_millis, memoryMib=wanted.mib, processes=wanted.processes)

    def start_second_worker(self, first: str = "") -> None:
        """As a small cluster does; it must be at rest too."""
        super().start_second_worker(first or self._first)
        self.workers = (WORKER, SECOND)

    def restart_worker(self) -> None:
        """Ends the worker's container with all that runs in it, and starts another."""
        top = self._top()
        self.end(WORKER)
        remove(top)
        self.start_worker(WORKER, REVISION, self._first)
        self.wait("the worker is ready", lambda: self.state() == "ready", 90)
        self.wait("the node is idle", lambda: self.node()["state"] == IDLE, 60)

    @contextmanager
    def bound_processes(self) -> Iterator[None]:
        """Meanwhile the worker's pod has at most POD_PROCESSES."""
        with bound_processes(self._top()):
            yield

    def _top(self, name: str = WORKER) -> Path:
        top = self.group(name)
        assert top is not None
        return top

    def slurm_groups(self, name: str = WORKER) -> set[str]:
        """The groups in a worker's own, as paths below it."""
        return below(self._top(name))

    def settle(self) -> None:
        """Runs a first job, for which Slurm makes some groups that stay."""
        first = self.jail("srun -n1 hostname", user=ALICE)
        assert first.returncode == 0, first
        self.wait("rest", self.is_at_rest, 40)

    def is_free(self, name: str) -> bool:
        """Return whether a worker is idle and has no process and no group of a job."""
        return self.slurm_groups(name) <= rest_of(name) and super().is_free(name)

    def left_on(self, name: str) -> str:
        """Return what a worker has, in words."""
        return f"{super().left_on(name)}, groups {sorted(self.slurm_groups(name) - rest_of(name))}"
