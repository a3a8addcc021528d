"""slurmd is killed under a job: the next one knows it, starts its further steps, and the node takes the next job."""

import re
from collections.abc import Iterator

import pytest

from tests.image.small_cluster import ALICE, WORKER, NewCluster, SmallCluster

KILL = "kill -9 $(pidof slurmd)"
SCRIPT = "touch begun; until [ -e go-on ]; do sleep 0.2; done; srun -n1 echo a step of the script"


@pytest.fixture(scope="module")
def cluster(new_cluster: NewCluster) -> Iterator[SmallCluster]:
    with new_cluster() as started:
        yield started


def test_a_job_starts_further_steps_after_its_slurmd_was_killed(cluster: SmallCluster) -> None:
    # No step before: with one, slurmd itself would have written down that the job's prolog ran.
    job = cluster.jail(f"sbatch --parsable -o out --wrap '{SCRIPT}'", user=ALICE).stdout.strip()
    cluster.wait("its script runs", lambda: cluster.jail("test -e begun", user=ALICE).returncode == 0, 30)
    kill_slurmd(cluster)

    from_outside = cluster.jail(f"srun --jobid={job} --overlap -n1 echo a step from outside", user=ALICE)
    assert from_outside.stdout == "a step from outside\n", from_outside
    cluster.jail("touch go-on", user=ALICE)
    cluster.wait("its end", lambda: state(cluster, job) != "RUNNING", 60)
    assert (state(cluster, job), restarts(cluster, job)) == ("COMPLETED", "0"), shown(cluster, job)
    assert cluster.jail("cat out", user=ALICE).stdout == "a step of the script\n"

    assert cluster.jail(f"sinfo -h -n {WORKER} -o '%T %E'").stdout == "idle none\n"
    following = cluster.jail("timeout 10 srun -n1 echo at once", user=ALICE)
    assert following.stdout == "at once\n", following
    cluster.wait("nothing of the jobs is kept", lambda: not cluster.pod("ls /run/slurm-node/prologs").stdout, 30)


def kill_slurmd(cluster: SmallCluster) -> None:
    """Kills slurmd and waits until Slurm's commands work on the node again."""
    before = cluster.pod("pidof slurmd").stdout
    cluster.pod(KILL).check_returncode()
    cluster.wait("another slurmd", lambda: cluster.pod("pidof slurmd").stdout not in ("", before), 60)
    cluster.wait("the node's commands work", lambda: cluster.jail("squeue").returncode == 0, 60)


def shown(cluster: SmallCluster, job: str) -> str:
    """What Slurm shows of a job."""
    return cluster.jail(f"scontrol -o show job {job}").stdout


def state(cluster: SmallCluster, job: str) -> str:
    """A job's state, such as RUNNING."""
    return re.findall(r"\bJobState=(\S+)", shown(cluster, job))[0]


def restarts(cluster: SmallCluster, job: str) -> str:
    """How often a job was requeued."""
    return re.findall(r"\bRestarts=(\S+)", shown(cluster, job))[0]
