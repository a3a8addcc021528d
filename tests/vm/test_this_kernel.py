"""The kernel that runs these tests has what makes a machine need no guest: else that check would ask too much."""

from __future__ import annotations

from devcluster.vm import own_kernel


def test_a_kernel_that_runs_these_tests_lacks_nothing_that_they_need() -> None:
    assert own_kernel.lacking() == []
