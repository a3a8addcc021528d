"""The jail may be another distribution: Debian with an older glibc, and a root with busybox and no glibc at all."""

from collections.abc import Iterator

import pytest

from tests.image.small_cluster import ALICE, NewCluster, SmallCluster


@pytest.fixture(scope="module", params=["bookworm", "busybox"])
def cluster(request: pytest.FixtureRequest, new_cluster: NewCluster) -> Iterator[SmallCluster]:
    with new_cluster(request.param) as started:
        started.let_root_submit()
        yield started


def test_every_program_of_slurm_runs_in_it(cluster: SmallCluster) -> None:
    each = (
        'for program in /opt/slurm/bin/*; do echo "$(basename $program) $($program --version 2>&1 | head -n 1)"; done'
    )
    said = dict(line.split(" ", 1) for line in cluster.jail(each).stdout.splitlines())
    with_versions = {"sacct", "salloc", "sattach", "sbatch", "scancel", "scontrol", "sinfo", "squeue", "srun", "sstat"}
    assert {said[name] for name in with_versions} == {said["srun"]}
    assert said["srun"].startswith("slurm")
    for name in ("slurm-user", "slurm-image"):
        assert said.pop(name) == f"{name}: needs python3 in the jail: install it there"
    assert said["slurm-check-report"].startswith("slurm-check-report: usage: ")
    broken = {name: first for name, first in said.items() if "not found" in first or "loading shared" in first}
    assert not broken


@pytest.mark.parametrize("user", [0, ALICE])
def test_users_find_the_cluster_on_their_path(cluster: SmallCluster, user: int) -> None:
    asked = cluster.jail("sinfo -h -o %N; squeue -h; scontrol show node cpu-0 | head -n 1", user=user)
    assert asked.stdout.split()[:2] == ["cpu-0", "NodeName=cpu-0"], asked.stderr
    assert "accounting storage is disabled" in cluster.jail("sacct", user=user).stderr


@pytest.mark.parametrize("user", [0, ALICE])
def test_every_kind_of_step_has_it_as_its_root(cluster: SmallCluster, user: int) -> None:
    inode, who = str(cluster.root.stat().st_ino), str(user)
    look = "stat -c %i / && id -u"
    assert cluster.jail(f"srun -n1 sh -c '{look}'", user=user).stdout.split() == [inode, who]
    assert cluster.jail(f"salloc -Q -n1 srun sh -c '{look}'", user=user).stdout.split() == [inode, who]
    told = cluster.batch(f"{look}; srun -n1 sh -c '{look}' 2>&1", user=user)
    if user:
        assert told.split() == [inode, who] * 2
    else:  # Of root in a job, Slurm takes nothing.
        assert told.split()[:2] == [inode, who]
        assert "srun: root of the jail is nobody to Slurm" in told


@pytest.mark.parametrize("user", [0, ALICE])
@pytest.mark.parametrize("option", ["--export=NONE", "--export=A=1", "--get-user-env"])
def test_a_job_with_the_users_own_environment_finds_slurm(cluster: SmallCluster, option: str, user: int) -> None:
    said = cluster.batch("id -u; echo $HOME; command -v srun; echo $A", option, user=user).splitlines()
    assert said[:2] == [str(user), "/home/alice" if user else "/root"]
    assert said[2].endswith("/bin/srun")
    assert said[3] == ("1" if option == "--export=A=1" else "")


def test_sbcast_brings_a_file_to_the_jobs_own_temporary_folder(cluster: SmallCluster) -> None:
    script = "echo sent > ~/sent; sbcast ~/sent /tmp/received && srun -n1 --overlap cat /tmp/received"
    assert cluster.batch(script) == "sent\n"
    assert not (cluster.root / "tmp/received").exists()
    assert cluster.pod("ls /tmp").stdout == ""


def test_srun_refuses_to_send_its_program_outside_of_the_jail(cluster: SmallCluster) -> None:
    for asks in ("srun --bcast=/tmp/x -n1 true", "srun -n 1 --bcast true", "SLURM_BCAST=/tmp/x srun -n1 true"):
        asked = cluster.jail(asks, user=ALICE)
        assert asked.returncode != 0
        assert "--bcast does not reach the jail: send the program first, with sbcast" in asked.stderr
    assert cluster.jail("srun -n1 echo --bcast", user=ALICE).stdout == "--bcast\n"
    assert cluster.pod("ls /tmp").stdout == ""


@pytest.mark.parametrize(
    "asks",
    [
        "srun --stepmgr -n1 true",
        "salloc --stepmgr -n1 true",
        "sbatch --stepmgr --wrap true",
        "printf '#!/bin/sh\\n#SBATCH --stepmgr\\n' | sbatch",
        # Of the user's own: slurmctld decides, whatever the client has loaded.
        "cp /run/slurm/conf/slurm.conf ~/; SLURM_CONF=$HOME/slurm.conf sbatch --stepmgr --wrap true",
    ],
)
def test_no_slurmstepd_becomes_a_jobs_step_manager(cluster: SmallCluster, asks: str) -> None:
    """It would hold slurm.key on the job's node, and answer users."""
    asked = cluster.jail(asks, user=ALICE)
    assert asked.returncode != 0
    assert "--stepmgr is refused: it would bring the cluster's key to the job's node; leave it out" in asked.stderr
