"""A node that is bad from birth has no job, though one waits for it and somebody undrains it."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from tests.image.pods import CONTROLLER, REVISION, WORKER
from tests.image.small_cluster import NewCluster, SmallCluster

ADMINISTER = "setpriv --reuid=64030 --regid=64030 --clear-groups /opt/slurm/bin/scontrol"
FAULT = "/run/a-fault"
"""A file of one pod alone. The site's own health script looks for it."""
SCRIPT = f"#!/bin/sh\n[ ! -e {FAULT} ] || {{ echo the disk is bad; exit 1; }}\n"
OURS = "pulumi-slurm:health site scripts: "


@pytest.fixture(scope="module")
def cluster(new_cluster: NewCluster) -> Iterator[SmallCluster]:
    with new_cluster(slurm={"scripts": {"healthCheck": [{"name": "disk", "text": SCRIPT}]}}) as started:
        started.start_login()
        yield started


def administer(cluster: SmallCluster, words: str) -> int:
    return cluster.pod(f"{ADMINISTER} {words}", name=CONTROLLER).returncode


def told(cluster: SmallCluster) -> str:
    """State and reason of the node; empty without one."""
    return cluster.pod(f"/opt/slurm/bin/sinfo -h -n {WORKER} -o '%T %E'", name=CONTROLLER).stdout.strip()


def test_a_job_that_waits_for_a_node_begins_there_only_when_its_first_checks_have_passed(cluster: SmallCluster) -> None:
    def output() -> str:
        return cluster.ssh("cat ran 2>/dev/null").stdout

    cluster.end(WORKER)
    cluster.wait("its record goes", lambda: administer(cluster, f"delete nodename={WORKER}") == 0, 60)
    assert told(cluster) == ""
    submitted = cluster.ssh("sbatch --parsable -o ran --wrap 'echo on $(hostname)'")
    assert submitted.returncode == 0, submitted.stderr

    cluster.start_worker(WORKER, REVISION, f"touch {FAULT}; ")
    cluster.wait("the new node is there, drained", lambda: "drained" in told(cluster), 90)
    # The operator does so only after the checks. Here nobody looks at them.
    assert administer(cluster, f"update nodename={WORKER} state=undrain") == 0
    cluster.wait("the node's own drain", lambda: told(cluster).startswith(f"drained {OURS}"), 60)
    assert output() == ""
    assert cluster.ssh(f"squeue -h -j {submitted.stdout.strip()} -o %T").stdout.strip() == "PENDING"

    explained = cluster.pod("/usr/sbin/node-health explain").stdout
    state, cause, who, *checks = explained.splitlines()
    assert re.fullmatch(rf"{WORKER}: \S*DRAIN\S*", state), explained
    assert cause.startswith(f"  {OURS}disk ended with status 1: the disk is bad"), explained
    assert who.endswith("; the node lifts it when this check did not fail, or is made no more"), explained
    failed = next(number for number, line in enumerate(checks) if line.startswith("FAIL    site scripts: disk ended"))
    assert re.match(r"        since \S+Z, for .+; ", checks[failed + 1]), explained

    assert cluster.pod(f"rm {FAULT}; /usr/sbin/node-health-program").returncode == 0
    cluster.wait("it takes jobs", lambda: not told(cluster).startswith("drain"), 90)
    # Slurm itself lets a job wait for two minutes that a node refused.
    administer(cluster, f"update jobid={submitted.stdout.strip()} starttime=now")
    cluster.wait("the job's output", output, 90)
    assert output() == f"on {WORKER}\n"
