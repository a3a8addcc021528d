"""The witness on cgroup v2, with groups that Slurm writes: as tests/image/test_witness.py, with more pairs."""

from __future__ import annotations

import os
import random

import pytest

from tests.vm.v2_cluster import V2Cluster
from tests.witness import judge, runs
from tests.witness.stage import Stage

SEED = int(os.environ.get("PULUMI_SLURM_SEED") or random.randrange(10**6))
WHOLE = os.environ.get("PULUMI_SLURM_WHOLE") == "1"
PAIRS = 60
SECONDS = 900
SECONDS_EACH = 45
"""A guest starts programs ten times as slowly as a machine does."""


@pytest.fixture(scope="module")
def walked(cluster: V2Cluster) -> Stage:
    print(f"PULUMI_SLURM_SEED={SEED}")
    stage = Stage(cluster)
    stage.set()
    stage.walk(runs.draw(SEED, WHOLE, PAIRS), SECONDS, SECONDS_EACH)
    return stage


@pytest.mark.timeout(SECONDS * 2)
def test_no_process_that_slurm_starts_for_a_user_has_more_rights_than_his_job(walked: Stage) -> None:
    lines = walked.lines()
    assert {*runs.BASELINES} <= {line.one("label") for line in lines}, "every witness works"
    assert not judge.verdict(lines, walked.nodes(), walked.root()), f"PULUMI_SLURM_SEED={SEED}"
    assert not [*walked.leaks(), *walked.written()], f"PULUMI_SLURM_SEED={SEED}"


def test_no_process_lives_longer_than_its_job(walked: Stage) -> None:
    assert not walked.alive_after(60), f"PULUMI_SLURM_SEED={SEED}"
