"""Jobs of long checks as the operator submits and judges them."""

from __future__ import annotations

import datetime
from collections.abc import Callable

from slurm_operator.clients.slurm import hostlist
from slurm_operator.decide.cluster.checks import long_checks
from slurm_operator.decide.cluster.checks.ledger import CheckJob, Verdict
from slurm_operator.decide.cluster.checks.selection import Submission
from slurm_operator.reconcile.health.long_checks import job
from slurm_operator.state.resources import LongCheck
from slurm_operator.state.slurm import SeenCheckJob

from tests.image.pods import WORKER
from tests.image.slurmrestd import Rest
from tests.image.small_cluster import SmallCluster


def verdict(
    cluster: SmallCluster,
    rest: Rest,
    script: str,
    *others: str,
    least: str = "",
    meanwhile: Callable[[int], None] = lambda number: None,
) -> tuple[Verdict, str] | None:
    """Run a check's job on the worker and other nodes, and return what the operator makes of its end.

    Args:
        cluster: has the nodes.
        rest: is asked about the job.
        script: of the job.
        others: nodes beside the worker.
        least: what the check is to measure, in words.
        meanwhile: is called with the job's id when it may begin.
    """
    check = LongCheck("test", "main", ("cpu",), 86_400, 10, 25, drains=True, script=script)
    deadline = datetime.datetime.now(datetime.UTC) + datetime.timedelta(hours=1)
    submitted = rest.call("POST", "/job/submit", {"job": job(Submission(check, WORKER, deadline, others))})
    assert not submitted["errors"], submitted
    number = submitted["job_id"]
    released = rest.call("POST", f"/job/{number}", {"hold": False})
    assert not released["errors"], released
    meanwhile(number)
    found = CheckJob(number, "test", WORKER, deadline, others=others)

    def judged() -> tuple[Verdict, str] | None:
        (shown,) = rest.call("GET", f"/job/{number}")["jobs"]
        status = shown["exit_code"]["return_code"]
        mine = SeenCheckJob(
            *(shown["name"], shown["user_id"], hostlist.expand(shown["required_nodes"]), frozenset(shown["job_state"])),
            status=status["number"] if status["set"] else None,
            comment=shown["comment"],
        )
        return long_checks.judge(found, mine, least)

    cluster.wait("the job's end", judged, 90)
    return judged()
