"""Features of Slurm that need no configuration of this project's: each is tried once in a jail (docs/tested.md)."""

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.image.pods import CONTROLLER
from tests.image.small_cluster import ALICE, NewCluster, SmallCluster

OPTIONS = "Licenses=compiler:1\nScronParameters=enable\n"
CORE_PATTERN = Path("/proc/sys/kernel/core_pattern")


@pytest.fixture(scope="module")
def cluster(new_cluster: NewCluster) -> Iterator[SmallCluster]:
    with new_cluster() as started:
        started.append("slurm.conf", OPTIONS)
        started.restart_controller()
        read = "grep ScronParameters=enable /run/slurm/conf/slurm.conf"
        started.wait("the node's configuration", lambda: started.pod(read).returncode == 0, 60)
        started.wait("the node takes jobs", lambda: started.jail("srun -n1 true", user=ALICE).returncode == 0, 60)
        yield started


def asked(cluster: SmallCluster, command: str) -> subprocess.CompletedProcess[str]:
    """A command of SlurmUser's in slurmctld's pod, as `kubectl exec` runs it."""
    become = "setpriv --reuid=64030 --regid=64030 --clear-groups"
    return cluster.pod(f"{become} /opt/slurm/bin/{command}", name=CONTROLLER)


def administer(cluster: SmallCluster, command: str) -> str:
    """Run a command as SlurmUser, and return its output."""
    done = asked(cluster, command)
    assert done.returncode == 0, done.stderr
    return done.stdout


def submit(cluster: SmallCluster, options: str, script: str = "sleep 300") -> str:
    """Return the number of a new job of alice's."""
    done = cluster.jail(f"sbatch --parsable {options} --wrap '{script}'", user=ALICE)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def shown(cluster: SmallCluster, job: str, form: str) -> str:
    return cluster.jail(f"squeue -h -j {job} -o '{form}'", user=ALICE).stdout.strip()


def test_a_reservation_keeps_its_nodes_for_an_account(cluster: SmallCluster) -> None:
    administer(cluster, "scontrol create reservation=class accounts=class nodes=ALL starttime=now duration=10")
    try:
        waiting = submit(cluster, "-n1 -t 1")
        ran = cluster.jail("srun -n1 -t1 -A class --reservation=class echo ran", user=ALICE)
        assert ran.stdout == "ran\n", ran.stderr
        assert shown(cluster, waiting, "%T") == "PENDING"
        cluster.jail(f"scancel {waiting}", user=ALICE)
    finally:
        administer(cluster, "scontrol delete reservation=class")


@pytest.mark.parametrize("user", ["alice", str(ALICE)])
def test_a_reservation_names_no_users(cluster: SmallCluster, user: str) -> None:
    """People are in the jail alone, and slurmctld of 26.05 looks a reservation's users up in its pod (limits.md)."""
    make = "scontrol create reservation=hers nodes=ALL starttime=now duration=10"
    assert asked(cluster, f"{make} users={user}").stderr == "Error creating the reservation: Unspecified error\n"
    assert f"Reservation request has invalid user {user}" in cluster.log(CONTROLLER)
    assert asked(cluster, f"{make} users=root").returncode == 0, "its own users it knows"
    administer(cluster, "scontrol delete reservation=hers")


def test_a_job_waits_for_a_licence_until_the_one_before_gives_it_back(cluster: SmallCluster) -> None:
    holds, waits = (submit(cluster, "-n1 --mem=50 -L compiler:1") for _ in range(2))
    try:
        cluster.wait("the first job", lambda: shown(cluster, holds, "%T") == "RUNNING", 60)
        cluster.wait("the second's reason", lambda: shown(cluster, waits, "%T %r") == "PENDING Licenses", 60)
        assert "Used=1" in administer(cluster, "scontrol show licenses compiler")
        cluster.jail(f"scancel {holds}", user=ALICE)
        cluster.wait("the second job", lambda: shown(cluster, waits, "%T") == "RUNNING", 60)
    finally:
        cluster.jail(f"scancel {holds} {waits}", user=ALICE)


def test_each_task_of_an_array_knows_its_number(cluster: SmallCluster) -> None:
    submit(cluster, "-n1 --mem=50 --array=3,5 -o array-%a", "echo $SLURM_ARRAY_TASK_ID")
    cluster.wait("both tasks", lambda: cluster.jail("cat array-*", user=ALICE).stdout == "3\n5\n", 60)


def test_sattach_shows_what_a_running_step_writes(cluster: SmallCluster) -> None:
    writes = 'sh -c "while :; do echo tick; sleep 0.2; done"'
    job = submit(cluster, "-n1 --mem=50 -o /dev/null", f"srun -n1 {writes}")
    try:
        attach = f"timeout 10 sattach {job}.0"
        cluster.wait("it shows", lambda: "tick\n" in cluster.jail(attach, user=ALICE).stdout, 60)
    finally:
        cluster.jail(f"scancel {job}", user=ALICE)


def test_x11_is_refused_in_words(cluster: SmallCluster) -> None:
    refused = cluster.jail("DISPLAY=localhost:10.0 srun -n1 --x11 true", user=ALICE)
    assert refused.returncode != 0
    assert "x11 forwarding" in refused.stderr.lower(), refused


def test_a_crontab_of_slurms_runs_in_the_jail(cluster: SmallCluster) -> None:
    inode = str(cluster.root.stat().st_ino)
    line = "* * * * * echo $(id -u) $(stat -c %i /) > cron-ran"
    taken = cluster.jail(f"echo '{line}' > crontab; scrontab crontab && scrontab -l", user=ALICE)
    assert line in taken.stdout, taken.stderr
    try:
        cluster.wait("its first minute", lambda: cluster.jail("cat cron-ran", user=ALICE).stdout, 150)
        assert cluster.jail("cat cron-ran", user=ALICE).stdout.split() == [str(ALICE), inode]
    finally:
        assert cluster.jail("scrontab -r", user=ALICE).returncode == 0


def test_triggers_are_slurms_own_users_alone(cluster: SmallCluster) -> None:
    """slurmctld runs a trigger's program in its own pod."""
    refused = cluster.jail("strigger --set --node --down --program=/bin/true", user=ALICE)
    assert refused.returncode != 0
    assert administer(cluster, "strigger --get --noheader") == ""
    administer(cluster, "strigger --set --node --down --program=/bin/true")
    assert "down" in administer(cluster, "strigger --get --noheader")
    administer(cluster, "strigger --clear --id=1")


def test_a_job_that_crashes_leaves_its_core_in_its_folder(cluster: SmallCluster) -> None:
    pattern = CORE_PATTERN.read_text().strip()
    if pattern.startswith(("|", "/")):
        pytest.skip(f"the kernel of this machine takes cores elsewhere: {pattern}")
    crash = "mkdir crashed; cd crashed; ulimit -c unlimited; sh -c 'kill -SEGV $$'; ls"
    assert cluster.batch(crash).splitlines()[-1].startswith("core")


def test_burst_buffers_are_off(cluster: SmallCluster) -> None:
    assert administer(cluster, "scontrol show burst") == ""
    assert "BurstBufferType" not in administer(cluster, "scontrol show config").replace(
        "BurstBufferType         = (null)", ""
    )
