"""A job's time limit on cgroup v2, in a file of its own: Slurm's shortest one takes a minute."""

from __future__ import annotations

from tests.image.small_cluster import ALICE
from tests.vm.batch_jobs import state, submit
from tests.vm.resting_cluster import RestingCluster


def begin(cluster: RestingCluster) -> str:
    """A job with a minute; its number."""
    return submit(cluster, "-t1", script="setsid sleep 1000 & sleep 1000")


def ends(cluster: RestingCluster, job: str) -> None:
    """It ends at its limit, and its user reads why."""
    cluster.wait("its end", lambda: not state(cluster, job), 150)
    assert "DUE TO TIME LIMIT" in cluster.jail(f"cat out-{job}", user=ALICE).stdout


def test_a_job_ends_at_its_time_limit(cluster: RestingCluster) -> None:
    with cluster.life_of_a_job(90):
        ends(cluster, begin(cluster))
