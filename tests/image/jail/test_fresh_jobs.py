"""Jobs that come to a node which is broken and not drained yet: who waits reads why, and nobody's job is lost or held.

Slurm by itself gives such a node one job after the other, and each fails at once.
"""

import re

import pytest

from tests.image.entries import at_rest
from tests.image.jail.breaks import ASK
from tests.image.pods import LOGIN, WORKER
from tests.image.small_cluster import SmallCluster

BREAK, MEND = (f"mount -o remount,bind,{how} /run/jail" for how in ("ro", "rw"))
REASON = "/run/jail is read-only"
BY_SLURM = ("batch job complete failure", "Prolog error")
"""Slurm's reasons: of a job that slurmstepd could not start, and of one whose prolog had already refused it."""
PROBES_SAY = f"printf '{REASON}: told by a probe' > /run/slurm-node/broken"
"""As the entry would write it in the moment before it drains (slurm_node/conditions/jail_watch.py)."""


def states(cluster: SmallCluster) -> list[str]:
    """State and reason of each job, as its user sees them."""
    return cluster.ssh("squeue -h -o '%T %r'").stdout.splitlines()


@pytest.mark.parametrize("told", ["", PROBES_SAY], ids=["nobody knows yet", "the probes know"])
def test_who_waits_reads_why_and_batch_jobs_are_requeued_not_held(cluster: SmallCluster, told: str) -> None:
    home = cluster.root.parents[1] / "persistent/home/alice"
    cluster.wait("the node is idle", lambda: cluster.pod(ASK).stdout.startswith("idle"), 90)
    try:
        with at_rest(cluster, WORKER):
            spoiled = cluster.pod(f"set -e; {BREAK}; {told}")
            assert spoiled.returncode == 0, spoiled.stderr
            waited = cluster.ssh("srun -n1 echo ran outside")
            submit = "for i in 1 2 3; do sbatch --parsable -o fresh-%j --wrap 'echo ran' || exit; done"
            jobs = cluster.ssh(submit).stdout.split()
            cluster.wait("Slurm itself drains the node", lambda: "drain" in cluster.pod(ASK).stdout, 60)
            cluster.wait(
                "all jobs wait",
                lambda: [each.split()[0] for each in states(cluster)] == ["PENDING"] * 3,
                60,
            )
            waiting = states(cluster)
        cluster.wait("the reason", lambda: "drained pulumi-slurm:jail" in cluster.pod(ASK).stdout, 60)
        reason = cluster.pod(ASK).stdout
    finally:
        mended = cluster.pod(MEND)
        assert mended.returncode == 0, mended.stderr
    assert (waited.stdout, waited.returncode in (0, 124)) == ("", False), waited
    assert "this node can't run your job" in waited.stderr
    assert REASON in waited.stderr
    assert len(jobs) == 3
    assert not re.search("held|hold", " ".join(waiting), re.IGNORECASE)
    assert REASON in reason
    cluster.wait("the drain is lifted", lambda: not cluster.pod(ASK).stdout.startswith("drain"), 90)
    # Slurm itself lets a requeued job wait for two minutes.
    for job in jobs:
        cluster.pod(f"/opt/slurm/bin/scontrol update jobid={job} starttime=now", name=LOGIN)
    cluster.wait("their end", lambda: not states(cluster), 120)
    assert [(home / f"fresh-{job}").read_text() for job in jobs] == ["ran\n"] * 3


def test_a_node_that_refused_a_job_takes_jobs_again_also_where_no_probe_ever_failed(cluster: SmallCluster) -> None:
    cluster.wait("the node is idle", lambda: cluster.pod(ASK).stdout.startswith("idle"), 90)
    with at_rest(cluster, WORKER):
        assert cluster.pod(BREAK).returncode == 0
        try:
            assert cluster.ssh("sbatch --wrap true").returncode == 0
            cluster.wait("Slurm drains", lambda: any(why in cluster.pod(ASK).stdout for why in BY_SLURM), 60)
        finally:
            assert cluster.pod(MEND).returncode == 0
    cluster.wait("the node is idle", lambda: cluster.pod(ASK).stdout.startswith("idle"), 90)
    cluster.ssh("scancel --me")
