"""slurmstepd opens -i, -o, -e and --chdir as the job would: nothing of the node, all that is the user's.

Control groups: test_login_limits.py and tests/vm/test_v2_limits.py, whose clusters have some.
"""

from __future__ import annotations

import pytest

from tests.image.small_cluster import ALICE, SmallCluster

BATCH = "rm -rf out err; timeout 50 sbatch -Q --wait {} --wrap 'cat; echo ran; pwd'; cat out err 2>/dev/null"
REFUSED = """
rm -rf out err; job=$(timeout 50 sbatch --parsable --wait {} --wrap 'cat; echo ran'); cat out err 2>/dev/null
scontrol -o show job $job | grep -o 'ExitCode=[0-9:]*'
"""


def batch(cluster: SmallCluster, options: str) -> str:
    """Return what a batch job of alice's wrote, to `out` and `err` in her home."""
    return cluster.jail(BATCH.format(options), user=ALICE, seconds=70).stdout


def refused(cluster: SmallCluster, options: str) -> None:
    """Asserts that a batch job of alice's ended before its script, as one whose files slurmstepd could not open."""
    done = cluster.jail(REFUSED.format(options), user=ALICE, seconds=70)
    assert done.stdout == "ExitCode=0:53\n", done


@pytest.mark.parametrize(
    "path",
    [
        "/proc/self/maps",
        "/proc/thread-self/environ",
        "/proc/1/cmdline",
        "/proc/self/root/etc/passwd",
        "/proc/thread-self/root/etc/passwd",  # /proc/self/task/N/root, with the right N
        "/proc/self/task/../cwd/mine",
        "/dev/stdin",
        "/sys/kernel/rcu_expedited",
        "link",
        "linked/self/maps",
    ],
)
def test_a_job_reads_nothing_of_the_node_through_slurmstepd(cluster: SmallCluster, path: str) -> None:
    made = "echo mine > mine; ln -sfn /proc/self/maps link; ln -sfn /proc linked"
    cluster.jail(made, user=ALICE)
    refused(cluster, f"-i {path} -o out -e err")


def test_a_job_opens_no_device_through_slurmstepd_but_everybodys(cluster: SmallCluster) -> None:
    cluster.pod("rm -f /dev/given; mknod -m 666 /dev/given c 10 229").check_returncode()
    assert cluster.jail("timeout 40 srun -Q -n1 sh -c 'exec 9< /dev/given'", user=ALICE).returncode == 0, "it opens"
    refused(cluster, "-i /dev/given -o out -e err")
    assert batch(cluster, "-i /dev/null -o out -e err") == "ran\n/home/alice\n"


def test_a_task_of_a_step_writes_nothing_of_the_node_through_slurmstepd(cluster: SmallCluster) -> None:
    def step(target: str) -> int:
        cluster.jail(f"ln -sfn {target} name.0", user=ALICE)
        return cluster.jail("timeout 40 srun -Q -n1 -o name.%t echo renamed", user=ALICE).returncode

    assert step("named") == 0
    assert cluster.jail("cat named", user=ALICE).stdout == "renamed\n", "it writes through a link to what is the user's"
    assert step("/proc/self/comm") == 1
    names = cluster.pod("cat /proc/[0-9]*/comm").stdout
    assert "renamed" not in names


def test_a_job_starts_in_no_folder_of_the_node(cluster: SmallCluster) -> None:
    for folder in ("/proc/1", "/proc/self/task", "/sys/kernel"):
        done = cluster.jail(f"timeout 40 srun -Q -n1 --chdir={folder} pwd", user=ALICE)
        assert done.stdout == "/tmp\n", done
        assert "Permission denied" in done.stderr


def test_what_is_the_users_is_opened(cluster: SmallCluster) -> None:
    made = "mkdir -p sub; echo given > sub/in; ln -sfn sub/in in; mkfifo -m 600 pipe 2>/dev/null; rm -f many.*"
    cluster.jail(made, user=ALICE)
    assert batch(cluster, "-i in -o out -e err") == "given\nran\n/home/alice\n"
    assert batch(cluster, "-i /dev/null -o out -e err --chdir=sub") == ""
    assert cluster.jail("cat sub/out", user=ALICE).stdout == "ran\n/home/alice/sub\n"
    assert cluster.jail("cat sub/out >> kept; cat kept", user=ALICE).stdout == "ran\n/home/alice/sub\n"
    assert batch(cluster, "-i in -o kept -e err --open-mode=append") == ""
    assert cluster.jail("cat kept", user=ALICE).stdout == "ran\n/home/alice/sub\ngiven\nran\n/home/alice\n"
    assert batch(cluster, "-i in -o kept -e err --open-mode=truncate") == ""
    assert cluster.jail("cat kept", user=ALICE).stdout == "given\nran\n/home/alice\n"
    assert batch(cluster, "-i in -o /tmp/of-the-job -e err") == ""
    printed = cluster.jail("(sleep 1; echo piped > pipe) & timeout 40 srun -Q -n1 -i pipe cat", user=ALICE).stdout
    assert printed == "piped\n"
    steps = "timeout 40 srun -Q -n2 --overcommit -o many.%t sh -c 'echo $SLURM_PROCID'; cat many.0 many.1"
    assert cluster.jail(steps, user=ALICE).stdout == "0\n1\n"


def test_a_folder_of_somebody_else_is_still_his(cluster: SmallCluster) -> None:
    refused(cluster, "-o /root/out -e err")
    assert cluster.jail("ls /root/out").returncode != 0


# A pipe that somebody holds open: with its end slurmstepd may end as well, see docs/limits.md.
OWN_INPUTS = """
rm -f open; mkfifo open; exec 3<>open; echo zero > of.0; echo one > of.1
for round in 1 2 3 4 5 6; do
    timeout 20 srun -Q -n2 --overcommit -l -i of.%t cat <&3 | sort | tr '\\n' ' '
done
"""


def test_each_task_reads_the_file_of_its_own_number_each_time(cluster: SmallCluster) -> None:
    done = cluster.jail(OWN_INPUTS, user=ALICE, seconds=150)
    assert done.stdout == "0: zero 1: one " * 6, done.stderr
