"""A changed image of the jail: nodes move as they fall idle, people come along, running jobs notice nothing."""

from __future__ import annotations

import contextlib
import json
import shlex
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

IMAGE = "pulumi-slurm:jail.image"
CANARY = "pulumi-slurm:nodeSets[0].jailImage"
MEMORY = "pulumi-slurm:nodeSets[0].resources.memory"
UPDATE = "pulumi-slurm:nodeSets[0].update"
SMALLER, MEBIBYTES_LESS = "1264Mi", 16
WAITS = "cpu-1 when its jobs have ended"
SECONDS = 240
EVE = """
    useradd -m -s /bin/bash eve && echo 'eve:a password of hers' | chpasswd
    install -d -o eve -g eve -m 700 /home/eve/.ssh
    install -o eve -g eve -m 600 /home/dev/.ssh/authorized_keys /home/eve/.ssh/authorized_keys
    echo x > /opt/of-eve
"""
AWAY = "chroot /run/jail sh -c 'userdel -r eve; userdel -r frank; rm -f /opt/of-eve'"
SHADOW = "chroot /run/jail grep ^eve: /etc/shadow"


def up(slurm, image: str) -> str:
    """`pulumi up` with an image of the jail; returns the root's revision."""
    slurm.pulumi("config", "set", "--path", IMAGE, image).ok()
    slurm.pulumi("up", "--yes", "--skip-preview").ok()
    return image.rpartition(":")[2]


def updated(slurm) -> int:
    return int(slurm.get("nodeset", "cpu")["status"]["updated"])


def memory(slurm) -> dict[str, int]:
    """MiB that Slurm gives to jobs, by node."""
    return {node: int(size) for node, size in map(str.split, slurm.sh("sinfo -h -N -o '%N %m'").ok().splitlines())}


def message(slurm) -> str:
    """The node set's most important sentence."""
    return str(slurm.get("nodeset", "cpu")["status"]["message"])


def set_policy(slurm, **policy: object) -> None:
    """Changes the node set's policy of updates as an administrator may by hand; None takes a field away."""
    slurm.kubectl("patch", "nodeset", "cpu", "--type=merge", "-p", json.dumps({"spec": {"update": policy}})).ok()


def roots(slurm, node: str) -> str:
    """Return which root a node's jobs see: the device's number is the same for all."""
    return slurm.sh(f"srun -w {node} stat -c %i /", seconds=120).ok()


def login_of_eve(slurm) -> tuple[str, list[str]]:
    """Return which root eve finds when she logs in, and who she and her files are."""
    root, *facts = slurm.sh("stat -c %i /; id; stat -c '%U %G %a' . .ssh/authorized_keys", user="eve").ok().splitlines()
    return root, facts


@contextlib.contextmanager
def terminal(slurm, file: Path) -> Iterator[None]:
    """Somebody who is logged in on a terminal, whose text is written to a file."""
    with file.open("wb") as seen:
        command = [*slurm.cluster.login.ssh_command(), "-tt", "-o", "BatchMode=yes"]
        session = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=seen, stderr=seen)
        try:
            assert session.stdin is not None
            session.stdin.write(b"echo is in: $((40 + 2))\n")
            session.stdin.flush()
            slurm.wait("the session", lambda: b"is in: 42" in file.read_bytes(), 60)
            yield
        finally:
            session.kill()
            session.wait()


@pytest.fixture
def image(slurm):
    """The image of the jail before, which is there again afterwards, as are the nodes' size and policy."""
    before, size = (slurm.pulumi("config", "get", "--path", key).ok() for key in (IMAGE, MEMORY))
    yield before
    slurm.pulumi("config", "set", "--path", MEMORY, size).ok()
    slurm.pulumi("config", "rm", "--path", UPDATE)
    set_policy(slurm, paused=False, deadlineSeconds=None)
    canary = slurm.pulumi("config", "rm", "--path", CANARY)
    if canary.status == 0 or slurm.pulumi("config", "get", "--path", IMAGE).ok() != before:
        up(slurm, before)
    slurm.wait("both nodes are back", lambda: updated(slurm) == 2 and slurm.all_idle(), SECONDS)


@pytest.fixture
def job(slurm):
    """A job on cpu-1 that says which root it sees, before and after somebody lets it go on."""
    slurm.sh("rm -f go-on version.out").ok()
    script = "stat -c %i / && until test -e go-on; do sleep 0.5; done && stat -c %i /"
    number = slurm.sh(f"sbatch --parsable -w cpu-1 -o version.out --wrap {script!r}").ok()
    slurm.wait("the job runs", lambda: slurm.sh("cat version.out").stdout.strip(), 60)
    yield number
    slurm.sh("touch go-on; scancel --me; rm -f version.out").ok()


@pytest.mark.timeout(900)
def test_a_new_root_spares_the_running_job_and_the_old_one_is_back_in_seconds(slurm, image, job, tmp_path):
    other = slurm.pulumi("config", "get", "--path", "pulumi-slurm:images.operator").ok()
    new = other.rpartition(":")[2]
    slurm.on_pod("cpu-1", AWAY)  # What a first try left.
    slurm.on_pod("cpu-1", f"chroot /run/jail sh -ec {shlex.quote(EVE)}").ok()
    own_root, eve = login_of_eve(slurm)
    shadow = slurm.on_pod("cpu-1", SHADOW).ok()

    # One node set first: the login nodes stay. Its nodes get another size on the way.
    size, before = slurm.pulumi("config", "get", "--path", MEMORY).ok(), memory(slurm)
    slurm.pulumi("config", "set", "--path", MEMORY, SMALLER).ok()
    slurm.pulumi("config", "set", "--path", CANARY, other).ok()
    slurm.pulumi("config", "set", "--path", f"{UPDATE}.paused", "true").ok()
    slurm.pulumi("up", "--yes", "--skip-preview").ok()
    kept = "0 of 2 nodes have the current template; update.paused keeps cpu-1, cpu-0 as they are"
    slurm.wait("the update is paused", lambda: kept in message(slurm), SECONDS)
    slurm.wait("no node is drained", lambda: slurm.nodes() == {"cpu-0": "idle", "cpu-1": "allocated"}, 60)
    set_policy(slurm, paused=False)
    slurm.wait("the idle node moves", lambda: updated(slurm) == 1, SECONDS)
    slurm.wait("it takes jobs", lambda: slurm.nodes().get("cpu-0") == "idle", SECONDS)
    smaller = {name: mebibytes - MEBIBYTES_LESS for name, mebibytes in before.items()}
    slurm.wait("the moved one is smaller", lambda: memory(slurm) == {**before, "cpu-0": smaller["cpu-0"]}, 60)
    less = f"DefMemPerCPU={smaller['cpu-0']}"
    slurm.wait("a job asks for no more", lambda: less in slurm.sh("scontrol show partition main").stdout, 60)
    slurm.sh("srun -w cpu-0 sh -c 'id eve && ! command -v gcc'", seconds=120).ok()
    assert slurm.sh(f"squeue -h -j {job} -o %T").ok() == "RUNNING"
    slurm.wait(WAITS, lambda: WAITS in message(slurm), SECONDS)

    # While both roots are in use, people are the same in both.
    slurm.on_pod("cpu-1", "chroot /run/jail useradd -m frank").ok()
    slurm.wait("frank is in the other root", lambda: slurm.on_pod("cpu-0", "chroot /run/jail id frank").status == 0)

    slurm.sh("touch go-on").ok()
    slurm.wait("the job ends by itself", lambda: slurm.sh(f"squeue -h -j {job}").stdout.strip() == "", 60)
    seen, after = slurm.sh("cat version.out").ok().split()
    assert seen == after == own_root, "a job keeps its root to the end"
    slurm.wait("the other node follows", lambda: updated(slurm) == 2 and slurm.all_idle(), SECONDS)
    slurm.wait("it is smaller, too", lambda: memory(slurm) == smaller, 60)
    new_root = roots(slurm, "cpu-1")
    assert roots(slurm, "cpu-0") == new_root != own_root
    assert login_of_eve(slurm) == (own_root, eve)

    # Then all: who is logged in is told, and the nodes that are there already stay.
    workers = {name: slurm.get("pod", name)["metadata"]["uid"] for name in ("cpu-0", "cpu-1")}
    slurm.pulumi("config", "rm", "--path", CANARY).ok()
    slurm.pulumi("config", "rm", "--path", UPDATE).ok()
    with terminal(slurm, tmp_path / "terminal"):
        up(slurm, other)
        told = "slurm-login-0 is being replaced: your session here ends in"
        slurm.wait("the session is told", lambda: told.encode() in (tmp_path / "terminal").read_bytes(), 60)
    assert login_of_eve(slurm) == (new_root, eve)
    assert slurm.on_pod("slurm-login-0", SHADOW).ok() == shadow
    assert {name: slurm.get("pod", name)["metadata"]["uid"] for name in workers} == workers

    # Back again, under a job that is requeued when the deadline has passed, not before.
    slurm.pulumi("config", "set", "--path", MEMORY, size).ok()
    set_policy(slurm, deadlineSeconds=3600)
    taken = slurm.sh("sbatch --parsable --requeue -w cpu-1 -o /dev/null --wrap 'sleep 3600'").ok()
    slurm.wait("a job runs", lambda: slurm.sh(f"squeue -h -j {taken} -o %T").ok() == "RUNNING", 60)
    began = time.monotonic()
    old = up(slurm, image)
    said = slurm.kubectl("logs", f"job/slurm-jail-{old}", "-c", "populate").ok()
    assert f"the root {old} is complete\n" in f"{said}\n", "nothing is copied"
    print(f"seconds that `pulumi up` takes to go back: {time.monotonic() - began:.0f}")
    slurm.wait(WAITS, lambda: WAITS in message(slurm) and updated(slurm) == 1, SECONDS)
    assert slurm.sh(f"squeue -h -j {taken} -o %T").ok() == "RUNNING"
    set_policy(slurm, deadlineSeconds=1)
    told = f"took the jobs of cpu-1, its deadline has passed: requeued {taken}"
    times = f"squeue -h -j {taken} -O RestartCnt"
    slurm.wait("the job is taken from the node", lambda: any(told in note for note in slurm.told()), 60)
    slurm.wait("it is requeued", lambda: slurm.sh(times).ok() == "1", 60)
    set_policy(slurm, deadlineSeconds=None)
    slurm.sh(f"scancel {taken}").ok()
    slurm.wait("both nodes are back", lambda: updated(slurm) == 2 and slurm.all_idle(), SECONDS)
    slurm.wait("both have their size again", lambda: memory(slurm) == before, 60)
    slurm.sh("srun -w cpu-0 sh -c 'id eve && id frank && command -v gcc'", seconds=120).ok()
    assert login_of_eve(slurm) == (own_root, eve)
    assert slurm.on_pod("slurm-login-0", SHADOW).ok() == shadow
    report = slurm.on_pod("slurm-login-0", f"python3 -m slurm_node report {old}").ok()
    assert "added /opt/of-eve" in report
    assert "eve" not in slurm.on_pod("slurm-login-0", f"python3 -m slurm_node report {new}").ok()
    slurm.on_pod("cpu-1", AWAY)
