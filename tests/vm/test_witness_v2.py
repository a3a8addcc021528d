"""The witness on cgroup v2, with groups that Slurm writes: as tests/e2e/test_witness.py, with more values."""

from __future__ import annotations

import pytest

from tests.vm.v2_cluster import V2Cluster
from tests.witness.small import OnSmallCluster
from tests.witness.walk import PROMISES, SEED, WHOLE, Walk, Walked

VALUES_EACH, PAIRS = 2, 40
SECONDS = 9000 if WHOLE else 900
SECONDS_EACH = 60
"""A guest starts programs ten times as slowly as a machine does."""


@pytest.fixture(scope="module")
def walked(cluster: V2Cluster) -> Walked:
    there = OnSmallCluster(cluster)
    there.add_people()
    walk = Walk(there, SEED)
    walk.set_up()
    return walk.draw_and_run(VALUES_EACH, PAIRS, SECONDS, SECONDS_EACH)


@pytest.mark.timeout(SECONDS * 2)
@pytest.mark.parametrize("promise", PROMISES)
def test_what_slurm_does_for_a_user_has_no_more_rights_than_his_job(walked: Walked, promise: str) -> None:
    assert not PROMISES[promise](walked), f"PULUMI_SLURM_SEED={SEED}"
