"""A partition's grace time in the jail. How preempted jobs end otherwise: tests/e2e/preemption.py."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.image.small_cluster import ALICE, NewCluster, SmallCluster

OF_ALL = "-n1 -c$(nproc) --mem=100"
SCRIPT = """#!/bin/sh
srun -n1 sh -c "trap 'echo asked to end; exit 0' TERM; echo began; while :; do sleep 0.1; done"
"""
GRACE_SECONDS = 600
"""Longer than the test: a job that ends earlier was asked to."""
PARTITIONS = [
    {"name": "low", "nodeSets": ["cpu"], "preemptMode": "CANCEL", "graceTime": GRACE_SECONDS},
    {"name": "high", "nodeSets": ["cpu"], "priorityTier": 10, "preemptMode": "OFF"},
]


@pytest.fixture(scope="module")
def cluster(new_cluster: NewCluster) -> Iterator[SmallCluster]:
    options = {"PreemptType": "preempt/partition_prio", "PreemptMode": "CANCEL"}
    with new_cluster(slurm={"options": options}, partitions=PARTITIONS) as started:
        yield started


def test_a_job_with_a_grace_time_is_asked_to_end_and_may(cluster: SmallCluster) -> None:
    """Slurm writes DUE TO PREEMPTION to a job that it cancels."""
    submit = f"sbatch -p low {OF_ALL} -o out job && until grep began out 2>/dev/null; do sleep 0.1; done"
    cluster.jail(f"cat > job <<'END'\n{SCRIPT}END\n{submit}", user=ALICE).check_returncode()
    assert cluster.jail(f"srun -Q -p high {OF_ALL} echo first", user=ALICE).stdout == "first\n"
    written = cluster.jail("cat out", user=ALICE).stdout
    assert "asked to end" in written
    assert "PREEMPTION" not in written
