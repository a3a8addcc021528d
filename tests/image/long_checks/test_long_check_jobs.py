"""Promises about the jobs of long checks on a real node: they run in the jail as nobody, and their ends say it."""

from __future__ import annotations

import datetime
import re

import pytest
from slurm_operator.decide.cluster.checks.ledger import Verdict
from slurm_operator.decide.cluster.checks.selection import Submission
from slurm_operator.reconcile.health.long_checks import job
from slurm_operator.state.resources import LongCheck

from components.config.nodes.long_checks import LongCheck as Configured
from components.control import long_checks as scripts
from contract import names
from tests.image.long_checks.check_jobs import verdict
from tests.image.pods import WORKER
from tests.image.slurmrestd import Rest
from tests.image.small_cluster import ALICE, SmallCluster

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


@pytest.mark.parametrize(
    ("script", "expected"),
    [
        (NOBODYS, Verdict.PASS),
        ("#!/bin/sh\nexit 1\n", Verdict.FAIL),
        (scripts.script(Configured(name="a", partition="main", script="/opt/none")), Verdict.UNKNOWN),
        (scripts.script(Configured(name="a", partition="main", builtin="memory-bandwidth", least=1)), Verdict.PASS),
        (scripts.script(Configured(name="a", partition="main", builtin="dcgm-diag-1")), Verdict.UNKNOWN),
        (scripts.script(Configured(name="a", partition="main", builtin="all-reduce", least=1)), Verdict.UNKNOWN),
    ],
    ids=["nobody", "fails", "missing", "fast", "no dcgmi", "no GPU"],
)  # fmt: skip
def test_a_checks_job_runs_in_the_jail_as_nobody_and_its_end_is_its_verdict(
    cluster: SmallCluster, rest: Rest, script: str, expected: Verdict
) -> None:
    said = verdict(cluster, rest, script)
    assert said
    assert said[0] is expected, said


def test_what_a_job_reports_arrives_with_its_end(cluster: SmallCluster, rest: Rest) -> None:
    report = "slurm-check-report FAIL --measured 215.4 --least 400 --unit GB/s 'GPU 3: the slowest (of 8)'"
    failed = verdict(cluster, rest, f"#!/bin/sh\n{report} || exit 41\nexit 20\n")
    assert failed
    assert failed[0] is Verdict.FAIL
    assert failed[1].endswith(" FAILED, exit status 20: 215.4 GB/s of at least 400; GPU 3: the slowest (of 8)")
    slow = scripts.script(Configured(name="a", partition="main", builtin="memory-bandwidth", least=9999))
    measured = verdict(cluster, rest, slow, least="9999 GB/s")
    assert measured
    assert measured[0] is Verdict.FAIL
    assert re.search(r" FAILED, exit status 1\d: \d+\.?\d* GB/s of at least 9999$", measured[1]), measured


def test_a_jobs_report_overrules_no_exit_status(cluster: SmallCluster, rest: Rest) -> None:
    lies = verdict(cluster, rest, "#!/bin/sh\nslurm-check-report PASS || exit 41\nexit 20\n")
    assert lies
    assert (lies[0], lies[1].endswith("exit status 20, though it reported PASS")) == (Verdict.FAIL, True), lies
    forgot = verdict(cluster, rest, "#!/bin/sh\nslurm-check-report FAIL 'one link is down'\n")
    assert forgot == (Verdict.UNKNOWN, "it exited with 0, though it reported FAIL: one link is down")


def test_only_its_owner_reports_for_a_job(cluster: SmallCluster, rest: Rest) -> None:
    check = LongCheck("test", "main", ("cpu",), 86_400, 10, 25, drains=True, script="#!/bin/sh\n")
    deadline = datetime.datetime.now(datetime.UTC) + datetime.timedelta(hours=1)
    held = rest.call("POST", "/job/submit", {"job": job(Submission(check, WORKER, deadline))})["job_id"]

    def reported(user: int) -> tuple[bool, str]:
        said = cluster.jail(f"SLURM_JOB_ID={held} slurm-check-report PASS", user=user)
        return said.returncode == 0, rest.call("GET", f"/job/{held}")["jobs"][0]["comment"]

    assert reported(ALICE) == (False, "")
    assert reported(names.LONG_CHECK_USER_ID) == (True, '{"verdict":"PASS"}')
    assert cluster.jail(f"scancel {held}").returncode == 0
