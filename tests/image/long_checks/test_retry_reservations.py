"""Promises about reservations in which long checks try drained nodes again: of a real slurmctld, and two real nodes."""

from __future__ import annotations

import datetime
from collections.abc import Iterator
from typing import Any

import pytest
from slurm_operator.clients.slurm import hostlist
from slurm_operator.decide.cluster.checks import long_checks
from slurm_operator.decide.cluster.checks.ledger import Aim, CheckJob, Verdict
from slurm_operator.decide.cluster.checks.selection import Submission
from slurm_operator.decide.nodes import reservations
from slurm_operator.reconcile.health.long_checks import job
from slurm_operator.state.resources import LongCheck
from slurm_operator.state.slurm import Reservation, SeenCheckJob

from contract import names, reasons
from tests.image.pods import SECOND, WORKER
from tests.image.slurmrestd import Rest
from tests.image.small_cluster import ALICE, NewCluster, SmallCluster

# The jobs of several nodes start their parts by srun.
BOTH = f"""#!/bin/sh
[ "$(srun hostname | sort | tr '\\n' ' ')" = "{WORKER} {SECOND} " ] || exit 41
"""
CHECK = LongCheck("test", "main", ("cpu",), 86_400, 10, 25, drains=True, script=BOTH, nodes=2, passes=2)
NAME = reservations.for_retry(WORKER)


@pytest.fixture(scope="module")
def cluster(new_cluster: NewCluster) -> Iterator[SmallCluster]:
    with new_cluster() as started:
        started.start_second_worker()
        yield started


def seconds(moment: datetime.datetime) -> dict[str, Any]:
    return {"set": True, "infinite": False, "number": int(moment.timestamp())}


def called(rest: Rest, method: str, path: str, body: dict[str, Any] | None = None) -> dict[str, Any]:
    answer = rest.call(method, path, body)
    assert not answer["errors"], answer
    return answer


def test_a_drained_node_has_the_checks_jobs_alone_until_its_reservation_ends(cluster: SmallCluster) -> None:
    rest, now = Rest(cluster), datetime.datetime.now(datetime.UTC)
    reason = f"{reasons.LONG_CHECK}test: job 7 TIMEOUT"
    called(rest, "POST", f"/node/{WORKER}", {"state": ["DRAIN"], "reason": reason})
    asked = {"name": NAME, "node_list": [WORKER], "users": [names.RETRY_USER], "flags": [*names.RETRY_FLAGS]}
    times = {"start_time": seconds(now), "end_time": seconds(now + datetime.timedelta(days=365))}
    called(rest, "POST", "/reservation", asked | times)
    (made,) = called(rest, "GET", "/reservations/")["reservations"]
    flags, nodes = frozenset(made["flags"]), hostlist.expand(made["node_list"])
    shown = Reservation(made["name"], nodes, now, now, made["users"], made["accounts"], flags)
    assert reservations.is_for_retry(shown)
    assert nodes == {WORKER}
    called(rest, "POST", f"/node/{WORKER}", {"state": ["UNDRAIN"]})

    submitted = cluster.jail(f"sbatch --parsable -o /dev/null -w {WORKER} --wrap true", user=ALICE)
    assert submitted.returncode == 0, submitted.stderr
    users_job = int(submitted.stdout)
    # The partner stands outside of the reservation.
    deadline = now + datetime.timedelta(hours=1)
    wanted = Submission(CHECK, WORKER, deadline, (SECOND,), Aim.RETRIES, NAME)
    number = called(rest, "POST", "/job/submit", {"job": job(wanted)})["job_id"]
    called(rest, "POST", f"/job/{number}", {"hold": False})
    known = CheckJob(number, "test", WORKER, now, others=(SECOND,), aim=Aim.RETRIES)

    def judged() -> tuple[Verdict, str] | None:
        (there,) = called(rest, "GET", f"/job/{number}")["jobs"]
        status, named = there["exit_code"]["return_code"], hostlist.expand(there["required_nodes"])
        mine = SeenCheckJob(there["name"], there["user_id"], named, frozenset(there["job_state"]), status["number"])
        return long_checks.judge(known, mine)

    cluster.wait("the job's end", judged, 90)
    assert judged() == (Verdict.PASS, "")
    (waits,) = called(rest, "GET", f"/job/{users_job}")["jobs"]
    assert waits["job_state"] == ["PENDING"]
    called(rest, "DELETE", f"/reservation/{NAME}")
    cluster.wait("the user's job ends", lambda: not cluster.jail(f"squeue -h -j {users_job}").stdout.strip(), 90)
    (done,) = called(rest, "GET", f"/job/{users_job}")["jobs"]
    assert done["job_state"] == ["COMPLETED"]
