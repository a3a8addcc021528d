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


def submit_with_a_minute(cluster: RestingCluster) -> str:
    """A job with a minute; its number."""
    return submit(cluster, "-t1", script="setsid sleep 1000 & sleep 1000")


def ends_at_its_limit(cluster: RestingCluster, job: str) -> None:
    """It ends at its limit, and its user reads why."""
    cluster.wait("its end", lambda: not state(cluster, job), 150)
    assert "DUE TO TIME LIMIT" in cluster.jail(f"cat out-{job}", user=ALICE).stdout
