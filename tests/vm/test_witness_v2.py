"""The witness on cgroup v2, with groups that Slurm writes: as tests/e2e/jail/test_witness.py, with more values.

The whole of it in two parts, each of which the guest's 45 minutes are enough for:
PULUMI_SLURM_WHOLE=1 PULUMI_SLURM_SEED=7 PULUMI_SLURM_PART=1/2 make test-vm TESTS=tests/vm/test_witness_v2.py
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.vm.v2_cluster import V2Cluster
from tests.witness.small import OnSmallCluster
from tests.witness.walk import PROMISES, SEED, WHOLE, Walk, Walked

VALUES_EACH, PAIRS = 2, 40
SECONDS = 2400 if WHOLE else 900
SECONDS_EACH = 60
"""A guest starts programs ten times as slowly as a machine does."""


@pytest.fixture(scope="module")
def walked(cluster: V2Cluster) -> Iterator[Walked]:
    there = OnSmallCluster(cluster)
    there.add_people()
    walk = Walk(there, SEED)
    try:
        walk.set_up()
        yield walk.draw_and_run(VALUES_EACH, PAIRS, SECONDS, SECONDS_EACH)
    finally:
        walk.end()


@pytest.mark.timeout(SECONDS * 2)
@pytest.mark.parametrize("promise", PROMISES)
def test_what_slurm_does_for_a_user_has_no_more_rights_than_his_job(walked: Walked, promise: str) -> None:
    violations = PROMISES[promise](walked)
    assert not violations, "\n".join((f"PULUMI_SLURM_SEED={SEED}", *violations))
