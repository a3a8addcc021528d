"""All options and commands of the installed Slurm are classified, and none speaks to PMI-2 unasked.

The witness walks on the dev cluster (tests/e2e/jail/test_witness.py) and on cgroup v2 (tests/vm/test_witness_v2.py);
test_rpcs.py has the messages of Slurm's daemons.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.image import roots
from tests.image.pods import WORKER
from tests.image.small_cluster import ALICE, SmallCluster
from tests.witness import judge
from tests.witness.installed import Installed
from tests.witness.planting import START_UP
from tests.witness.small import OnSmallCluster
from tests.witness.values import PREFIX, PROGRAM
from tests.witness.walk import SEED, Walk


@pytest.fixture(scope="module")
def cluster(image: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SmallCluster]:
    folder = tmp_path_factory.mktemp("witness")
    root = roots.make("mpich", folder / "root")
    with SmallCluster(image, root, folder, as_in_kubernetes=True) as started:
        started.start()
        started.start_login()
        yield started


@pytest.fixture(scope="module")
def walk(cluster: SmallCluster) -> Walk:
    there = OnSmallCluster(cluster)
    there.add_people()
    walk = Walk(there, SEED)
    walk.set_up()
    return walk


def test_everything_that_the_installed_slurm_has_is_classified(walk: Walk) -> None:
    assert not Installed(walk.cluster).unclassified()


@pytest.mark.parametrize("option", ["--get-user-env", "--export=NONE"])
def test_start_up_files_have_no_more_rights_than_a_job(cluster: SmallCluster, walk: Walk, option: str) -> None:
    """slurmd has them read before the job exists."""
    before = len(walk.lines())
    assert cluster.batch("echo ran", option) == "ran\n"
    told = [line for line in walk.lines()[before:] if line.one("label") == f"{SEED}-{START_UP}"]
    assert [line.one("uid") for line in told] == [f"{ALICE}:{ALICE}"]
    assert not judge.verdict(told, walk.nodes(), walk.roots())


def test_a_task_has_no_more_rights_than_a_job(cluster: SmallCluster, walk: Walk) -> None:
    before = len(walk.lines())
    assert cluster.jail(f"srun -Q -n1 {PROGRAM} label={SEED}-task", user=ALICE).returncode == 0
    told = walk.lines()[before:]
    assert [line.one("as") for line in told] == ["program"]
    assert not judge.verdict(told, walk.nodes(), walk.roots())


FULL = f"""
import os
for _ in range(2000):
    os.set_inheritable(os.open("/etc/passwd", os.O_RDONLY), True)
os.execv("{PROGRAM}", ["{PROGRAM}"])
"""
"""Python that becomes a witness with more descriptors than its line holds."""


def test_a_witness_that_could_not_tell_all_is_a_fault(cluster: SmallCluster, walk: Walk) -> None:
    before = len(walk.lines())
    told = cluster.jail(f"ulimit -n 2048; srun -Q -n1 python3 -c {shlex.quote(FULL)}", user=ALICE)
    assert told.returncode == 0, told
    found = judge.verdict(walk.lines()[before:], walk.nodes(), walk.roots())
    assert [fault for fault in found if fault.endswith("had more to tell than its line holds")], found


def test_the_judge_knows_a_process_of_the_pods_own_by_its_files_its_mounts_and_its_filters(
    cluster: SmallCluster, walk: Walk
) -> None:
    before = len(walk.lines())
    run = f"exec 8< /proc/self 9< /run/slurm-node/slurm.key; WITNESS={SEED}-pod exec /run/jail{PROGRAM}"
    assert cluster.pod(run).returncode == 0
    found = " ".join(judge.verdict(walk.lines()[before:], walk.nodes(), walk.roots()))
    for fault in (
        "a descriptor of it is on the file system of the pod's /run",
        "a descriptor of it is on the file system of the pod's /proc",
        "sees / of the pod's /run at /run",
        "has no filter of system calls",
        "is among the processes of the worker pod",
    ):
        assert fault in found


def test_a_file_of_a_walk_in_the_memory_of_a_pod_is_told(cluster: SmallCluster, walk: Walk) -> None:
    files = [f"{folder}/{PREFIX}there" for folder in ("/dev/shm", "/run", "/tmp")]
    cluster.pod(f"touch {' '.join(files)}").check_returncode()
    assert walk.written() == [f"{WORKER} has {file}" for file in files]
    cluster.pod(f"rm {' '.join(files)}").check_returncode()
    assert not walk.written()


OWN_CONFIGURATION = """
conf=/run/slurm/conf/slurm.conf
sed 's#^PluginDir=.*#&:/opt/slurm/lib/slurm-pmi2#' "$conf" > ~/own.conf
cp /run/slurm/conf/plugstack.conf ~/
grep -q slurm-pmi2 ~/own.conf && export SLURM_CONF=$HOME/own.conf
"""


def test_no_step_has_an_mpi_plugin_unless_the_configuration_has_it(cluster: SmallCluster) -> None:
    """PMI-2's parser corrupts slurmstepd's memory on a user's message, Cray's on a user's launch (docs/adr/0022)."""
    ask = "timeout 50 srun -Q -n1 --mpi=pmi2 sh -c 'echo started; env' 2>&1"
    for plugin in ("pmi2", "cray_shasta"):
        plain = cluster.jail(ask.replace("pmi2", plugin), user=ALICE)
        assert "started" not in plain.stdout
        assert f"mpi/{plugin}" in plain.stdout
    forged = cluster.jail(OWN_CONFIGURATION + ask, user=ALICE)
    assert "own.conf" not in forged.stderr
    assert "PMI_FD" not in forged.stdout, "slurmstepd has no such plugin, whatever the client has"
    # slurmd and slurmstepd wait for each other then (26.05), and the node would keep the job.
    assert cluster.jail("timeout 50 srun -Q -n1 --mem=20 echo next", user=ALICE).stdout == "next\n"
