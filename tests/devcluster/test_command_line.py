"""The command line works before anything is set up, and says what is missing."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from devcluster.cli.login import Login
from devcluster.machine.bootstrap import CHECKOUT
from devcluster.machine.progress import StepFailed

BARE = {"PATH": "/usr/bin:/bin"}


def devcluster(*arguments: str, folder: Path = CHECKOUT) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["python3", "-m", "devcluster", *arguments], cwd=folder, env=BARE, capture_output=True, text=True,
        timeout=60, check=False,
    )  # fmt: skip


def test_status_works_with_the_systems_python_and_an_empty_environment():
    shown = devcluster("--name", "never-made", "status")
    assert (shown.returncode, "not made yet" in shown.stdout) == (3, True), shown.stderr


def test_a_fresh_clone_without_a_virtual_environment_says_what_to_run(tmp_path):
    shutil.copytree(CHECKOUT / "devcluster", tmp_path / "devcluster", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(CHECKOUT / "requirements.txt", tmp_path)
    shown = devcluster("status", folder=tmp_path)
    assert shown.returncode == 3
    assert "make up" in shown.stderr
    assert not (tmp_path / ".venv").exists()


def test_a_command_without_a_cluster_names_the_one_that_makes_it():
    shown = devcluster("--name", "never-made", "run", "--", "true")
    assert shown.returncode == 1
    assert "make up" in shown.stderr
    assert "Traceback" not in shown.stderr


def test_words_of_a_command_reach_the_login_node_as_they_are(tmp_path):
    login = Login(tmp_path)
    login.remember("192.0.2.1", 30022)
    assert login.run_command(["echo", "a b", "$HOME"])[-1] == "echo 'a b' '$HOME'"
    assert login.run_command(["echo a; exit 7"])[-1] == "echo a; exit 7"


def test_without_a_login_node_the_error_says_so(tmp_path):
    with pytest.raises(StepFailed, match="make up"):
        Login(tmp_path).address()
