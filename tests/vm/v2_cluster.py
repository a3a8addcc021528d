"""The small cluster on cgroup v2, and what it must look like at rest."""

from __future__ import annotations

from pathlib import Path

from tests.image.small_cluster import ALICE, REVISION, WORKER
from tests.vm.resting_cluster import IDLE, RestingCluster
from tests.vm.v2_groups import remove
from tests.witness.small import BOB

FIFTH_OF_A_CPU = 200
JOBS_PROCESSES = 200
LOGIN_MIB = 64
LOGIN_PROCESSES = 40
GPUS = {"type": "fake", "perNode": 2, "devices": "/dev/fakegpu[0-1]", "runtimeClass": "none"}
NODE_SET = {"gpus": GPUS, "resources": {"cpu": 2, "memory": "1Gi", "processes": JOBS_PROCESSES}}
# Character devices of this kernel that open: FUSE's and that of tunnels.
FAKE_GPUS = "mknod -m 666 /dev/fakegpu0 c 10 229; mknod -m 666 /dev/fakegpu1 c 10 200; "


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
    """A cluster whose pods have groups of their own below `groups`, with cores and devices constrained."""

    def __init__(self, image: Path, root: Path, folder: Path, groups: Path) -> None:
        super().__init__(image, root, folder, slurm={"constrainCores": True}, node_set=NODE_SET, groups=groups)

    def restart_worker(self) -> None:
        """Ends the worker's container with all that runs in it, and starts another."""
        top = self.group(WORKER)
        assert top is not None
        self.end(WORKER)
        remove(top)
        self.start_worker(WORKER, REVISION, FAKE_GPUS)
        self.wait("the worker is ready", lambda: self.state() == "ready", 90)
        self.wait("the node is idle", lambda: self.node()["state"] == IDLE, 60)

    def slurm_groups(self, name: str = WORKER) -> set[str]:
        """The groups in a worker's own, as paths below it."""
        top = self.group(name)
        assert top is not None
        return {str(path.relative_to(top)) for path in top.rglob("*") if path.is_dir()}

    def settle(self) -> None:
        """Runs a first job, for which Slurm makes some groups that stay."""
        first = self.jail("srun -n1 hostname", user=ALICE)
        assert first.returncode == 0, first
        self.wait("rest", self.is_at_rest, 40)

    def is_free(self, name: str) -> bool:
        """Whether a worker is idle and has no process and no group of a job."""
        return self.slurm_groups(name) <= rest_of(name) and super().is_free(name)

    def left_on(self, name: str) -> str:
        """What a worker has, in words."""
        return f"{super().left_on(name)}, groups {sorted(self.slurm_groups(name) - rest_of(name))}"
