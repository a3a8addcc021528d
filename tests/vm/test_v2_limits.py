"""What a job may use on cgroup v2, what its user reads of it, and what root in a job cannot lift."""

from __future__ import annotations

import pytest

from tests.image.small_cluster import ALICE
from tests.vm.v2_cluster import V2Cluster

OWN_GROUP = "g=/sys/fs/cgroup$(sed s/^0:://  /proc/self/cgroup); job=${g%%/step_*}; "
EAT = "perl -e 'print length(q(a) x (%d << 20))'"
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
        assert "JobState=OUT_OF_MEMORY" in cluster.jail(f"scontrol show job {job}").stdout


def test_files_in_a_jobs_tmp_count_as_its_memory(cluster: V2Cluster) -> None:
    with cluster.life_of_a_job():
        line = "srun -n1 --mem=30 sh -c 'head -c 50M /dev/zero > /tmp/large; sleep 1; echo done'"
        ended = cluster.jail(line, user=ALICE)
        assert "oom_kill" in ended.stderr, ended


def test_slurm_tells_what_a_running_step_uses(cluster: V2Cluster) -> None:
    with cluster.life_of_a_job():
        script = "perl -e '@held = (q(a) x (150 << 20)); sleep 1000'"
        job = cluster.jail(
            f'sbatch --parsable --mem=400 --acctg-freq=5 -o use --wrap "srun {script}"', user=ALICE
        ).stdout.strip()

        def used() -> int:
            shown = cluster.jail(f"sstat -n -P --noconvert -o MaxRSS -j {job}.0", user=ALICE).stdout.strip()
            return int(shown or 0)

        cluster.wait("its memory is told", lambda: used() >= 150 << 20, 90)
        assert used() <= 400 << 20, "no more than the job may have"
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
        line = "srun -n1 --mem=100 sh -c 'grep Cpus_allowed_list /proc/self/status; sleep 3'"
        shown = cluster.jail(f"{line} & {line} & wait", user=ALICE).stdout.splitlines()
        assert sorted(each.split()[1] for each in shown) == ["0", "1"]


def test_a_job_that_forks_without_end_leaves_the_node_its_processes(cluster: V2Cluster) -> None:
    with cluster.life_of_a_job():
        bomb = "srun -n1 --mem=200 sh -c 'i=0; while [ $i -lt 3000 ]; do sleep 30 & i=$((i+1)); done; echo all'"
        refused = cluster.jail(bomb, user=ALICE, seconds=120)
        assert "Cannot fork" in refused.stderr, refused.stderr[-500:]
        assert cluster.pod("true").returncode == 0


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


LIFTS = {
    "more memory": "echo max > $job/memory.max",
    "more memory for the step": "echo max > $g/memory.max",
    "another group": "echo $$ > /sys/fs/cgroup/cgroup.procs",
    "the pod's group": "echo $$ > /sys/fs/cgroup/pod/cgroup.procs",
    "more cores": "echo 0-1 > $job/cpuset.cpus",
    "a group of its own": "mkdir $g/own",
    "controllers for groups below": "echo +memory > $g/cgroup.subtree_control",
    "the node's end": "echo 1 > /sys/fs/cgroup/cgroup.kill",
    "another's end": "echo 1 > /sys/fs/cgroup/pod/cgroup.kill",
    "a freeze of the node": "echo 1 > /sys/fs/cgroup/pod/cgroup.freeze",
    "a writable mount": "mount -o remount,bind,rw /sys/fs/cgroup",
    "another mount": "mkdir -p /tmp/m && mount -t cgroup2 none /tmp/m",
    "a namespace of groups": "unshare -C true",
    "a namespace of groups for a user of its own": "unshare -UrC true",
    "a mount in namespaces of its own": "unshare -Urm sh -c 'mkdir -p /tmp/m && mount -t cgroup2 none /tmp/m'",
    "a mount in its own groups' namespace": (
        "unshare -UrmC sh -c 'mount -t cgroup2 none /tmp && echo max > /tmp/memory.max'"
    ),
}


@pytest.fixture(scope="module")
def lifted(cluster: V2Cluster) -> list[str]:
    """Which tries succeeded, of root in one job."""
    # The small cluster's jail has mount and unshare: without them no try would prove anything.
    assert cluster.jail("command -v mount unshare perl").returncode == 0
    tries = "\n".join(f"( {line} ) >/dev/null 2>&1 && echo 'lifted: {name}'" for name, line in LIFTS.items())
    cluster.jail(f"cat > /root/lifts <<'SHELL'\n{OWN_GROUP}\n{tries}\ntrue\nSHELL")
    with cluster.life_of_a_job():
        tried = cluster.jail("srun -n1 --mem=100 sh -c 'sh -x /root/lifts; echo end'", seconds=90)
    assert tried.stdout.endswith("end\n"), tried
    return tried.stdout.splitlines()


@pytest.mark.parametrize("name", LIFTS)
def test_root_in_a_job_lifts_nothing(lifted: list[str], name: str) -> None:
    assert f"lifted: {name}" not in lifted
