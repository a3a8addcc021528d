"""Promises about a long check's job that something ends: what the real slurmctld says of it accuses a node, or none.

Other ends: COMPLETED and FAILED are in test_long_check_jobs.py, DEADLINE in test_long_checks.py, PREEMPTED in
test_preempted_checks.py. TIMEOUT and OUT_OF_MEMORY are in tests/e2e/nodes.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator

import pytest
from slurm_operator.decide.cluster.checks.ledger import Verdict

from tests.image.long_checks.check_jobs import verdict
from tests.image.slurmrestd import Rest
from tests.image.small_cluster import NewCluster, SmallCluster

LASTS = "#!/bin/sh\nexec sleep 1000\n"
CANCEL = "/opt/slurm/bin/scancel {job}"
LOSE = "/opt/slurm/bin/scontrol update nodename=$(hostname) state=down reason=lost"
RECONFIGURED = """
import ctypes, sys
slurm = ctypes.CDLL("/opt/slurm/lib/slurm-wlm/libslurmfull.so", ctypes.RTLD_GLOBAL)
slurm.slurm_init(None)
JOB_RECONFIG_FAIL = 1 << 17
slurm.slurm_requeue2(sys.argv[1].encode(), JOB_RECONFIG_FAIL, ctypes.byref(ctypes.c_void_p()))
"""
"""A program that restarts nodes for jobs says so of one that did not come back: no command of Slurm's does."""
FAIL_TO_BOOT = f"python3 -c {shlex.quote(RECONFIGURED)} {{job}}"


@pytest.fixture(scope="module")
def cluster(new_cluster: NewCluster) -> Iterator[SmallCluster]:
    with new_cluster() as started:
        yield started


@pytest.fixture(scope="module")
def rest(cluster: SmallCluster) -> Rest:
    return Rest(cluster)


@pytest.mark.parametrize(
    ("ends", "expected"),
    [
        (CANCEL, (Verdict.NONE, "CANCELLED")),
        (FAIL_TO_BOOT, (Verdict.FAIL, "job {job} BOOT_FAIL")),
        (LOSE, (Verdict.FAIL, "job {job} NODE_FAIL")),
    ],
    ids=["cancelled", "boot", "node"],
)
def test_a_job_that_ends_before_it_could_say_anything_accuses_its_node_or_none(
    cluster: SmallCluster, rest: Rest, ends: str, expected: tuple[Verdict, str]
) -> None:
    jobs = list[int]()

    def end(job: int) -> None:
        jobs.append(job)
        cluster.wait("it runs", lambda: cluster.jail(f"squeue -h -t running -j {job} -o %i").stdout.strip(), 60)
        done = cluster.pod(ends.replace("{job}", str(job)))
        assert done.returncode == 0, done

    try:
        said = verdict(cluster, rest, LASTS, meanwhile=end)
        assert said == (expected[0], expected[1].format(job=jobs[0]))
    finally:
        if ends == LOSE:
            # Refused if slurmd has registered meanwhile, which resumes the node (ReturnToService=2).
            cluster.pod("/opt/slurm/bin/scontrol update nodename=$(hostname) state=resume")
        cluster.wait("the node serves", lambda: cluster.jail("sinfo -h -o %T").stdout.strip() == "idle", 60)
