"""Promises about builtin long checks with their real tools, on two real nodes: fio and iperf3."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from slurm_operator.decide.cluster.checks.ledger import Verdict

from components.config.nodes.long_checks import LongCheck as Configured
from components.control.long_checks import script
from tests.image.long_checks.check_jobs import verdict
from tests.image.pods import SECOND
from tests.image.slurmrestd import Rest
from tests.image.small_cluster import NewCluster, SmallCluster

SCRATCH = "/home/scratch"
DISK: dict[str, Any] = {"builtin": "disk", "directory": SCRATCH}
NETWORK: dict[str, Any] = {"builtin": "network", "nodes": 2}


@pytest.fixture(scope="module")
def cluster(new_cluster: NewCluster) -> Iterator[SmallCluster]:
    with new_cluster("tools") as started:
        started.start_second_worker()
        # A jail of another distribution may lack hostname, or the option -I of Debian's.
        assert started.jail(f"rm $(command -v hostname) && mkdir -m 1777 {SCRATCH}").returncode == 0
        yield started


@pytest.fixture(scope="module")
def rest(cluster: SmallCluster) -> Rest:
    return Rest(cluster)


@pytest.mark.parametrize("check", [DISK, NETWORK], ids=["fio", "iperf3"])
def test_a_builtin_measures_with_its_real_tool_and_compares(
    cluster: SmallCluster, rest: Rest, check: dict[str, Any]
) -> None:
    others = (SECOND,) if check.get("nodes") == 2 else ()

    def said(least: int) -> tuple[Verdict, str] | None:
        declared = Configured(name="a", partition="main", least=least, **check)
        return verdict(cluster, rest, script(declared), *others, least=f"{least} MB/s")

    passed = said(1)
    assert passed
    assert (passed[0], "MB/s of at least 1" in passed[1]) == (Verdict.PASS, True), passed
    failed = said(1_000_000)
    assert failed
    assert failed[0] is Verdict.FAIL, failed
    assert "MB/s of at least 1000000" in failed[1]
    assert cluster.jail(f"ls {SCRATCH}").stdout == ""


def test_a_disk_that_is_not_there_is_unknown(cluster: SmallCluster, rest: Rest) -> None:
    gone = Configured(name="a", partition="main", least=1, **{**DISK, "directory": "/home/gone"})
    assert verdict(cluster, rest, script(gone)) == (Verdict.UNKNOWN, "it could not look (exit status 3)")
