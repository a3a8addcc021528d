"""Promises about a job that hangs, on a real node: it is noted, told, and queued again where its partition says so."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from slurm_operator.clients.slurm.slurm_error import SlurmError
from slurm_operator.decide.nodes import hanging_jobs
from slurm_operator.decide.nodes.hanging_jobs import Hang
from slurm_operator.state.slurm import SeenQuietJob, SlurmNode

from tests.image.pods import SECOND, WORKER
from tests.image.slurmrestd import Calls, Rest, made
from tests.image.small_cluster import SmallCluster

DECLARE = """
import json
from pathlib import Path
file = Path("/run/slurm-node/declared.json")
file.write_text(json.dumps({**json.loads(file.read_text()), "hangs_after": 5}))
"""


@pytest.fixture(scope="module")
def calls(cluster: SmallCluster) -> Calls:
    return Calls(Rest(cluster))


def submitted(cluster: SmallCluster, script: str, options: str = "") -> int:
    wanted = f"sbatch --parsable --requeue --mem=100 -o /home/alice/said {options} --wrap '{script}'"
    answer = cluster.jail(wanted, user=1000)
    assert answer.returncode == 0, answer.stderr
    return int(answer.stdout)


def test_a_job_that_hangs_is_noted_told_and_queued_again_without_its_node(cluster: SmallCluster, calls: Calls) -> None:
    """This one is expedited: by itself Slurm would start it at once where it hung."""
    job_id = submitted(cluster, "sleep 1000", "--requeue=expedite")

    def seen() -> SeenQuietJob:
        job = made(calls.quiet_job(job_id))
        assert job
        return job

    cluster.wait("the job runs", lambda: seen().states == {"RUNNING"}, 60)
    running = seen()
    assert (made(calls.record_count(job_id)), made(calls.record_count(999_999))) == (1, 0)
    array = submitted(cluster, "true", "--hold --array=0-1")
    numbers = [number for number, _ in made(calls.job_states())]
    assert numbers[-2:] == [f"{array}_0", f"{array}_1"], "no task has a record of its own"
    assert (made(calls.record_count(array)), len(made(calls.job(str(array))))) == (1, 1)
    assert running.nodes == {WORKER}
    assert (running.partition, running.requeues, running.held) == ("main", True, False)
    assert running.resumed
    with pytest.raises(SlurmError, match="pending"):
        made(calls.exclude_nodes(job_id, [WORKER]))
    hang = Hang(job_id, "main", running.resumed, running.nodes)
    made(calls.comment_job(job_id, hang.comment))
    assert seen().comment == hang.comment

    assert cluster.pod(f"python3 -c '{DECLARE}'").returncode == 0

    def noted() -> dict[int, Any]:
        cluster.pod("node-health --record --context periodic")
        record = cluster.pod("/opt/slurm/bin/scontrol -o show node $(hostname)").stdout
        extra = re.search(r" Extra=(pulumi-slurm:.*?) *(?: InstanceId=.*)?$", record.strip())
        node = SlurmNode(WORKER, frozenset({"MIXED"}), extra=extra[1] if extra else "")
        return hanging_jobs.quiet_jobs({WORKER: node})

    cluster.wait("the node notes the job", lambda: WORKER in noted().get(job_id, {}), 60)
    told = "this job seems to hang: no CPU time used"
    cluster.wait("the job is told", lambda: told in cluster.jail("cat /home/alice/said").stdout, 90)

    made(calls.requeue_held(job_id))
    cluster.wait("it is queued again, on hold", lambda: hanging_jobs._waits(seen()), 90)
    made(calls.exclude_nodes(job_id, [WORKER]))
    assert seen().excluded == {WORKER}
    assert seen().held
    record = cluster.pod(f"/opt/slurm/bin/scontrol -o show job {job_id}").stdout
    assert f"ExcNodeList={WORKER}" in record

    cluster.start_second_worker()
    made(calls.release(job_id))
    # Slurm itself lets a requeued job wait for two minutes.
    cluster.wait("it runs elsewhere", lambda: seen().nodes == {SECOND} and seen().states == {"RUNNING"}, 60)
    cluster.jail(f"scancel {job_id} {array}", user=1000)


def test_cpu_time_counts_and_a_heartbeat_in_place_of_it(cluster: SmallCluster) -> None:
    here = f"-w {WORKER}"
    works, sleeps = submitted(cluster, "while :; do :; done", here), submitted(cluster, "sleep 1000", here)
    assert cluster.pod(f"python3 -c '{DECLARE.replace('5}', '12}')}'").returncode == 0

    def evidence() -> str:
        checks = json.loads(cluster.pod("node-health --json").stdout)["checks"]
        return next((str(row["evidence"]) for row in checks if row["check"] == "quiet jobs"), "")

    cluster.wait("the sleeping one is quiet", lambda: f"{sleeps} since" in evidence(), 90)
    assert f"{works} since" not in evidence()
    beats = f"touch ~/.slurm-heartbeat-{sleeps}; touch -d '1 hour ago' ~/.slurm-heartbeat-{works}"
    assert cluster.jail(beats, user=1000).returncode == 0
    said = evidence()
    assert f"{sleeps} since" not in said
    assert f"{works} since" in said
    # Nobody knows then where heartbeats lie, and no daemon of the node waits for that pipe.
    cluster.jail("cd /etc; mv passwd passwd.kept; mkfifo -m 644 passwd").check_returncode()
    try:
        said = evidence()
    finally:
        cluster.jail("cd /etc; rm passwd; mv passwd.kept passwd").check_returncode()
    assert f"{sleeps} since" in said
    cluster.jail(f"scancel {works} {sleeps}", user=1000)


def test_an_expedited_job_that_failed_on_bad_hardware_starts_elsewhere_at_once(cluster: SmallCluster) -> None:
    """Slurm holds it unless an epilog fails. The node's drain says what is bad, and is lifted when that is over.

    The first test has started the second node.
    """
    script = "hostname >>ran; [ $SLURM_RESTART_COUNT ] || { until [ -e go ]; do sleep 0.1; done; exit 1; }"
    wanted = f"sbatch --parsable --requeue=expedite --mem=100 -D /home/alice -o /dev/null --wrap '{script}'"
    answer = cluster.jail(wanted, user=1000)
    assert answer.returncode == 0, answer.stderr

    def ran() -> list[str]:
        return cluster.jail("cat /home/alice/ran").stdout.split()

    cluster.wait("it runs", ran, 60)
    (first,) = ran()

    def told() -> str:
        return cluster.pod(f"/opt/slurm/bin/sinfo -h -n {first} -o '%T %E'", name=first).stdout.strip()

    declared = cluster.pod("cat /run/slurm-node/declared.json", name=first).stdout
    more = json.dumps({**json.loads(declared), "cpus": 9999})
    record = "/usr/sbin/node-health --record --context periodic"
    cluster.pod(f"echo '{more}' >/run/slurm-node/declared.json; {record}", name=first).check_returncode()
    cluster.jail("touch /home/alice/go", user=1000).check_returncode()
    cluster.wait("it runs elsewhere", lambda: len(ran()) == 2, 60)
    assert {*ran()} == {WORKER, SECOND}
    cluster.wait("its own drain in place of Slurm's", lambda: "drained pulumi-slurm:health cpus: " in told(), 60)
    cluster.pod(f"echo '{declared}' >/run/slurm-node/declared.json; {record}", name=first).check_returncode()
    cluster.wait("it takes jobs", lambda: told().startswith("idle"), 90)
