"""A walk of the witness finds and ends what outlives its job, however little of its mark a process shows."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import cast

import pytest

from tests.witness import planting
from tests.witness.cluster import Cluster
from tests.witness.leftovers import Left, Leftovers
from tests.witness.walk import Walk

SEED = 990000 + os.getpid()
"""No walk has it."""


@pytest.fixture(scope="module")
def witness(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("witness")
    planting.build(folder)
    return folder


@pytest.fixture
def left(witness: Path) -> Iterator[Leftovers]:
    leftovers = Leftovers(SEED, [witness / "program", witness / "setid"])
    yield leftovers
    leftovers.end()


def start(*command: str | Path, **variables: str) -> None:
    """Runs a command that ends, and leaves a witness behind."""
    ended = subprocess.run(command, env=variables, timeout=20, check=False, capture_output=True)
    assert ended.returncode == 0, ended


def one(leftovers: Leftovers) -> Left:
    """The process that is left."""
    (found,) = leftovers.found()
    return found


def test_nothing_is_left_at_first(left: Leftovers) -> None:
    assert left.found() == []


@pytest.mark.parametrize("begun", ["job", "login"])
@pytest.mark.parametrize("then", [(), ("then", "/bin/true")], ids=["by itself", "before another program"])
def test_a_survivor_of_any_line_is_found_and_told_by_its_label(
    witness: Path, left: Leftovers, begun: str, then: tuple[str, ...]
) -> None:
    start(witness / "program", f"label={SEED}-3-srun-{begun}", *then)
    assert str(one(left)).startswith(f"{SEED}-3-srun-{begun}: program lives in pid:[")


@pytest.mark.parametrize("name", ["program", "setid"])
def test_a_survivor_without_any_label_is_found_by_its_program(witness: Path, left: Leftovers, name: str) -> None:
    start(witness / name)
    assert str(one(left)).startswith(f"a witness without a label: {name} lives")


@pytest.mark.parametrize("variables", [{}, {"WITNESS": f"{SEED}-4-sbcast"}], ids=["by its words", "by its variable"])
def test_a_survivor_of_a_copy_is_found_by_its_mark(
    witness: Path, left: Leftovers, tmp_path: Path, variables: dict[str, str]
) -> None:
    copy = shutil.copy(witness / "program", tmp_path / "copy")
    start(copy, *([] if variables else [f"label={SEED}-4-sbcast"]), **variables)
    assert one(left).label == f"{SEED}-4-sbcast"
    start(copy, f"label={SEED}1-4-sbcast")
    other = Leftovers(int(f"{SEED}1"), [])
    assert one(left).label == f"{SEED}-4-sbcast", "another walk's is not found"
    other.end()


def test_a_survivor_may_live_on_a_login_node_alone(witness: Path, left: Leftovers) -> None:
    start(witness / "program")
    assert left.found([one(left).space]) == []


class Login:
    """Stands for a cluster of which only a login node, in a namespace of no process, is asked."""

    workers = ()
    login = "slurm-login-0"

    def __init__(self, home: Path) -> None:
        self.home = home

    def spaces(self, _: str) -> tuple[str, str, str]:
        """No process's."""
        return "pid:[1]", "ipc:[1]", "user:[1]"


def test_a_walk_fails_for_a_planted_survivor_and_its_end_kills_it(tmp_path: Path) -> None:
    (tmp_path / "witness").mkdir()
    planting.build(tmp_path / "witness")
    walk = Walk(cast(Cluster, Login(tmp_path)), SEED)
    assert walk.alive_after(0) == []
    start(tmp_path / "witness/program", f"label={SEED}-5-srun-export-user-login")
    try:
        (survivor,) = walk.alive_after(0)
        assert survivor.startswith(f"{SEED}-5-srun-export-user-login: program lives in pid:[")
    finally:
        walk.leftovers.end()
    assert walk.alive_after(20) == []
