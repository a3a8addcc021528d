"""What tests of cgroup v2 ask of a cluster; the small one has it (v2_cluster.py)."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Protocol

from tests.image.small_cluster import WORKER

NODE_CPUS = 2
JOBS_PROCESSES = 200
"""So many processes may all jobs of a node have (nodeSets[].resources.processes)."""
POD_PROCESSES = 400
"""So many may its pod have: what a kubelet sets by podPidsLimit."""


@dataclass(frozen=True, slots=True)
class LoginLimits:
    """What one user may use of the login node: memory in MiB, processes, thousandths of a CPU."""

    mib: int
    processes: int
    cpu_millis: int


class Place(Protocol):
    """A cluster of workers cpu-0 (and cpu-1) with two CPUs each, and a login node, all on cgroup v2."""

    logins: LoginLimits

    def jail(self, script: str, *, user: int = 0, seconds: int = 60) -> subprocess.CompletedProcess[str]:
        """Shell as ALICE, or as 0: who administers Slurm."""

    def as_root(self, script: str) -> subprocess.CompletedProcess[str]:
        """Shell as root of the jail, outside of jobs, in a folder that all nodes have."""

    def root_job(self, script: str, options: str) -> None:
        """Submits a batch job that runs a script of that folder as root."""

    def pod(self, script: str, *, name: str = WORKER, seconds: int = 60) -> subprocess.CompletedProcess[str]:
        """Shell in a pod's own root, as root of the pod."""

    def ssh(self, script: str, *, seconds: int = 60) -> subprocess.CompletedProcess[str]:
        """Shell of ALICE in a session on the login node."""

    def log(self, name: str) -> str:
        """What a pod has printed."""

    def state(self) -> str:
        """What the worker tells its readiness probe."""

    def wait(self, what: str, condition: Callable[[], object], seconds: float) -> object:
        """Waits for a condition; the failure shows what there is."""

    def processes(self) -> list[str]:
        """Command lines of ALICE's processes on the worker."""

    def slurm_groups(self) -> set[str]:
        """The groups in the worker's own, as paths below it."""

    def life_of_a_job(self, seconds: float = 40) -> AbstractContextManager[None]:
        """After what is done inside, nothing is left of it, and the node takes the next job at once."""

    def bound_processes(self) -> AbstractContextManager[None]:
        """Meanwhile the worker's pod has at most POD_PROCESSES."""

    def restart_worker(self) -> None:
        """Ends the worker's container with all that runs in it, and returns when another takes jobs."""
