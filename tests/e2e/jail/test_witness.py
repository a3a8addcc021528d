"""The witness on the dev cluster: a real kubelet's cgroups and seccomp profile, sudo, an administrator, a login node.

A drawn part of what there is to try: each option of each command once at least (tests/witness). The whole of it:
PULUMI_SLURM_WHOLE=1 make test TESTS=tests/e2e/jail/test_witness.py
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.e2e.jail.witness_cluster import OnDevCluster
from tests.e2e.people import person
from tests.witness.walk import PROMISES, SEED, WHOLE, Walk, Walked

PAIRS = 12
SECONDS = 3000 if WHOLE else 240


@pytest.fixture(scope="module")
def walked(slurm) -> Iterator[Walked]:
    with person(slurm, "walter") as other:
        walk = Walk(OnDevCluster(slurm, other, "admin"), SEED)
        try:
            walk.set_up()
            yield walk.draw_and_run(1, PAIRS, SECONDS)
        finally:
            walk.end()


@pytest.mark.timeout(SECONDS * 2)
@pytest.mark.parametrize("promise", PROMISES)
def test_what_slurm_does_for_a_user_has_no_more_rights_than_his_job(walked, promise):
    violations = PROMISES[promise](walked)
    assert not violations, "\n".join((f"PULUMI_SLURM_SEED={SEED}", *violations))
