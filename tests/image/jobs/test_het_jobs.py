"""Jobs over nodes. slurmctld, which knows no user, starts components of heterogeneous ones as their user.

No guard of messages (native/doors) refuses what Slurm's commands and daemons then send each other.
"""

from collections.abc import Iterator

import pytest

from tests.image.jobs.intervals import OFTEN
from tests.image.pods import CONTROLLER, SECOND, THIRD, WORKER
from tests.image.small_cluster import ALICE, NewCluster, SmallCluster

BOTH = f"-n1 -w {WORKER} {{0}} : -n1 -w {SECOND} {{0}}"
WHO = "sh -c 'echo $(hostname) $(id -u) $(id -g) $(id -G) $HOME $(stat -c %i /)'"


@pytest.fixture(scope="module")
def cluster(new_cluster: NewCluster) -> Iterator[SmallCluster]:
    with new_cluster("mpich", slurm=OFTEN) as started:
        started.start_second_worker()
        started.jail("groupadd -g 3000 lab && usermod -aG lab alice")
        yield started


def is_at_rest(cluster: SmallCluster) -> bool:
    shown = cluster.jail("squeue -h; sinfo -h -N -o %T | sort -u")
    return shown.stdout.split() == ["idle"]


@pytest.fixture(autouse=True)
def rest(cluster: SmallCluster) -> Iterator[None]:
    yield
    cluster.jail("scancel -u alice")
    cluster.wait("no job, nodes idle", lambda: is_at_rest(cluster), 60)


def told(cluster: SmallCluster) -> list[str]:
    who = f"{ALICE} {ALICE} {ALICE} 3000 /home/alice {cluster.root.stat().st_ino}"
    return sorted(f"{node} {who}" for node in (WORKER, SECOND))


def test_srun_runs_a_program_on_each_component_as_its_user(cluster: SmallCluster) -> None:
    ran = cluster.jail(f"srun {BOTH.format(WHO)}", user=ALICE)
    assert (ran.returncode, sorted(ran.stdout.splitlines())) == (0, told(cluster)), ran


def test_a_batch_job_of_two_components_runs_steps_over_both(cluster: SmallCluster) -> None:
    script = (
        f"#!/bin/sh\n#SBATCH -n1 -w {WORKER}\n#SBATCH hetjob\n#SBATCH -n1 -w {SECOND}\nsrun --het-group=0,1 {WHO}\n"
    )
    cluster.jail(f"cat > het.sh <<'SCRIPT'\n{script}SCRIPT\nsbatch --parsable -o het.out het.sh", user=ALICE)
    cluster.wait("its end", lambda: is_at_rest(cluster), 60)
    assert sorted(cluster.jail("cat het.out", user=ALICE).stdout.splitlines()) == told(cluster)


def test_salloc_takes_two_components_and_an_ordinary_job_has_its_users_groups(cluster: SmallCluster) -> None:
    ran = cluster.jail(f"salloc -Q -n1 -w {WORKER} : -n1 -w {SECOND} srun --het-group=0,1 {WHO}", user=ALICE)
    assert (ran.returncode, sorted(ran.stdout.splitlines())) == (0, told(cluster)), ran
    ordinary = cluster.jail(f"srun -N2 -w {WORKER},{SECOND} {WHO}", user=ALICE)
    assert (ordinary.returncode, sorted(ordinary.stdout.splitlines())) == (0, told(cluster)), ordinary


def test_a_cancelled_job_ends_on_both_nodes(cluster: SmallCluster) -> None:
    cluster.jail(f"nohup srun {BOTH.format('sleep 1000')} >/dev/null 2>&1 &", user=ALICE)
    cluster.wait("both run", lambda: cluster.jail("squeue -h -t R -o %i").stdout.count("+") == 2, 60)
    cluster.jail("scancel -u alice", user=ALICE)
    cluster.wait("no job, nodes idle", lambda: is_at_rest(cluster), 60)
    for node in (WORKER, SECOND):
        assert cluster.pod("ps -u alice -o comm", name=node).stdout.count("sleep") == 0


def test_a_batch_job_of_two_components_outlives_slurmctlds_pod(cluster: SmallCluster) -> None:
    script = (
        "#!/bin/sh\n#SBATCH -n1\n#SBATCH hetjob\n#SBATCH -n1\ntouch runs; until test -e go-on; do sleep 0.2; done\n"
        f"srun --het-group=0,1 {WHO}\n"
    )
    lines = f"rm -f runs go-on; cat > long.sh <<'SCRIPT'\n{script}SCRIPT\nsbatch --parsable -o long.out long.sh"
    job = cluster.jail(lines, user=ALICE).stdout.strip()
    cluster.wait("it runs", lambda: cluster.jail("ls runs", user=ALICE).returncode == 0, 60)
    cluster.restart_controller()
    states = cluster.jail(f"squeue -h -j {job} -o %T", user=ALICE).stdout.split()
    assert states == ["RUNNING", "RUNNING"]
    cluster.jail("touch go-on", user=ALICE)
    cluster.wait("its end", lambda: is_at_rest(cluster), 90)
    assert sorted(cluster.jail("cat long.out", user=ALICE).stdout.splitlines()) == told(cluster)


TRAFFIC = """
echo '0 echo first\n1-2 echo other' > programs
srun --multi-prog programs | sort | uniq -c
sbcast -f programs /tmp/sent && srun ls /tmp/sent | uniq -c
mpiexec -n 3 hostname | sort
! srun -K sh -c 'test $SLURM_PROCID = 1 && exit 7; exec sleep 60' && echo killed
srun -o steps-%t sh -c 'trap "echo heard; exit" USR1; touch begun-$SLURM_PROCID; while :; do sleep 0.1; done' &
until [ $(ls begun-* 2>/dev/null | wc -l) = 3 ]; do sleep 0.1; done
step=$SLURM_JOB_ID.$(squeue -hs -j $SLURM_JOB_ID -o %i | grep -o '[0-9]*$' | sort -n | tail -1)
sstat -a -n -P -o nodelist -j $step | sort -u
timeout 1 sattach $step; scontrol listpids $step >/dev/null 2>&1
scancel --signal=USR1 $step; wait; grep -h heard steps-* | uniq -c
timeout 1 srun sleep 60; echo cancelled $?
"""
CAME_THROUGH = ["1 first", "2 other", "3 /tmp/sent", "cpu-0", "cpu-1", "cpu-2", "killed", "cpu-[0-2]", "3 heard",
                "cancelled 124"]  # fmt: skip


def test_no_guard_refuses_what_a_job_of_three_nodes_and_its_commands_send(cluster: SmallCluster) -> None:
    cluster.start_third_worker()
    cluster.jail(f"cat > traffic.sh <<'END'\n{TRAFFIC}\nEND", user=ALICE)
    done = cluster.jail("salloc -Q -N3 -n3 --mem=100 sh traffic.sh", user=ALICE, seconds=90)
    said = {"commands": done.stderr, **{pod: cluster.log(pod) for pod in (CONTROLLER, WORKER, SECOND, THIRD)}}
    refused = {who: [line for line in text.splitlines() if "error: refused" in line] for who, text in said.items()}
    assert not any(refused.values()), refused
    assert [" ".join(line.split()) for line in done.stdout.splitlines()] == CAME_THROUGH, done
