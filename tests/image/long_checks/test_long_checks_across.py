"""A long check of GPUs on two nodes: MPICH's mpiexec starts one rank on each, which has all GPUs of its node."""

from __future__ import annotations

import shutil
from collections.abc import Iterator

import pytest
from slurm_operator.decide.cluster.checks.ledger import Verdict

from components.config.nodes.long_checks import Builtin
from components.config.nodes.long_checks import LongCheck as Configured
from components.control.long_checks import script
from devcluster.fakes import gpu_scenario
from tests.image.long_checks.check_jobs import verdict
from tests.image.pods import SECOND, WORKER
from tests.image.slurmrestd import Rest
from tests.image.small_cluster import NewCluster, SmallCluster

GPUS = {"gpus": {"type": "fake", "perNode": 8, "devices": "/dev/fakegpu[0-7]", "runtimeClass": "none"}}
MADE_UP = "for number in 0 1 2 3 4 5 6 7; do mknod /dev/fakegpu$number c 1 3; done; "
"""Null devices, in the place of GPUs."""
RANKS = "/home/ranks"
PROGRAM = f"""#!/bin/sh
# Stands for all_reduce_perf that was built with MPICH: the first rank tells.
for gpus in "$@"; do :; done
echo "$(hostname) $PMI_SIZE $gpus $SLURM_STEP_GPUS" >{RANKS}/$PMI_RANK
[ "$PMI_RANK" -gt 0 ] || echo "# Avg bus bandwidth    : 482.05"
"""


@pytest.fixture(scope="module")
def cluster(new_cluster: NewCluster) -> Iterator[SmallCluster]:
    with new_cluster("mpich", first=MADE_UP, node_set=GPUS) as started:
        started.start_second_worker(MADE_UP)
        assert started.jail(f"mkdir -m 1777 {RANKS}").returncode == 0
        shutil.copy(gpu_scenario.PROGRAMS["nvidia-smi"], started.root / "usr/local/bin/nvidia-smi")
        (started.root / gpu_scenario.PATH_IN_JAIL.lstrip("/")).write_text(gpu_scenario.text(gpus=8))
        yield started


@pytest.fixture(scope="module")
def rest(cluster: SmallCluster) -> Rest:
    return Rest(cluster)


@pytest.mark.parametrize(
    ("program", "least", "expected"),
    [
        (PROGRAM, 400, (Verdict.PASS, "482.05 GB/s of at least 400")),
        (PROGRAM, 964, (Verdict.FAIL, "482.05 GB/s of at least 964")),
        (gpu_scenario.PROGRAMS["all_reduce_perf"].read_text(), 400, (Verdict.UNKNOWN, "built without its MPI")),
    ],
    ids=["fast", "slow", "without MPI"],
)
def test_an_all_reduce_of_two_nodes_has_a_rank_on_each_with_all_gpus(
    cluster: SmallCluster, rest: Rest, program: str, least: int, expected: tuple[Verdict, str]
) -> None:
    file = cluster.root / "usr/local/bin/all_reduce_perf"
    file.write_text(program)
    file.chmod(0o755)
    check = Configured(name="a", partition="main", builtin=Builtin.ALL_REDUCE, nodes=2, least=least)
    said = verdict(cluster, rest, script(check), SECOND, least=f"{least} GB/s")
    assert said
    assert (said[0], expected[1] in said[1]) == (expected[0], True), said
    ranks = cluster.jail(f"cd {RANKS} && cat 0 1; rm -f 0 1").stdout.splitlines()
    by_mpi = [f"{node} 2 8 0,1,2,3,4,5,6,7" for node in (WORKER, SECOND)] if program is PROGRAM else []
    assert sorted(ranks) == by_mpi
