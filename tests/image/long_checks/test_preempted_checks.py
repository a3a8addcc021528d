"""Promises about a long check's job in a user's way: the user's job ends it and starts, and it accuses no node."""

from __future__ import annotations

import datetime
import time
from collections.abc import Iterator
from typing import Any

import pytest
from slurm_operator.clients.slurm import hostlist
from slurm_operator.decide.cluster.checks import long_checks
from slurm_operator.decide.cluster.checks.ledger import CheckJob, Verdict
from slurm_operator.decide.cluster.checks.selection import Submission
from slurm_operator.reconcile.health.long_checks import job
from slurm_operator.state.resources import LongCheck
from slurm_operator.state.slurm import SeenCheckJob

from tests.image.pods import WORKER
from tests.image.slurmrestd import Rest
from tests.image.small_cluster import ALICE, NewCluster, SmallCluster

CHECK = LongCheck("test", "checks", ("cpu",), 86_400, 10, 25, drains=True, script="#!/bin/sh\nsleep 1000\n")
PARTITIONS = [
    {"name": "main", "nodeSets": ["cpu"], "default": True},
    {"name": "checks", "nodeSets": ["cpu"], "hidden": True, "priorityTier": 0, "preemptMode": "CANCEL"},
]
"""As docs/health.md has them."""


@pytest.fixture(scope="module")
def cluster(new_cluster: NewCluster) -> Iterator[SmallCluster]:
    options = {"PreemptType": "preempt/partition_prio", "PreemptMode": "CANCEL"}
    with new_cluster(slurm={"options": options}, partitions=PARTITIONS) as started:
        yield started


def test_a_users_job_ends_a_check_in_its_way_and_the_node_is_not_accused(cluster: SmallCluster) -> None:
    rest = Rest(cluster)
    deadline = datetime.datetime.now(datetime.UTC) + datetime.timedelta(hours=1)
    number = rest.call("POST", "/job/submit", {"job": job(Submission(CHECK, WORKER, deadline))})["job_id"]
    assert not rest.call("POST", f"/job/{number}", {"hold": False})["errors"]

    def shown(job_id: int) -> dict[str, Any]:
        (there,) = rest.call("GET", f"/job/{job_id}")["jobs"]
        return dict(there)

    cluster.wait("the check runs", lambda: shown(number)["job_state"] == ["RUNNING"], 60)
    began = time.monotonic()
    submitted = cluster.jail("sbatch --parsable -n1 -o /dev/null --wrap true", user=ALICE)
    assert submitted.returncode == 0, submitted.stderr
    users = int(submitted.stdout)
    cluster.wait("the user's job ends", lambda: shown(users)["job_state"] == ["COMPLETED"], 90)
    assert time.monotonic() - began < CHECK.limit_minutes * 60 / 5

    there = shown(number)
    status, named = there["exit_code"]["return_code"], hostlist.expand(there["required_nodes"])
    seen = SeenCheckJob(there["name"], there["user_id"], named, frozenset(there["job_state"]), status["number"])
    assert long_checks.judge(CheckJob(number, "test", WORKER, deadline), seen) == (Verdict.NONE, "PREEMPTED")
    ask = "/opt/slurm/bin/sinfo -h -n $(hostname) -o '%T %E'"
    cluster.wait("the node serves", lambda: cluster.pod(ask).stdout.strip() == "idle none", 60)
