"""A node's jail or plugin breaks under a running job.

The job's next step says why, and nothing runs outside of the jail. The node is drained with the reason, and takes jobs
again by itself when the cause is gone.

Storage that hangs or goes stale: test_far_storage.py. A configuration without the plugin: test_without_plugin.py.
"""

from pathlib import Path

import pytest

from tests.image.jail.breaks import ASK, BREAKS, JAIL_SENTENCE
from tests.image.small_cluster import SmallCluster


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
