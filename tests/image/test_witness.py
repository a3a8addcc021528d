"""A witness that knows no holes: nothing that Slurm does for a user has more rights than the user's own job.

All options of Slurm's programs, as tests/witness classifies them; test_rpcs.py has the messages of its daemons.
PULUMI_SLURM_SEED gives a seed, else each run draws its own; PULUMI_SLURM_WHOLE=1 tries every value (docs/jail.md).
"""

from __future__ import annotations

import os
import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.image import roots
from tests.image.small_cluster import ALICE, SmallCluster
from tests.witness import judge, runs
from tests.witness.stage import Stage

SEED = int(os.environ.get("PULUMI_SLURM_SEED") or random.randrange(10**6))
WHOLE = os.environ.get("PULUMI_SLURM_WHOLE") == "1"
PAIRS, WHOLE_PAIRS = 12, 400
SECONDS = 3000 if WHOLE else 170
KILL_SECONDS = 40
"""So long Slurm waits after a job's SIGTERM (KillWait), and some."""


@pytest.fixture(scope="module")
def stage(image: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    folder = tmp_path_factory.mktemp("witness")
    root = roots.make("mpich", folder / "root")
    with SmallCluster(image, root, folder, as_in_kubernetes=True) as started:
        started.start()
        started.start_login()
        ready = Stage(started)
        ready.set()
        yield ready


@pytest.fixture(scope="module")
def walked(stage: Stage) -> Stage:
    print(f"PULUMI_SLURM_SEED={SEED}")
    stage.walk(runs.draw(SEED, WHOLE, WHOLE_PAIRS if WHOLE else PAIRS), SECONDS)
    return stage


def test_every_option_of_the_installed_slurm_is_classified(stage: Stage) -> None:
    assert not stage.unclassified()


@pytest.mark.timeout(SECONDS * 2)
def test_no_process_that_slurm_starts_for_a_user_has_more_rights_than_his_job(walked: Stage) -> None:
    lines = walked.lines()
    seen = {(line.one("label"), line.one("as")) for line in lines}
    wanted = {(label, "root" if "root" in label else "program") for label in runs.BASELINES}
    assert wanted | {(label, "library") for label in runs.BASELINES if "user" in label} <= seen, "every witness works"
    assert not judge.verdict(lines, walked.nodes(), walked.root()), f"PULUMI_SLURM_SEED={SEED}"


def test_no_output_shows_what_is_the_pods(walked: Stage) -> None:
    assert not walked.leaks(), f"PULUMI_SLURM_SEED={SEED}"


def test_no_file_is_written_outside_of_the_jail(walked: Stage) -> None:
    assert not walked.written(), f"PULUMI_SLURM_SEED={SEED}"


def test_no_process_lives_longer_than_its_job(walked: Stage) -> None:
    assert not walked.alive_after(KILL_SECONDS), f"PULUMI_SLURM_SEED={SEED}"


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
