"""The jail on storage that is far away: each node's mount caches by itself, answers late, goes stale, hangs, recovers.

The file server is a fake of this folder (file_server.py), since one machine's disk shows none of this.
"""

import re
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.image import roots
from tests.image.jail.breaks import ASK, JAIL_SENTENCE
from tests.image.jail.far_mount import CACHE_SECONDS, Mount
from tests.image.pods import LOGIN, REVISION, WORKER
from tests.image.small_cluster import ALICE, SmallCluster


@pytest.fixture(scope="module")
def mounts() -> dict[str, Mount]:
    return {}


@pytest.fixture(scope="module")
def cluster(image: Path, tmp_path_factory: pytest.TempPathFactory, mounts: dict[str, Mount]) -> Iterator[SmallCluster]:
    folder = tmp_path_factory.mktemp("far")
    points = {name: folder / f"far-{name}" for name in (WORKER, LOGIN)}
    try:
        with SmallCluster(image, roots.make("bookworm", folder / "root"), folder, points) as started:
            for name, point in points.items():
                mounts[name] = Mount(folder / "volume", point)
            started.start()
            started.start_login()
            yield started
    finally:
        for mount in mounts.values():
            mount.end()


def test_what_one_node_writes_another_reads(cluster: SmallCluster) -> None:
    assert (
        cluster.jail("srun -n1 sh -c 'echo from a job > note; mkdir -p d/e; mv note d/e/note'", user=ALICE).returncode
        == 0
    )
    cluster.wait("the login sees it", lambda: cluster.ssh("cat d/e/note").stdout == "from a job\n", 30)
    assert cluster.ssh("echo from a login >> d/e/note").returncode == 0
    cluster.wait(
        "a job sees that", lambda: cluster.jail("srun -n1 cat d/e/note", user=ALICE).stdout.endswith("login\n"), 30
    )
    assert cluster.batch("cat d/e/note; srun -n1 cat d/e/note") == "from a job\nfrom a login\n" * 2


def test_a_user_added_on_one_node_works_on_another(cluster: SmallCluster) -> None:
    assert cluster.jail("useradd -m -u 2001 carol").returncode == 0
    cluster.wait("the login knows carol", lambda: cluster.ssh("id -u carol").stdout == "2001\n", 30)
    assert cluster.jail("srun -n1 id -un", user=2001).stdout == "carol\n"


def lose_mounts(cluster: SmallCluster) -> None:
    """Has the kernel look for a mount point that is stale: it takes all mounts there and below off."""
    time.sleep(CACHE_SECONDS)  # So long the kernel asks nobody about a name, and tells nobody when it will.
    assert "Stale file handle" in cluster.pod(f"ls /mnt/jail/roots/{REVISION}/etc").stderr
    mounted = cluster.pod("cat /proc/self/mountinfo").stdout
    assert " /run/jail " in mounted
    assert " /run/jail/" not in mounted


MOODS = [
    # Storage that is stale refuses a call, or ends a program that runs: which comes first depends on what is in memory.
    ("stale", "Stale file handle|SIGBUS"),
    ("nameless", "Stale file handle|is not a mount|is gone|is missing"),
    ("mute", "hangs"),
]


@pytest.mark.parametrize(("mood", "sentence"), MOODS)
def test_a_node_whose_storage_fails_refuses_steps_and_logins_in_words_and_recovers(
    cluster: SmallCluster, mounts: dict[str, Mount], mood: str, sentence: str
) -> None:
    probe = "/usr/libexec/slurm-node/ready login"

    def says(done: subprocess.CompletedProcess[str]) -> bool:
        return re.search(sentence, done.stderr) is not None

    started = f"started-{mood}"
    job = cluster.ssh(f"sbatch --parsable -o /dev/null --wrap 'touch {started}; exec sleep 1000'").stdout.strip()
    cluster.wait("the job's script runs", lambda: cluster.ssh(f"ls {started}").returncode == 0, 60)
    # A program that is still being read from the storage would end with it, and the job with the program.
    asleep = "cat /proc/$(pidof -s sleep)/wchan"
    cluster.wait("the job's program sleeps", lambda: "nanosleep" in cluster.pod(asleep).stdout, 60)
    mounts[WORKER].become(mood)
    try:
        cluster.wait("a drain", lambda: "draining pulumi-slurm:jail" in cluster.pod(ASK).stdout, 90)
        assert re.search(sentence, cluster.pod(ASK).stdout)
        assert re.search(sentence, cluster.state())
        if mood == "nameless":
            lose_mounts(cluster)
        # The login node's own storage is well.
        step = cluster.ssh(f"srun --jobid={job} --overlap -n1 echo ran outside")
        mounts[LOGIN].become(mood)
        cluster.wait("the login node is not ready", lambda: says(cluster.pod(probe, name=LOGIN)), 90)
        refused = cluster.ssh("echo inside", seconds=15)
    finally:
        for mount in mounts.values():
            mount.become("well")
        # However this ends: the next one needs the node.
        cluster.pod(f"/opt/slurm/bin/scancel {job}")
    assert step.stdout == ""
    assert step.returncode not in (0, 124)
    assert JAIL_SENTENCE in step.stderr
    assert re.search(sentence, step.stderr)
    assert "inside" not in refused.stdout
    # sshd itself waits for a silent storage: the user's key lies there. With a stale one nobody is known.
    assert refused.returncode == (124 if mood == "mute" else 255), refused
    cluster.wait("the login node is ready", lambda: cluster.pod(probe, name=LOGIN).returncode == 0, 90)
    cluster.wait("the drain is lifted", lambda: cluster.pod(ASK).stdout.startswith("idle"), 90)

    def works(done: subprocess.CompletedProcess[str]) -> bool:
        print(done)  # What the last one said is in the report of a failure.
        return done.stdout == "works again\n"

    said = "echo works again"
    # slurmctld may want a second to reach the node again.
    cluster.wait("a step", lambda: works(cluster.jail(f"srun -n1 {said}", user=ALICE)), 90)
    cluster.wait("a login", lambda: works(cluster.ssh(said)), 90)
