"""The command line works before anything is set up, and says what is missing."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from devcluster.cli.login import Login
from devcluster.machine.bootstrap import CHECKOUT
from devcluster.machine.progress import StepFailed, reported_failures

BARE = {"PATH": "/usr/bin:/bin"}


def devcluster(*arguments: str, folder: Path = CHECKOUT) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["python3", "-m", "devcluster", *arguments], cwd=folder, env=BARE, capture_output=True, text=True,
        timeout=60, check=False,
    )  # fmt: skip


def test_the_help_of_each_command_says_what_it_does():
    names = [line.split()[0] for line in devcluster("--help").stdout.splitlines() if re.match("    [a-z]", line)]
    assert {"up", "down", "test", "clean-cache"} < {*names}
    for name in ("up", "logs", "bench", "clean-cache"):
        meaning = devcluster(name, "--help").stdout.split("\n\n")[1]
        assert re.fullmatch("[A-Z].*[.]", meaning.replace("\n", " ")), name


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


@pytest.mark.parametrize("arguments", [("--name", "never-made", "status"), ("--help",)], ids=" ".join)
def test_a_command_ends_quietly_when_its_reader_goes_away(arguments: tuple[str, ...]) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    try:
        done = subprocess.run(
            ["python3", "-m", "devcluster", *arguments], cwd=CHECKOUT, env=BARE, stdout=writer,
            stderr=subprocess.PIPE, text=True, timeout=60, check=False,
        )  # fmt: skip
    finally:
        os.close(writer)
    assert (done.returncode, done.stderr) == (128 + signal.SIGPIPE, "")


def test_a_failed_connection_is_no_reader_that_went_away() -> None:
    with pytest.raises(BrokenPipeError), reported_failures():
        raise BrokenPipeError


def test_a_program_in_a_commands_place_ends_by_the_signal_of_a_closed_pipe() -> None:
    become = "from devcluster.cli import commands; commands._become(['sh', '-c', 'kill -PIPE $$'])"
    done = subprocess.run([sys.executable, "-c", become], cwd=CHECKOUT, timeout=60, check=False)
    assert done.returncode == -signal.SIGPIPE


def test_words_of_a_command_reach_the_login_node_as_they_are(tmp_path):
    login = Login(tmp_path)
    login.remember("192.0.2.1", 30022)
    assert login.run_command(["echo", "a b", "$HOME"])[-1] == "echo 'a b' '$HOME'"
    assert login.run_command(["echo a; exit 7"])[-1] == "echo a; exit 7"


def test_a_login_agrees_on_its_key_in_the_cheap_way_that_every_sshd_has(tmp_path):
    read = subprocess.run(["ssh", "-G", *Login(tmp_path).options(), "x"], capture_output=True, text=True, check=True)
    assert "kexalgorithms curve25519-sha256" in read.stdout.splitlines()


def test_without_a_login_node_the_error_says_so(tmp_path):
    with pytest.raises(StepFailed, match="make up"):
        Login(tmp_path).address()
