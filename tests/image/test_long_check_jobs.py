"""Promises about the jobs of long checks on a real node: they run in the jail as nobody, and their ends say it."""

from __future__ import annotations

import datetime

import pytest
from slurm_operator.clients.slurm import hostlist
from slurm_operator.decide.cluster.checks import long_checks
from slurm_operator.decide.cluster.checks.ledger import CheckJob, Verdict
from slurm_operator.decide.cluster.checks.selection import Submission
from slurm_operator.reconcile.health.long_checks import job
from slurm_operator.state.resources import LongCheck
from slurm_operator.state.slurm import SeenCheckJob

from components.config.nodes.long_checks import LongCheck as Configured
from components.control import long_checks as scripts
from tests.image.pods import WORKER
from tests.image.slurmrestd import Rest
from tests.image.small_cluster import SmallCluster

NOBODYS = """#!/bin/sh
[ "$(id -u)" = 65534 ] || exit 40
[ -d /home/alice ] || exit 41
[ ! -e /run/secrets/slurm ] || exit 42
touch /etc/mine 2>/dev/null && exit 43
exit 0
"""


@pytest.fixture(scope="module")
def rest(cluster: SmallCluster) -> Rest:
    return Rest(cluster)


def verdict(
    cluster: SmallCluster, rest: Rest, script: str, *others: str, least: str = ""
) -> tuple[Verdict, str] | None:
    """Run a check's job on the worker and other nodes, and return what the operator makes of its end."""
    check = LongCheck("test", "main", ("cpu",), 86_400, 10, 25, drains=True, script=script)
    deadline = datetime.datetime.now(datetime.UTC) + datetime.timedelta(hours=1)
    submitted = rest.call("POST", "/job/submit", {"job": job(Submission(check, WORKER, deadline, others))})
    assert not submitted["errors"], submitted
    number = submitted["job_id"]
    released = rest.call("POST", f"/job/{number}", {"hold": False})
    assert not released["errors"], released
    found = CheckJob(number, "test", WORKER, deadline, others=others)

    def judged() -> tuple[Verdict, str] | None:
        (shown,) = rest.call("GET", f"/job/{number}")["jobs"]
        status = shown["exit_code"]["return_code"]
        mine = SeenCheckJob(
            *(shown["name"], shown["user_id"], hostlist.expand(shown["required_nodes"]), frozenset(shown["job_state"])),
            status=status["number"] if status["set"] else None,
        )
        return long_checks.judge(found, mine, least)

    cluster.wait("the job's end", judged, 90)
    return judged()


@pytest.mark.parametrize(
    ("script", "expected"),
    [
        (NOBODYS, Verdict.PASS),
        ("#!/bin/sh\nexit 1\n", Verdict.FAIL),
        (scripts.script(Configured(name="a", partition="main", script="/opt/none")), Verdict.UNKNOWN),
        (scripts.script(Configured(name="a", partition="main", builtin="memory-bandwidth", least=1)), Verdict.PASS),
        (scripts.script(Configured(name="a", partition="main", builtin="memory-bandwidth", least=9999)), Verdict.FAIL),
        (scripts.script(Configured(name="a", partition="main", builtin="dcgm-diag-1")), Verdict.UNKNOWN),
        (scripts.script(Configured(name="a", partition="main", builtin="all-reduce", least=1)), Verdict.UNKNOWN),
    ],
    ids=["nobody", "fails", "missing", "fast", "slow", "no dcgmi", "no GPU"],
)  # fmt: skip
def test_a_checks_job_runs_in_the_jail_as_nobody_and_its_end_is_its_verdict(
    cluster: SmallCluster, rest: Rest, script: str, expected: Verdict
) -> None:
    said = verdict(cluster, rest, script)
    assert said
    assert said[0] is expected, said
