"""A job's whole life on cgroup v2: it ends when it should, leaves nothing, and the node takes the next one."""

from __future__ import annotations

import pytest

from tests.image.small_cluster import ALICE
from tests.vm.batch_jobs import state, submit
from tests.vm.resting_cluster import RestingCluster
from tests.vm.v2_cluster import V2Cluster

LIVES = {
    "step": ("srun -n1 echo ran", "ran"),
    "batch": ("sbatch -Q -W -o out --wrap 'echo ran' && cat out", "ran"),
    "steps of a batch job": (
        "sbatch -Q -W -n2 -o out --wrap 'srun -n1 --exact echo one & srun -n1 --exact echo two & wait' && sort out",
        "one\ntwo",
    ),
    "array": ("sbatch -Q -W --array=0-3 -o array-%a --wrap 'echo $SLURM_ARRAY_TASK_ID' && cat array-*", "0\n1\n2\n3"),
    "interactive": ("script -qec \"srun -Q --pty sh -c 'test -t 0 && echo ran'\" /dev/null | grep -o ran", "ran"),
    "allocation": ("salloc -Q -n1 srun echo ran", "ran"),
    "container": ("srun -Q -n1 --container=bundle sh -c 'test -e /of-the-image && echo ran'", "ran"),
    "processes that outlive it": ("sbatch -Q -W -o out --wrap 'setsid sleep 1000 & echo ran' && cat out", "ran"),
    "a task that forgets its children": ("srun -n1 sh -c 'setsid sleep 1000 & echo ran'", "ran"),
    "a program that is not there": ("srun -n1 /nowhere 2>/dev/null; echo $?", "2"),
}


@pytest.mark.parametrize("name", LIVES)
def test_a_job_ends_and_leaves_nothing(cluster: RestingCluster, name: str) -> None:
    line, wanted = LIVES[name]
    with cluster.life_of_a_job():
        done = cluster.jail(line, user=ALICE, seconds=180)
        assert done.stdout.strip() == wanted, done


def run_time(cluster: RestingCluster, job: str) -> str:
    """As Slurm shows it, such as 0:07."""
    return cluster.jail(f"squeue -h -j {job} -o %M").stdout.strip()


def beats_meanwhile(cluster: RestingCluster) -> int:
    """Lines that a job adds to its file within two seconds, which are twenty of its rounds."""
    # Each count opens the file: on NFS that asks the server for its size.
    shown = cluster.jail("wc -l < beats; sleep 2; wc -l < beats", user=ALICE).stdout.split()
    before, after = map(int, shown)
    return after - before


def test_a_cancelled_job_ends_with_all_its_processes(cluster: RestingCluster) -> None:
    with cluster.life_of_a_job():
        job = submit(cluster, script="setsid sleep 1000 & trap : TERM; sleep 1000 & wait; sleep 1000")
        assert cluster.jail(f"scancel {job}", user=ALICE).returncode == 0


def test_a_suspended_job_stands_still_and_goes_on(cluster: RestingCluster) -> None:
    with cluster.life_of_a_job():
        # There from the start: a job is seen to run before its script has written anything.
        cluster.jail(": > beats", user=ALICE)
        job = submit(cluster, script="while :; do echo >> beats; sleep 0.1; done")
        cluster.wait("it beats", lambda: beats_meanwhile(cluster) > 0, 30)
        assert cluster.jail(f"scontrol suspend {job}").returncode == 0
        cluster.wait("it is suspended", lambda: state(cluster, job) == "SUSPENDED", 30)
        cluster.wait("it stands still", lambda: beats_meanwhile(cluster) == 0, 30)
        assert cluster.jail(f"scontrol resume {job}").returncode == 0
        cluster.wait("it goes on", lambda: beats_meanwhile(cluster) > 0, 30)
        assert cluster.jail(f"scancel {job}", user=ALICE).returncode == 0


def test_a_requeued_job_leaves_nothing_of_its_first_run(cluster: RestingCluster) -> None:
    with cluster.life_of_a_job():
        job = submit(cluster, "--requeue")
        assert cluster.jail(f"scontrol requeue {job}", user=ALICE).returncode == 0
        cluster.wait("it waits", lambda: state(cluster, job) == "PENDING", 30)
        cluster.wait("rest but for the queue", lambda: not cluster.processes(), 30)
        # Slurm itself lets a requeued job wait for two minutes.
        cluster.jail(f"scontrol update jobid={job} starttime=now")
        cluster.wait("it runs again", lambda: state(cluster, job) == "RUNNING", 60)
        assert cluster.jail(f"scancel {job}", user=ALICE).returncode == 0


def test_a_job_of_a_node_that_starts_anew_is_queued_again_and_leaves_nothing(cluster: V2Cluster) -> None:
    """The container ended under a job; the runtime removes the group with all that runs in it."""
    with cluster.life_of_a_job():
        job = submit(cluster, "--requeue")
        # slurmctld misses a job that is older than BatchStartTimeout and MessageTimeout together, counted from the last
        # registration: a slurmd that follows a killed one registers late, so the test of that comes after this one.
        cluster.wait("it is old enough", lambda: run_time(cluster, job) >= "0:22", 60)
        cluster.restart_worker()
        cluster.wait("it waits", lambda: state(cluster, job) == "PENDING", 60)
        assert cluster.jail(f"scancel {job}", user=ALICE).returncode == 0


def test_a_job_ends_well_under_a_slurmd_that_was_killed(cluster: RestingCluster) -> None:
    with cluster.life_of_a_job():
        cluster.jail("rm -f go-on", user=ALICE)
        job = submit(cluster, script="until [ -e go-on ]; do sleep 0.2; done; rm go-on; srun -n1 echo ran on")
        before = cluster.pod("pidof slurmd").stdout
        assert cluster.pod("kill -9 $(pidof slurmd)").returncode == 0
        cluster.wait("another slurmd", lambda: cluster.pod("pidof slurmd").stdout not in ("", before), 60)
        cluster.wait("it is ready", lambda: cluster.state() == "ready", 60)
        # The worker's commands ask slurmd who they are, and it fetches its configuration first.
        cluster.wait("the job runs", lambda: state(cluster, job) == "RUNNING", 60)
        cluster.jail("touch go-on", user=ALICE)
        cluster.wait("its end", lambda: not state(cluster, job), 60)
        assert cluster.jail(f"cat out-{job}", user=ALICE).stdout == "ran on\n"
