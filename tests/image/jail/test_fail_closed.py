"""A node's jail, plugin or configuration breaks under a running job.

The job's next step says why, and nothing runs outside of the jail. The node is drained with the reason, and takes jobs
again by itself when the cause is gone.

Storage that hangs or goes stale: test_far_storage.py.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.image.jail.breaks import BREAKS, JAIL_SENTENCE, PLUGINS
from tests.image.pods import LOGIN, REVISION, WORKER
from tests.image.small_cluster import SmallCluster

RECONFIGURE = "/opt/slurm/bin/scontrol reconfigure"
ASK = "/opt/slurm/bin/sinfo -h -o '%T %E'"
OUTSIDE = "jobs would run outside the jail"
PLUGIN = f"{PLUGINS}/spank_jail.so"


@pytest.fixture
def home(cluster: SmallCluster) -> Path:
    """Alice's, looked at from outside: she may not be let in."""
    return cluster.root.parents[1] / "persistent/home/alice"


@pytest.fixture
def waiting_job(cluster: SmallCluster, home: Path) -> Iterator[None]:
    """A job that starts a step when it is told to; its node has to be repaired and idle afterwards."""
    script = "touch waits; until [ -e goes-on ]; do sleep 0.2; done; srun -n1 --overlap echo ran outside"
    for name in ("waits", "goes-on", "out", "err"):
        (home / name).unlink(missing_ok=True)
    cluster.ssh(f"sbatch --quiet --no-requeue -o out -e err --wrap '{script}'").check_returncode()
    cluster.wait("the job runs", (home / "waits").exists, 60)
    yield
    cluster.ssh("scancel --me")
    cluster.wait("the drain is lifted", lambda: cluster.pod(ASK).stdout.startswith("idle"), 90)
    assert cluster.ssh("srun -n1 echo works again").stdout == "works again\n"


@pytest.mark.usefixtures("waiting_job")
@pytest.mark.parametrize("name", BREAKS)
def test_a_broken_node_runs_nothing_says_why_and_recovers(cluster: SmallCluster, home: Path, name: str) -> None:
    broken = BREAKS[name]
    spoiled = cluster.pod(f"set -e; {broken.breaks}")
    assert spoiled.returncode == 0, spoiled.stderr
    try:
        cluster.wait("a drain", lambda: "pulumi-slurm:jail" in cluster.pod(ASK).stdout, 90)
        reason, state = cluster.pod(ASK).stdout, cluster.state()
        if broken.said:
            # Such a step ends before anybody could tell its user; the node does.
            cluster.wait("the job is told", lambda: broken.reason in (home / "err").read_text(), 60)
        (home / "goes-on").touch()
        cluster.wait("the job's end", lambda: not cluster.pod("/opt/slurm/bin/squeue -h").stdout.strip(), 60)
    finally:
        mended = cluster.pod(f"set -e; {broken.mends}")
        assert mended.returncode == 0, mended.stderr
    assert broken.reason in reason
    assert broken.reason in state
    assert (home / "out").read_text() == ""
    said = (home / "err").read_text()
    assert broken.said in said
    assert JAIL_SENTENCE in said
    assert broken.reason in said


def test_a_worker_whose_root_is_not_complete_starts_no_slurmd_and_says_so(cluster: SmallCluster) -> None:
    cluster.start_worker("cpu-1", "r9")
    try:
        said = "waiting for the jail's root r9"
        cluster.wait("the worker says what it waits for", lambda: said in cluster.log("cpu-1"), 60)
        assert cluster.pod("pidof slurmd", name="cpu-1").returncode != 0
        assert cluster.pod("test -e /run/jail/run/.jail-ready", name="cpu-1").returncode != 0
    finally:
        cluster.end("cpu-1")


@contextmanager
def without_the_plugin(cluster: SmallCluster) -> Iterator[None]:
    """A configuration that would skip the plugin; afterwards it is right, and slurmd runs."""
    conf = cluster.root.parents[2] / "config/plugstack.conf"
    right = conf.read_text()
    conf.write_text(right.replace("required", "optional"))
    try:
        assert cluster.pod(RECONFIGURE, name=LOGIN).returncode == 0
        yield
    finally:
        conf.write_text(right)
        assert cluster.pod(RECONFIGURE, name=LOGIN).returncode == 0
    cluster.wait("slurmd runs again", lambda: cluster.state() == "ready", 180)


@pytest.mark.usefixtures("waiting_job")
def test_a_configuration_that_would_skip_the_plugin_drains_the_node_before_its_slurmd_is_stopped(
    cluster: SmallCluster, home: Path
) -> None:
    ask = "/opt/slurm/bin/sinfo -h -o %E"
    with without_the_plugin(cluster):
        cluster.wait("a drain", lambda: "pulumi-slurm:jail" in cluster.pod(ask, name=LOGIN).stdout, 90)
        assert "has no line 'required" in cluster.pod(ask, name=LOGIN).stdout
        cluster.wait("the node's state", lambda: OUTSIDE in cluster.state(), 60)
        (home / "goes-on").touch()
    assert (home / "out").read_text() == ""


def test_a_new_worker_that_would_not_load_the_plugin_is_never_ready_and_runs_nothing(cluster: SmallCluster) -> None:
    with without_the_plugin(cluster):
        cluster.start_worker(WORKER, REVISION)
        ran = cluster.ssh(f"srun --immediate=10 -w {WORKER} -n1 ls /run/secrets; true")
        assert "slurm" not in ran.stdout.split()
        cluster.wait("it says why", lambda: OUTSIDE in cluster.log(WORKER), 60)
        assert cluster.state() not in ("", "ready"), "its readiness probe reads that"
    cluster.wait("its drain is lifted", lambda: cluster.pod(ASK).stdout.startswith("idle"), 90)
    assert cluster.ssh("srun -n1 echo works again").stdout == "works again\n"


def test_slurmstepd_does_not_start_without_its_guard(cluster: SmallCluster) -> None:
    guard = "/opt/slurm/lib/stepd_guard.so"
    began = cluster.pod(f"mount --bind /dev/null {guard}; slurmstepd </dev/null; ended=$?; umount {guard}; exit $ended")
    assert began.returncode == 127
    assert guard.rpartition("/")[2] in began.stderr
    assert cluster.ssh("srun -n1 echo works again").stdout == "works again\n"
