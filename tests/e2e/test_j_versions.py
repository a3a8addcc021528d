"""A changed image of the jail: nodes move as they fall idle, people come along, running jobs notice nothing."""

from __future__ import annotations

import pytest

IMAGE = "pulumi-slurm:jail.image"
SECONDS = 240
AWAY = "chroot /run/jail sh -c 'userdel -r eve; userdel -r frank; rm -f /opt/of-eve'"


def up(slurm, image: str) -> str:
    """`pulumi up` with an image of the jail; returns the root's revision."""
    slurm.pulumi("config", "set", "--path", IMAGE, image).ok()
    slurm.pulumi("up", "--yes", "--skip-preview").ok()
    return image.rpartition(":")[2]


def updated(slurm) -> int:
    return int(slurm.get("nodeset", "cpu")["status"]["updated"])


def roots(slurm, node: str) -> str:
    """Which root a node's jobs see: the device's number is the same for all."""
    return slurm.sh(f"srun -w {node} stat -c %i /", seconds=120).ok()


@pytest.fixture
def image(slurm):
    """The image of the jail before, which is there again afterwards."""
    before = slurm.pulumi("config", "get", "--path", IMAGE).ok()
    yield before
    if slurm.pulumi("config", "get", "--path", IMAGE).ok() != before:
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
    slurm.sh(f"touch go-on; scancel {number}; rm -f version.out").ok()


def test_a_new_root_spares_the_running_job_and_the_old_one_is_back_in_seconds(slurm, image, job):
    other = slurm.pulumi("config", "get", "--path", "pulumi-slurm:images.operator").ok()
    slurm.on_pod("cpu-1", AWAY)  # What a first try left.
    slurm.on_pod("cpu-1", "chroot /run/jail useradd -m eve && echo x > /run/jail/opt/of-eve").ok()
    new = up(slurm, other)

    slurm.wait("the idle node moves", lambda: updated(slurm) == 1, SECONDS)
    slurm.wait("it takes jobs", lambda: slurm.nodes().get("cpu-0") == "idle", SECONDS)
    slurm.sh("srun -w cpu-0 sh -c 'id eve && ! command -v gcc'", seconds=120).ok()
    assert slurm.sh(f"squeue -h -j {job} -o %T").ok() == "RUNNING"
    message = slurm.get("nodeset", "cpu")["status"]["message"]
    assert "cpu-1 when its jobs have ended" in message, message

    # While both roots are in use, people are the same in both.
    slurm.on_pod("cpu-1", "chroot /run/jail useradd -m frank").ok()
    slurm.wait("frank is in the other root", lambda: slurm.on_pod("cpu-0", "chroot /run/jail id frank").status == 0)

    slurm.sh("touch go-on").ok()
    slurm.wait("the job ends by itself", lambda: slurm.sh(f"squeue -h -j {job}").stdout.strip() == "", 60)
    before, after = slurm.sh("cat version.out").ok().split()
    assert before == after, "a job keeps its root to the end"
    slurm.wait("the other node follows", lambda: updated(slurm) == 2 and slurm.all_idle(), SECONDS)
    assert roots(slurm, "cpu-1") == roots(slurm, "cpu-0") != before

    old = up(slurm, image)
    said = slurm.kubectl("logs", f"job/slurm-jail-{old}", "-c", "populate").ok()
    assert f"the root {old} is complete\n" in f"{said}\n", "nothing is copied"
    slurm.wait("both nodes are back", lambda: updated(slurm) == 2 and slurm.all_idle(), SECONDS)
    slurm.sh("srun -w cpu-0 sh -c 'id eve && id frank && command -v gcc'", seconds=120).ok()
    report = slurm.on_pod("slurm-login-0", f"python3 -m slurm_node report {old}").ok()
    assert "added /opt/of-eve" in report
    assert "eve" not in slurm.on_pod("slurm-login-0", f"python3 -m slurm_node report {new}").ok()
    slurm.on_pod("cpu-1", AWAY)
