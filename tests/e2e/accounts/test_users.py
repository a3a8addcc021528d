"""People: made in one place they are everywhere at once, and none of them takes a login node from the others."""

from __future__ import annotations

import contextlib
import subprocess
from collections.abc import Iterator

import pytest

from tests.e2e.people import person

HOG = 'python3 -c "x = bytearray(700 << 20); print(len(x))"'
BOMB = "for i in $(seq 3000); do sleep 100 & done"


@pytest.fixture(scope="module")
def alice(slurm) -> Iterator[str]:
    """A user whom a job on a worker makes, with the test run's SSH key, and her Slurm account."""
    with person(slurm, "alice", "--account team") as name:
        yield name


def test_a_user_made_in_a_job_is_everywhere_at_once(slurm, alice):
    # One look each, right after the command: nothing is waited for.
    assert slurm.sh("id -un; srun -N2 id -un", user=alice).ok().split() == [alice] * 3
    numbers = {slurm.on_pod(pod, f"id -u {alice}").ok() for pod in ("cpu-0", "cpu-1", "slurm-login-0")}
    assert numbers == {slurm.sh(f"id -u {alice}").ok()}
    job = slurm.sh("sbatch --wait --parsable -o /dev/null --wrap true", user=alice).ok()
    slurm.wait(
        "the job is recorded for her and her account",
        lambda: slurm.sh(f"sacct -nPX -j {job} -o user,account", user=alice).ok() == "alice|team",
        120,
    )
    held = slurm.sh("sbatch --hold --parsable -o /dev/null --wrap true", user=alice).ok()
    seen_by = {
        each: slurm.sh(f"squeue -h -j {held} -o %u", user=each).stdout.strip() for each in (alice, "dev", "admin")
    }
    assert seen_by == {alice: alice, "dev": "", "admin": alice}
    assert slurm.sh("sudo -n true", user=alice).status != 0


def test_groups_and_sudo_given_on_a_login_are_a_jobs_next(slurm, alice):
    slurm.sh(f"sudo groupadd --force lab && sudo slurm-user add {alice} --group lab --sudo").ok()
    for who in ("id -nG", "srun -n1 id -nG", "srun -n1 sudo -n id -un"):
        # A step's groups are what slurmctld knows, which looks every second (GroupUpdateTime).
        slurm.wait(who, lambda who=who: {"lab", "root"} & set(slurm.sh(who, user=alice).stdout.split()), 30)
    slurm.sh(f"sudo slurm-user add {alice} --no-sudo").ok()
    slurm.wait("no sudo", lambda: slurm.sh("srun -n1 sudo -n true", user=alice).status != 0, 30)


def test_a_second_key_and_the_removal_count_at_once(slurm):
    with person(slurm, "bob") as bob:
        slurm.sh("rm -f ~/second*; ssh-keygen -q -t ed25519 -N '' -f ~/second").ok()
        slurm.sh("sudo slurm-user add bob --key ~/second.pub").ok()
        inside = (
            "ssh -i ~/second -o IdentitiesOnly=yes -o StrictHostKeyChecking=no -o BatchMode=yes bob@localhost id -un"
        )
        assert slurm.sh(inside).ok().splitlines()[-1] == bob
    assert slurm.sh("true", user="bob").status != 0
    assert slurm.sh("rm ~/second*; test -e /home/bob").status != 0


def test_the_jail_cannot_name_a_user_of_the_pods_own(slurm):
    line = "evil:x:0:0::/root:/bin/sh"
    slurm.sh(f"echo {line} | sudo tee -a /etc/passwd").ok()
    try:
        assert slurm.sh("id -u evil").ok() == "0"
        for pod in ("cpu-0", "slurm-login-0"):
            assert slurm.on_pod(pod, "getent passwd evil").status == 2
        assert slurm.sh("true", user="evil").status != 0
    finally:
        slurm.sh("sudo sed -i /^evil:/d /etc/passwd").ok()


def test_a_memory_hog_on_a_login_node_ends_and_others_do_not_notice(slurm, alice):
    killed = slurm.sh(f"{HOG}; echo status $?", user=alice)
    assert killed.stdout == "status 137\n", killed.text
    assert slurm.sh("id -un; cat /sys/fs/cgroup/memory/users/$(id -u alice)/memory.limit_in_bytes").ok().split() == [
        "dev",
        str(512 << 20),
    ]


@contextlib.contextmanager
def fork_bomb(slurm, user: str) -> Iterator[None]:
    """A session of a user whose next process has been refused, and which still tries."""
    command = slurm.cluster.login.run_command([BOMB], user=user)
    pipes = {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL, "stderr": subprocess.PIPE}
    with subprocess.Popen(command, **pipes, text=True) as session:
        try:
            assert any("Resource temporarily unavailable" in line for line in session.stderr)
            yield
        finally:
            session.kill()


def test_a_fork_bomb_of_a_user_stops_at_the_limit_and_others_log_in(slurm, alice):
    with fork_bomb(slurm, alice):
        assert slurm.sh("id -un; srun -n1 id -un").ok().split() == ["dev", "dev"]
        # Whoever is at the limit gets no other session; someone with sudo helps.
        slurm.sh(f"sudo pkill -KILL -u {alice}; true").ok()
    slurm.wait("she is back", lambda: slurm.sh("id -un", user=alice).stdout.strip() == alice, 60)


def test_a_user_does_not_lift_a_limit(slurm, alice):
    slurm.sh(f"sudo slurm-user add {alice} --sudo").ok()
    group = f"/sys/fs/cgroup/pids/users/{slurm.sh(f'id -u {alice}').ok()}"
    for attempt in (f"echo max > {group}/pids.max", f"echo $$ > {group}/../../cgroup.procs"):
        refused = slurm.sh(f"sudo sh -c '{attempt}'", user=alice)
        assert refused.status != 0, attempt
        assert "Read-only" in refused.text or "Permission denied" in refused.text
