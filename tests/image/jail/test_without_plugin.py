"""A configuration that would skip the plugin, or a node whose guard is missing: no job starts there.

Nodes that break in other ways: test_fail_closed.py.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.image.jail.breaks import ASK
from tests.image.pods import LOGIN, REVISION, WORKER
from tests.image.small_cluster import SmallCluster

RECONFIGURE = "/opt/slurm/bin/scontrol reconfigure"
OUTSIDE = "jobs would run outside the jail"


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
