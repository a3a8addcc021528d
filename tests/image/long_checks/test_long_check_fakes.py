"""Promises about long checks of GPUs as Slurm jobs, beside fakes of their tools that answer."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from typing import Any

import pytest
from slurm_operator.decide.cluster.checks.ledger import Verdict

from components.config.nodes.long_checks import LongCheck as Configured
from components.control.long_checks import script
from devcluster.fakes import gpu_scenario
from tests.image.long_checks.check_jobs import verdict
from tests.image.slurmrestd import Rest
from tests.image.small_cluster import NewCluster, SmallCluster

DIAG = {"builtin": "dcgm-diag-2"}
ALL_REDUCE = {"builtin": "all-reduce"}
"""Without a threshold of its own: that of an H100."""


@pytest.fixture(scope="module")
def cluster(new_cluster: NewCluster) -> Iterator[SmallCluster]:
    with new_cluster("jail") as started:
        for name, file in gpu_scenario.PROGRAMS.items():
            shutil.copy(file, started.root / "usr/local/bin" / name)
        yield started


@pytest.fixture(scope="module")
def rest(cluster: SmallCluster) -> Rest:
    return Rest(cluster)


@pytest.mark.parametrize(
    ("check", "answers", "expected"),
    [
        (ALL_REDUCE, {}, (Verdict.PASS, "GB/s of at least 460")),
        (ALL_REDUCE, {"all_reduce_perf": "230.0"}, (Verdict.FAIL, "exit status 60: 230 GB/s of at least 460")),
        (ALL_REDUCE, {"all_reduce_perf": "exit 2"}, (Verdict.FAIL, "FAILED, exit status 1")),
        (ALL_REDUCE, {"all_reduce_perf": "silent"}, (Verdict.UNKNOWN, "it could not look")),
        (DIAG, {}, (Verdict.PASS, "")),
        (DIAG, {"dcgmi": "faulty"}, (Verdict.FAIL, "FAILED, exit status 1")),
        (DIAG, {"dcgmi": "alone"}, (Verdict.UNKNOWN, "it could not look")),
        ({"builtin": "gpu-burn"}, {"gpu_burn": "faulty"}, (Verdict.FAIL, "exit status 1: 7 GPUs of at least 8; ")),
        ({"builtin": "nvbandwidth"}, {"nvbandwidth": "48.5"}, (Verdict.PASS, "")),
    ],
    ids=["fast", "slow", "fails", "silent", "diag", "diag fails", "no host engine", "burn", "copies"],
)  # fmt: skip
def test_a_check_of_gpus_is_a_job_whose_end_says_what_its_tool_found(
    cluster: SmallCluster, rest: Rest, check: dict[str, Any], answers: dict[str, str], expected: tuple[Verdict, str]
) -> None:
    scenario = gpu_scenario.text(gpus=8, tools=answers)
    assert cluster.jail(f"cat >{gpu_scenario.PATH_IN_JAIL} <<'END'\n{scenario}END").returncode == 0
    said = verdict(cluster, rest, script(Configured(name="a", partition="main", **check)), least="its GPUs' GB/s")
    assert said
    assert (said[0], expected[1] in said[1]) == (expected[0], True), said
