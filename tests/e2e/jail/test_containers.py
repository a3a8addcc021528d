"""Jobs in containers: an image that nobody installed runs as a step, with the job's limits, folders and words."""

from __future__ import annotations

from pathlib import Path

import pytest

MAKER = Path(__file__).with_name("tiny_image.py").read_text()


@pytest.fixture(scope="module")
def bundle(slurm) -> str:
    """A bundle in the cache of the ordinary user, from an archive."""
    slurm.sh(f"cat > ~/tiny_image.py <<'PYTHON'\n{MAKER}\nPYTHON\npython3 ~/tiny_image.py ~/tiny.tar").ok()
    return slurm.sh("slurm-image pull --replace docker-archive:tiny.tar").ok()


def test_the_helper_prints_the_path_and_does_nothing_the_second_time(slurm, bundle):
    assert bundle == "/home/dev/.local/share/slurm-images/tiny"
    again = slurm.sh("slurm-image pull docker-archive:tiny.tar")
    assert (again.ok(), again.stderr) == (bundle, "")
    assert bundle in slurm.sh("slurm-image list").ok().split()


def test_a_step_sees_the_image_and_the_jobs_folders(slurm, bundle):
    assert slurm.sh(f"srun -n1 --container={bundle} cat /etc/greeting").ok() == "hello from an image"
    assert slurm.sh(f"mkdir -p work && cd work && srun -n1 --container={bundle} pwd").ok() == "/home/dev/work"
    # Files are the user's, though the image's user is root.
    slurm.sh(f"srun -n1 --container={bundle} touch made-inside").ok()
    assert slurm.sh("stat -c %U made-inside; rm made-inside").ok() == "dev"
    assert slurm.sh(f"srun -n1 --container={bundle} ls /").ok().split().count("opt") == 0


def test_rootless_crun_runs_over_ssh_on_a_login_node(slurm, bundle):
    by_hand = f"env -0 > vars && /opt/slurm/libexec/container_step {bundle} ~/vars ~ over-ssh cat /etc/greeting"
    assert slurm.sh(f"{by_hand}; rm vars").ok() == "hello from an image"


def test_variables_are_the_jobs_but_for_the_images_own_places(slurm, bundle):
    shown = slurm.sh(f"COLOUR=green MINE=1 srun -n1 --container={bundle} env").ok().splitlines()
    assert {"PATH=/image/bin", "COLOUR=green", "MINE=1", "FROM_IMAGE=yes"} <= set(shown)
    assert any(line.startswith("SLURM_JOB_ID=") for line in shown)


def test_exit_statuses_output_and_words_come_through(slurm, bundle):
    done = slurm.sh(f"srun -n1 --container={bundle} sh -c 'echo out; echo err >&2; exit 7'")
    assert (done.status, done.stdout) == (7, "out\n")
    assert "err" in done.stderr
    assert slurm.sh(f"echo typed | srun -n1 --container={bundle} cat").ok() == "typed"
    assert "/dev/pts/" in slurm.sh(f'script -qec "srun --pty --container={bundle} tty" /dev/null').text


def test_a_batch_script_and_its_steps_run_in_containers(slurm, bundle):
    script = "#!/bin/sh\ncat /etc/greeting; echo $SLURM_JOB_ID $1; exit 3\n"
    slurm.sh(f"printf %s {script!r} > batch.sh; sed -i 's/\\\\n/\\n/g' batch.sh; rm -f c.out").ok()
    done = slurm.sh(f"sbatch --wait --parsable -o c.out --container={bundle} batch.sh word")
    job = done.stdout.strip()
    assert done.status == 3, done.text + slurm.sh("cat c.out").text
    assert slurm.sh("cat c.out").ok() == f"hello from an image\n{job} word"
    hosts = f"sbatch --wait -Q -N2 -o s.out --wrap 'srun --container={bundle} cat /etc/greeting'; cat s.out"
    assert slurm.sh(hosts).ok().splitlines() == ["hello from an image"] * 2


@pytest.mark.parametrize(
    ("what", "words"),
    [
        ("--container=$HOME/nothing true", "/home/dev/nothing is no bundle: slurm-image pull makes one"),
        ("--container={bundle} no-such-program", "no-such-program"),
        ("--container=/root true", "/root/config.json is not yours to read"),
    ],
    ids=["no bundle", "no program", "another's"],
)
def test_what_cannot_run_is_refused_in_words(slurm, bundle, what, words):
    refused = slurm.sh(f"srun -n1 {what.format(bundle=bundle)}")
    assert refused.status != 0
    assert words in refused.text


def test_a_container_ends_with_its_job_and_leaves_nothing(slurm, bundle):
    job = slurm.sh(f"sbatch --parsable -o /dev/null -w cpu-0 --container={bundle} --wrap 'sleep 4711'").ok()
    running = "cat /proc/[0-9]*/cmdline 2>/dev/null | tr '\\0' ' '"
    slurm.wait("it runs", lambda: "sleep 4711" in slurm.on_pod("cpu-0", running).stdout, 60)
    slurm.sh(f"scancel {job}").ok()
    slurm.wait("it is gone", lambda: "sleep 4711" not in slurm.on_pod("cpu-0", running).stdout, 60)


def test_an_image_that_an_administrator_shares_is_everybodys(slurm, bundle):
    shared = slurm.sh("sudo slurm-image pull --shared --name for-all docker-archive:/home/dev/tiny.tar").ok()
    slurm.sh("sudo slurm-user add carla --key ~/.ssh/authorized_keys").ok()
    try:
        assert slurm.sh(f"srun -n1 --container={shared} cat /etc/greeting", user="carla").ok() == "hello from an image"
        assert "is root's" in slurm.sh("slurm-image remove --shared for-all", user="carla").text
    finally:
        slurm.sh("sudo slurm-user remove --delete-home carla; sudo slurm-image remove --shared for-all").ok()
