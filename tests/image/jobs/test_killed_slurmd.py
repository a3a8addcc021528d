"""slurmd ends under a job: its further steps start, or it is queued again; the node takes the next job at once."""

import re
from collections.abc import Iterator

import pytest

from tests.image.pods import CONTROLLER, WORKER
from tests.image.small_cluster import ALICE, NewCluster, SmallCluster

KILL = "kill -9 $(pidof slurmd)"
SCRIPT = "touch begun; until [ -e go-on ]; do sleep 0.2; done; srun -n1 echo a step of the script"


@pytest.fixture(scope="module")
def cluster(new_cluster: NewCluster) -> Iterator[SmallCluster]:
    # So soon slurmctld misses a job that never began. A job may take longer to end than two messages.
    with new_cluster(slurm={"options": {"BatchStartTimeout": "1", "MessageTimeout": "5", "KillWait": "30"}}) as started:
        yield started


def test_a_job_starts_further_steps_after_its_slurmd_was_killed(cluster: SmallCluster) -> None:
    # No step before: with one, slurmd itself would have written down that the job's prolog ran.
    job = cluster.jail(f"sbatch --parsable -o out --wrap '{SCRIPT}'", user=ALICE).stdout.strip()
    cluster.wait("its script runs", lambda: cluster.jail("test -e begun", user=ALICE).returncode == 0, 30)
    kill_slurmd(cluster)

    from_outside = cluster.jail(f"srun --jobid={job} --overlap -n1 echo a step from outside", user=ALICE)
    assert from_outside.stdout == "a step from outside\n", from_outside
    cluster.jail("touch go-on", user=ALICE)
    await_end(cluster, job)
    assert (state(cluster, job), restarts(cluster, job)) == ("COMPLETED", "0"), shown(cluster, job)
    assert cluster.jail("cat out", user=ALICE).stdout == "a step of the script\n"

    await_idle_node(cluster)
    following = cluster.jail("timeout 25 srun -n1 echo at once", user=ALICE)
    assert following.stdout == "at once\n", following
    cluster.wait("nothing of the jobs is kept", lambda: not cluster.pod("ls /run/slurm-node/prologs").stdout, 30)


SLOW = """
set -e
cp /usr/sbin/node-health-prolog /run/prolog
echo '#!/bin/sh
echo began >> /run/slurm-node/began
until [ -e /run/slurm-node/go-on ]; do sleep 0.1; done
exec /run/prolog' > /run/slow-prolog
chmod 755 /run/prolog /run/slow-prolog
mount --bind /run/slow-prolog /usr/sbin/node-health-prolog
"""
"""A prolog that lasts until it is told."""


def test_a_batch_job_whose_prolog_was_cut_short_is_queued_again_and_runs_it_anew(cluster: SmallCluster) -> None:
    cluster.pod(SLOW).check_returncode()
    job = cluster.jail("sbatch --parsable -o out --wrap 'srun -n1 echo ran'", user=ALICE).stdout.strip()
    cluster.wait("its prolog runs", lambda: cluster.pod("test -e /run/slurm-node/began").returncode == 0, 30)
    kill_slurmd(cluster)
    cluster.wait("it is queued again", lambda: restarts(cluster, job) == "1", 60)

    cluster.pod("touch /run/slurm-node/go-on").check_returncode()
    cluster.wait("it begins anew", lambda: begins_now(cluster, job), 60)
    await_end(cluster, job)
    assert state(cluster, job) == "COMPLETED", shown(cluster, job)
    assert cluster.jail("cat out", user=ALICE).stdout == "ran\n"
    assert cluster.pod("cat /run/slurm-node/began").stdout == "began\n" * 2
    await_idle_node(cluster)


def test_a_reconfigure_waits_for_a_job_that_takes_long_to_end_and_the_node_works_on(cluster: SmallCluster) -> None:
    """Such as one that saves its state after SIGTERM. Slurm's own timeout, two messages, would stop slurmd for good."""
    other = cluster.jail("sbatch --parsable --mem=100 --wrap 'sleep 100'", user=ALICE).stdout.strip()
    script = "trap '' TERM; touch deaf; sleep 100"
    job = cluster.jail(f'sbatch --parsable --mem=100 --wrap "{script}"', user=ALICE).stdout.strip()
    cluster.wait("its script runs", lambda: cluster.jail("test -e deaf", user=ALICE).returncode == 0, 30)
    starts = cluster.log(WORKER).count("slurmd version")
    cluster.jail(f"scancel {job}", user=ALICE).check_returncode()
    cluster.wait("it ends", lambda: state(cluster, job) == "COMPLETING", 30)
    cluster.pod("/opt/slurm/bin/scontrol reconfigure", name=CONTROLLER).check_returncode()
    cluster.wait("slurmd is told", lambda: "Triggering reconfigure" in cluster.log(WORKER), 30)

    meanwhile = cluster.jail(f"timeout 25 srun --jobid={other} --overlap -n1 echo meanwhile", user=ALICE)
    assert meanwhile.stdout == "meanwhile\n", meanwhile
    assert state(cluster, job) == "COMPLETING", "it has not ended yet"
    await_end(cluster, job)
    cluster.wait("slurmd starts anew", lambda: cluster.log(WORKER).count("slurmd version") > starts, 30)
    assert state(cluster, other) == "RUNNING"
    cluster.jail(f"scancel {other}", user=ALICE).check_returncode()
    await_idle_node(cluster)
    following = cluster.jail("timeout 25 srun -n1 echo at once", user=ALICE)
    assert following.stdout == "at once\n", following


def begins_now(cluster: SmallCluster, job: str) -> bool:
    """Return whether a requeued job has begun. Slurm lets it wait for two minutes after its first run's end."""
    if state(cluster, job) in ("RUNNING", "COMPLETED"):
        return True
    cluster.pod(f"/opt/slurm/bin/scontrol update jobid={job} starttime=now")  # Refused if it has begun since.
    return False


def await_end(cluster: SmallCluster, job: str) -> None:
    """Waits until a job has ended for good."""
    cluster.wait("its end", lambda: state(cluster, job) not in ("PENDING", "RUNNING", "COMPLETING"), 60)


def await_idle_node(cluster: SmallCluster) -> None:
    """Waits for what Slurm needs to free a node; a drain would last."""
    look = f"sinfo -h -n {WORKER} -o '%T %E'"
    cluster.wait("the node is free", lambda: cluster.jail(look).stdout == "idle none\n", 30)


def kill_slurmd(cluster: SmallCluster) -> None:
    """Kills slurmd and waits until Slurm's commands work on the node again."""
    before = cluster.pod("pidof slurmd").stdout
    cluster.pod(KILL).check_returncode()
    cluster.wait("another slurmd", lambda: cluster.pod("pidof slurmd").stdout not in ("", before), 60)
    cluster.wait("the node's commands work", lambda: cluster.jail("squeue").returncode == 0, 60)


def shown(cluster: SmallCluster, job: str) -> str:
    """Return what Slurm shows of a job."""
    return cluster.jail(f"scontrol -o show job {job}").stdout


def state(cluster: SmallCluster, job: str) -> str:
    """A job's state, such as RUNNING."""
    return re.findall(r"\bJobState=(\S+)", shown(cluster, job))[0]


def restarts(cluster: SmallCluster, job: str) -> str:
    """Return how often a job was requeued."""
    return re.findall(r"\bRestarts=(\S+)", shown(cluster, job))[0]
