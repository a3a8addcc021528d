"""slurmd, and then the pod itself, end under a job in a pod of a real kubelet."""

from __future__ import annotations

from tests.vm.test_v2_jobs import (
    test_a_job_ends_well_under_a_slurmd_that_was_killed,
    test_a_job_of_a_node_that_starts_anew_is_queued_again_and_leaves_nothing,
)

__all__ = [
    "test_a_job_ends_well_under_a_slurmd_that_was_killed",
    "test_a_job_of_a_node_that_starts_anew_is_queued_again_and_leaves_nothing",
]
