"""A job's time limit on cgroup v2, in a file of its own: Slurm's shortest one takes a minute."""

from __future__ import annotations

from tests.vm.batch_jobs import ends_at_its_limit, submit_with_a_minute
from tests.vm.resting_cluster import RestingCluster


def test_a_job_ends_at_its_time_limit(cluster: RestingCluster) -> None:
    with cluster.life_of_a_job(90):
        ends_at_its_limit(cluster, submit_with_a_minute(cluster))
