"""Batch jobs of a test on cgroup v2."""

from __future__ import annotations

from tests.image.pods import WORKER
from tests.image.small_cluster import ALICE
from tests.vm.resting_cluster import RestingCluster


def submit(cluster: RestingCluster, *options: str, script: str = "sleep 1000") -> str:
    """A batch job that runs on the first worker; its number."""
    words = " ".join(("-w", WORKER, *options))
    job = cluster.jail(f"sbatch --parsable {words} -o out-%j --wrap '{script}'", user=ALICE).stdout.strip()
    cluster.wait("it runs", lambda: state(cluster, job) == "RUNNING", 30)
    cluster.wait("its script runs", cluster.processes, 30)
    return job


def state(cluster: RestingCluster, job: str) -> str:
    return cluster.jail(f"squeue -h -j {job} -o %T").stdout.strip()
