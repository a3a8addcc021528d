"""A killed slurmd ends no job in a pod of a real kubelet.

A job whose pod ends is queued again, and `scontrol reboot` waits for the job.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.e2e.operator.test_windows import test_scontrol_reboot_waits_for_the_job_and_makes_a_new_pod
from tests.vm.kubelet.kubelet_cluster import KubeletCluster
from tests.vm.test_v2_jobs import (
    test_a_job_ends_well_under_a_slurmd_that_was_killed,
    test_a_job_of_a_node_that_starts_anew_is_queued_again_and_leaves_nothing,
)

__all__ = [
    "test_a_job_ends_well_under_a_slurmd_that_was_killed",
    "test_a_job_of_a_node_that_starts_anew_is_queued_again_and_leaves_nothing",
    "test_scontrol_reboot_waits_for_the_job_and_makes_a_new_pod",
]


@pytest.fixture(autouse=True)
def rest(cluster: KubeletCluster) -> Iterator[None]:
    """New pods, too, have nothing of a job."""
    yield
    cluster.forget_workers()
    cluster.wait("rest", cluster.is_at_rest, 60)
