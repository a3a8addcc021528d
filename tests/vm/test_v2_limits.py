"""Limits of a job on cgroup v2: its user reads them, and root in a job cannot lift them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce

import pytest
from slurm_node.accounts import profile_limits

from tests.image.logins import limit_files
from tests.image.pods import WORKER
from tests.image.small_cluster import ALICE
from tests.vm import v2_lifts
from tests.vm.batch_jobs import submit
from tests.vm.v2_cluster import JOBS_PROCESSES, V2Cluster

EAT = "perl -e 'print length(q(a) x (%d << 20))'"
# Stands at its limit, and forks again when one of its processes ends.
BOMB = """perl -e '$| = 1; $SIG{CHLD} = q(IGNORE);
while (1) {
    $child = fork;
    exec qw(sleep 1000) if defined $child and !$child;
    next if $child;
    $told++ or print qq(full: $!);
    select undef, undef, undef, 0.2
}'"""
SLURMD = "pgrep -o -x slurmd"
TOUCH = "for each in /dev/fakegpu0 /dev/fakegpu1 /dev/null; do (: < $each) 2>/dev/null && echo $each; done; true"


def test_a_step_that_wants_more_memory_than_its_job_has_is_ended_in_slurms_words(cluster: V2Cluster) -> None:
    with cluster.life_of_a_job():
        ended = cluster.jail(f"srun -n1 --mem=60 {EAT % 300}", user=ALICE)
        assert "oom_kill" in ended.stderr, ended
        assert "Out Of Memory" in ended.stderr
        kept = cluster.jail(f"srun -n1 --mem=400 {EAT % 100}", user=ALICE)
        assert (kept.stdout, kept.returncode) == (str(100 << 20), 0), kept


def test_a_batch_job_that_wants_too_much_memory_says_so_in_its_output_and_state(cluster: V2Cluster) -> None:
    with cluster.life_of_a_job():
        job = cluster.jail(f'sbatch --parsable -W --mem=60 -o oom --wrap "{EAT % 300}"', user=ALICE).stdout.strip()
        assert "oom_kill" in cluster.jail("cat oom", user=ALICE).stdout

        def shown() -> str:
            return cluster.jail(f"scontrol show job {job}").stdout

        # sbatch is told of the end before the node is: until then the state is COMPLETING.
        cluster.wait("its state", lambda: "JobState=OUT_OF_MEMORY" in shown(), 40)


def test_files_in_a_jobs_tmp_count_as_its_memory(cluster: V2Cluster) -> None:
    with cluster.life_of_a_job():
        line = "srun -n1 --mem=30 sh -c 'head -c 50M /dev/zero > /tmp/large; sleep 1; echo done'"
        ended = cluster.jail(line, user=ALICE)
        assert "oom_kill" in ended.stderr, ended


def test_slurmstepd_has_memory_besides_its_jobs(cluster: V2Cluster) -> None:
    """Files in /tmp outlive the tasks: the kernel would end slurmstepd in their place, and srun wait for ever."""
    limits = "g=/sys/fs/cgroup$(sed s/^0:://  /proc/self/cgroup); cat ${g%%/step_*}/memory.max ${g%/*}/memory.max"
    with cluster.life_of_a_job():
        script = f"#!/bin/sh\n{limits}\nsrun -n1 --mem=60 sh -c '{limits}'\n"
        cluster.jail(f"cat > limits <<'SHELL'\n{script}SHELL", user=ALICE)
        cluster.jail("sbatch -Q -W --mem=100 -o limits.out limits", user=ALICE, seconds=90)
        job, batch, of_job, step = map(int, cluster.jail("cat limits.out", user=ALICE).stdout.split())
        assert (batch, step) == (100 << 20, 60 << 20)
        assert job == of_job > batch


def test_start_up_files_that_run_before_the_job_are_in_a_group_of_their_user(cluster: V2Cluster) -> None:
    """slurmd has them read for `--export=NONE`, when the job has no group yet."""
    assert "cgroups: version 2, writable" in cluster.log(WORKER)
    group = f"users/{ALICE}"
    with cluster.life_of_a_job():
        cluster.jail("rm -f group; echo 'cat /proc/self/cgroup > ~/group' >> ~/.profile", user=ALICE)
        try:
            cluster.jail("sbatch -Q -W --export=NONE -o /dev/null --wrap true", user=ALICE, seconds=90)
        finally:
            cluster.jail("sed -i '$d' ~/.profile", user=ALICE).check_returncode()
        assert cluster.jail("cat group", user=ALICE).stdout.strip().endswith(f"/{group}")
        limits = cluster.pod(f"cd /sys/fs/cgroup/{group}; cat memory.max pids.max").stdout.split()
        assert limits == [str(profile_limits.MEMORY_MIB << 20), str(profile_limits.PROCESSES)]


@dataclass(frozen=True, slots=True)
class Use:
    """Resources that a step has used, as Slurm tells them."""

    memory_bytes: int
    cpu_seconds: float


def seconds(shown: str) -> float:
    """Return a time as sstat(1) shows it, such as 00:01:07 or 01:07.000, in seconds.

    Before the first sample it shows -1 as a number without a sign: millions of days.
    """
    if "-" in shown:
        return 0.0
    return reduce(lambda before, part: before * 60 + float(part), shown.split(":"), 0.0)


def test_slurm_tells_what_a_running_step_uses(cluster: V2Cluster) -> None:
    with cluster.life_of_a_job():
        script = "perl -e '@held = (q(a) x (150 << 20)); 1 while (times)[0] < 5; sleep 1000'"
        job = cluster.jail(
            f'sbatch --parsable --mem=400 --acctg-freq=5 -o use --wrap "srun {script}"', user=ALICE
        ).stdout.strip()

        def used() -> Use:
            shown = cluster.jail(f"sstat -n -P --noconvert -o MaxRSS,AveCPU -j {job}.0", user=ALICE).stdout.strip()
            memory, _, cpu = shown.partition("|")
            return Use(int(memory or 0), seconds(cpu or "0"))

        cluster.wait("its memory is told", lambda: used().memory_bytes >= 150 << 20, 90)
        cluster.wait("its CPU time is told", lambda: used().cpu_seconds >= 4, 90)
        assert used().memory_bytes <= 400 << 20, "no more than the job may have"
        assert used().cpu_seconds < 60, "its loop ends, and it sleeps"
        cluster.jail(f"scancel {job}", user=ALICE)


def test_a_job_keeps_to_its_cores(cluster: V2Cluster) -> None:
    shown = "srun -n%d sh -c 'grep Cpus_allowed_list /proc/self/status; nproc' | sort -u"
    with cluster.life_of_a_job():
        one = cluster.jail(shown % 1, user=ALICE).stdout.split()
        assert one[0] == "1", one
        both = cluster.jail("srun -n1 -c2 nproc", user=ALICE).stdout.split()
        assert both == ["2"]


def test_jobs_that_run_at_once_have_cores_of_their_own(cluster: V2Cluster) -> None:
    with cluster.life_of_a_job():
        # Each runs until the other one has begun.
        meet = "touch meet-$SLURM_JOB_ID; until [ $(ls meet-* | wc -l) = 2 ]; do sleep 0.2; done"
        line = f"srun -n1 -w {WORKER} --mem=100 sh -c 'grep Cpus_allowed_list /proc/self/status; {meet}'"
        done = cluster.jail(f"rm -f meet-*; {line} & {line} & wait; rm meet-*", user=ALICE, seconds=120)
        shown = done.stdout.splitlines()
        assert sorted(each.split()[1] for each in shown) == ["0", "1"]


def test_a_job_that_forks_without_end_leaves_others_and_the_node_their_processes(cluster: V2Cluster) -> None:
    """A job has half of what all jobs have, and they have a part of what the pod has."""
    slurmd = cluster.pod(SLURMD).stdout
    assert slurmd
    with cluster.life_of_a_job(), cluster.bound_processes():
        cluster.jail(f"cat > bomb <<'SHELL'\n{BOMB}\nSHELL", user=ALICE)
        job = submit(cluster, "--mem=200", script="sh bomb")

        def written() -> str:
            return cluster.jail(f"cat out-{job}", user=ALICE).stdout

        cluster.wait("it is at its limit", lambda: "full: Resource temporarily unavailable" in written(), 120)
        forked = [line for line in cluster.processes() if line.startswith("sleep")]
        assert JOBS_PROCESSES // 4 < len(forked) <= JOBS_PROCESSES // 2
        another = cluster.jail(f"srun -Q -n1 -w {WORKER} --mem=50 sh -c 'sleep 0 & wait; echo ran'", user=ALICE)
        assert another.stdout == "ran\n", another
        # A process that a test starts there is not in the pod's group by itself.
        start = "echo $$ > /sys/fs/cgroup/pod/cgroup.procs && cat /proc/self/cgroup && sh -c 'sleep 0 & wait; echo up'"
        started = cluster.pod(start)
        assert started.stdout.splitlines()[1:] == ["up"], started
        assert "/pod" in started.stdout
        assert cluster.jail(f"scancel {job}", user=ALICE).returncode == 0
    assert cluster.pod(SLURMD).stdout == slurmd, "slurmd outlives the cancel"


@pytest.mark.parametrize(
    ("options", "opened"),
    [
        ("--gres=gpu:1", 1),
        ("", 0),
        ("--gres=gpu:2", 2),
    ],
    ids=["one of two", "none", "both"],
)
def test_a_job_opens_the_gpus_that_it_was_given_and_no_other(cluster: V2Cluster, options: str, opened: int) -> None:
    assert cluster.jail(TOUCH).stdout.split() == ["/dev/fakegpu0", "/dev/fakegpu1", "/dev/null"], "without a job"
    for user in (ALICE, 0):
        with cluster.life_of_a_job():
            done = cluster.jail(f"srun -n1 --mem=50 {options} sh -c '{TOUCH}'", user=user)
            assert done.stdout.count("fakegpu") == opened, done
            assert done.stdout.count("null") == 1


@dataclass(frozen=True)
class Tries:
    """Limits that root in a job lifted, and those that the pod's root lifted for the same job."""

    job: v2_lifts.Told
    pod: v2_lifts.Told


@pytest.fixture(scope="module")
def tries(cluster: V2Cluster) -> Tries:
    lifts = v2_lifts.OF_ROOT_IN_A_JOB
    with cluster.life_of_a_job():
        cluster.jail(f"rm -f go-on tries.out; cat > tries <<'SHELL'\n{v2_lifts.tries(lifts, until='go-on')}\nSHELL")
        submitted = cluster.jail(f"sbatch -Q -w {WORKER} --mem=100 -o tries.out --wrap 'sh tries'")
        assert submitted.returncode == 0, submitted

        def of_the_job() -> v2_lifts.Told:
            return v2_lifts.told(cluster.jail("cat tries.out").stdout)

        cluster.wait("it has tried", lambda: of_the_job().ended, 90)
        pod = cluster.pod(v2_lifts.by_who_may(lifts, of_the_job().group))
        cluster.jail("touch go-on")
    return Tries(of_the_job(), v2_lifts.told(pod.stdout))


def test_all_that_the_tries_need_is_there(tries: Tries) -> None:
    assert (tries.job.uid, tries.job.missing, tries.job.ended) == ("0", (), True), tries.job
    assert (tries.pod.uid, tries.pod.missing, tries.pod.ended) == ("0", (), True), tries.pod


@pytest.mark.parametrize("name", v2_lifts.OF_ROOT_IN_A_JOB)
def test_root_in_a_job_lifts_nothing_that_the_pods_root_lifts(tries: Tries, name: str) -> None:
    assert (name in tries.job.lifted, name in tries.pod.lifted) == (False, True)


@pytest.mark.parametrize("user", [ALICE, 0])
def test_slurmstepd_opens_no_limit_for_a_job_even_if_it_is_the_users(cluster: V2Cluster, user: int) -> None:
    with cluster.life_of_a_job():
        assert limit_files.ways_in(cluster, "/sys/fs/cgroup/system.slice/pids.max", user) == []
