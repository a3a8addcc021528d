"""All that the installed Slurm has is classified, and its daemons take messages of slurmctld's from nobody else.

The witness walks on the dev cluster (tests/e2e/test_witness.py) and on cgroup v2 (tests/vm/test_witness_v2.py).
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.image import roots
from tests.image.small_cluster import ALICE, SmallCluster
from tests.witness import rpcs
from tests.witness.installed import Installed
from tests.witness.small import OnSmallCluster
from tests.witness.stage import Stage
from tests.witness.walk import SEED, Walk

SLURM_USER = 64030


@pytest.fixture(scope="module")
def stage(image: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    folder = tmp_path_factory.mktemp("witness")
    root = roots.make("mpich", folder / "root")
    with SmallCluster(image, root, folder, as_in_kubernetes=True) as started:
        started.start()
        started.start_login()
        yield Stage(started)


@pytest.fixture(scope="module")
def walk(stage: Stage) -> Walk:
    there = OnSmallCluster(stage.cluster)
    there.add_people()
    walk = Walk(there, SEED)
    walk.set_up()
    return walk


def test_everything_that_the_installed_slurm_has_is_classified(walk: Walk) -> None:
    assert not Installed(walk.cluster).unclassified()


OWN_CONFIGURATION = """
conf=/run/slurm/conf/slurm.conf
sed 's#^PluginDir=.*#&:/opt/slurm/lib/slurm-pmi2#' "$conf" > ~/own.conf
cp /run/slurm/conf/plugstack.conf ~/
grep -q slurm-pmi2 ~/own.conf && export SLURM_CONF=$HOME/own.conf
"""


def test_no_task_speaks_to_pmi2_unless_the_configuration_has_it(stage: Stage) -> None:
    """Its parser corrupts slurmstepd's memory on a user's message (docs/adr/0022)."""
    ask = "timeout 50 srun -Q -n1 --mpi=pmi2 sh -c 'echo started; env' 2>&1"
    plain = stage.cluster.jail(ask, user=ALICE)
    assert "started" not in plain.stdout
    assert "mpi/pmi2" in plain.stdout
    forged = stage.cluster.jail(OWN_CONFIGURATION + ask, user=ALICE)
    assert "own.conf" not in forged.stderr
    assert "PMI_FD" not in forged.stdout, "slurmstepd has no such plugin, whatever the client has"
    # slurmd and slurmstepd wait for each other then (26.05), and the node would keep the job.
    assert stage.cluster.jail("timeout 50 srun -Q -n1 --mem=20 echo next", user=ALICE).stdout == "next\n"


Answers = dict[tuple[int, bool], dict[str, str]]


@pytest.fixture(scope="module")
def answers(stage: Stage, walk: Walk) -> Answers:
    """User, and whether he is on a login node → what came of each message."""
    types = stage.message_types()
    return {(user, at): stage.send(types, user, at) for at in (False, True) for user in (ALICE, SLURM_USER, 0)}


@pytest.mark.parametrize("from_login", [False, True], ids=["in a job", "on a login node"])
@pytest.mark.parametrize("user", [ALICE, SLURM_USER, 0], ids=["user", "SlurmUser", "root"])
def test_nobody_sends_slurms_daemons_what_is_slurmctlds_to_send(
    stage: Stage, answers: Answers, user: int, from_login: bool
) -> None:
    types, said = stage.message_types(), answers[user, from_login]
    assert said.keys() == types.keys(), "every message had an answer"
    if user == ALICE:
        assert {*said.values()} & rpcs.REFUSED, "the messages are understood"
        assert not rpcs.differences(types, said)
    assert not rpcs.faults(types, said)


@pytest.mark.xfail(strict=True, reason="slurmd 26.05 takes zeros of some types for lists, and ends (docs/limits.md)")
def test_no_message_ends_a_daemon(stage: Stage, answers: Answers) -> None:
    types = stage.message_types()
    assert not [ended for said in answers.values() for ended in rpcs.endings(types, said)]
