"""The small cluster on cgroup v2, and what it must look like at rest."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from tests.image.small_cluster import ALICE, REVISION, SECOND, WORKER, SmallCluster
from tests.vm.v2_groups import below, remove
from tests.vm.v2_place import JOBS_PROCESSES, NODE_CPUS, POD_PROCESSES, LoginLimits

IDLE = "IDLE+DYNAMIC_NORM"
RESOURCES = {"cpu": NODE_CPUS, "memory": "1Gi", "processes": JOBS_PROCESSES}
GPUS = {"type": "fake", "perNode": 2, "devices": "/dev/fakegpu[0-1]", "runtimeClass": "none"}
NODE_SET = {"gpus": GPUS, "resources": RESOURCES}
# Character devices of this kernel that open: FUSE's and that of tunnels.
FAKE_GPUS = "mknod -m 666 /dev/fakegpu0 c 10 229; mknod -m 666 /dev/fakegpu1 c 10 200; "


def rest_of(name: str) -> set[str]:
    """Groups of a worker without a job: the entry's own, and Slurm's for slurmd and for what holds its scope.

    Those of users, for their start-up files, stay as on a login node.
    """
    scope = f"system.slice/{name}_slurmstepd.scope"
    return {"pod", "users", f"users/{ALICE}", "users/0", "system.slice", scope, f"{scope}/slurmd", f"{scope}/system"}


class V2Cluster(SmallCluster):
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

    logins = LoginLimits(mib=64, processes=40, cpu_millis=200)

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
        self._rest = {WORKER: rest_of(WORKER)}

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
        self._rest[SECOND] = rest_of(SECOND)

    def as_root(self, script: str) -> subprocess.CompletedProcess[str]:
        """Shell as root of the jail, outside of jobs."""
        return self.jail(script)

    def root_job(self, script: str, options: str) -> None:
        """Submits a batch job that runs a script in root's home as root."""
        submitted = self.jail(f"sbatch -Q {options} --wrap 'sh {script}'")
        assert submitted.returncode == 0, submitted

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
        limit = self._top() / "pids.max"
        limit.write_text(str(POD_PROCESSES))
        try:
            yield
        finally:
            limit.write_text("max")

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

    def processes(self, user: int = ALICE, name: str = WORKER) -> list[str]:
        """Command lines of a user's processes on a worker."""
        line = f"for each in $(pgrep -u {user}); do tr '\\0' ' ' < /proc/$each/cmdline; echo; done"
        return [line for line in self.pod(line, name=name).stdout.splitlines() if line]

    def node(self, name: str = WORKER) -> dict[str, str]:
        """State and reason of a worker."""
        said = self.pod(f"/opt/slurm/bin/scontrol show node {name} --json", seconds=30)
        if said.returncode != 0:  # slurmd, which says who asks, has just been started.
            return {"state": "", "reason": said.stderr}
        (node,) = json.loads(said.stdout)["nodes"]
        return {"state": "+".join(node["state"]), "reason": node["reason"]}

    def is_at_rest(self) -> bool:
        """Whether no job, group, or process of a job is left, and its nodes are idle."""
        return not self.jail("squeue -h").stdout.strip() and all(
            self.slurm_groups(name) <= rest and not self.processes(name=name) and self.node(name)["state"] == IDLE
            for name, rest in self._rest.items()
        )

    def left(self) -> str:
        """What is not as at rest, in words."""
        return "; ".join(
            f"{name}: groups {sorted(self.slurm_groups(name) - rest)}, processes {self.processes(name=name)}, node "
            f"{self.node(name)}"
            for name, rest in self._rest.items()
        )

    @contextmanager
    def life_of_a_job(self, seconds: float = 40) -> Iterator[None]:
        """After what is done inside, nothing is left of it, and the node takes the next job at once."""
        try:
            yield
        except BaseException:
            self.jail("scancel --user=alice; scancel --user=root", seconds=30)
            raise
        try:
            self.wait("rest", self.is_at_rest, seconds)
        except AssertionError as error:
            raise AssertionError(f"the job left something: {self.left()}") from error
        following = self.jail(f"srun -n1 -w {WORKER} hostname", user=ALICE)
        assert (following.stdout, following.returncode) == (f"{WORKER}\n", 0), following
