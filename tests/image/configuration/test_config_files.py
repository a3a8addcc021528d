"""Files of slurm.files in a running cluster: each is where Slurm reads it, and does what it says."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.image.configuration import slurm_files
from tests.image.pods import CONTROLLER, LOGIN, WORKER
from tests.image.small_cluster import NewCluster, SmallCluster

SUBMIT = slurm_files.job_submit(
    """\
  if job.name == "nameless" then
    slurm.log_user("a job needs a name of its own")
    return slurm.ERROR
  end
  job.admin_comment = "seen by job_submit.lua"
  -- What the jail cannot give a job: 1 << 41 is STEPMGR_ENABLED.
  if job.name == "stepmgr" then job.bitflags = 2199023255552 end
"""
)
CLI = slurm_files.cli_filter(
    """\
  if options["job-name"] == "unlucky" then
    slurm.log_error("cli_filter.lua takes no unlucky jobs")
    return slurm.ERROR
  end
"""
)
TREE = slurm_files.tree("cpu-0")


@pytest.fixture(scope="module")
def cluster(new_cluster: NewCluster) -> Iterator[SmallCluster]:
    with new_cluster(slurm={"files": {"job_submit.lua": SUBMIT, "cli_filter.lua": CLI, "topology.yaml": TREE}}) as one:
        one.start_login()
        yield one


def test_nodes_and_logins_get_what_they_read_and_no_more(cluster: SmallCluster) -> None:
    for pod in (WORKER, LOGIN):
        there = cluster.pod("ls /run/slurm/conf/", name=pod).stdout.split()
        assert {"slurm.conf", "cli_filter.lua", "topology.yaml"} <= set(there)
        assert "job_submit.lua" not in there


def test_job_submit_lua_refuses_a_job_in_its_words_and_changes_another(cluster: SmallCluster) -> None:
    refused = cluster.ssh("sbatch -J nameless --wrap true")
    assert refused.returncode != 0
    assert "a job needs a name of its own" in refused.stderr
    job = cluster.ssh("sbatch --parsable -o /dev/null -J named --wrap true").stdout.strip()
    shown = cluster.pod(f"scontrol show job {job}", name=CONTROLLER).stdout
    assert "seen by job_submit.lua" in shown, shown


def test_a_script_cannot_give_a_job_what_the_jail_refuses(cluster: SmallCluster) -> None:
    refused = cluster.ssh("sbatch -J stepmgr --wrap true")
    assert "--stepmgr is refused" in refused.stderr, refused


def test_cli_filter_lua_runs_with_the_users_command(cluster: SmallCluster) -> None:
    refused = cluster.ssh("srun -n1 -J unlucky true")
    assert refused.returncode != 0
    assert "takes no unlucky jobs" in refused.stderr
    assert cluster.ssh("srun -n1 -J lucky echo ran").stdout == "ran\n"


def test_the_topology_is_what_the_file_says(cluster: SmallCluster) -> None:
    shown = cluster.ssh("scontrol show topology").stdout
    assert "SwitchName=rack1" in shown
