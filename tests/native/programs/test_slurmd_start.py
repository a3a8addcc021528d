"""slurmd starts through a program of ours, which fetches the configuration first."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest


@pytest.fixture
def start(make, tmp_path: Path):
    """Runs it with programs that tell of themselves; the fetch ends as the file ``outcome`` says."""
    said = tmp_path / "said"
    for name, more in (("slurmd", 'echo "$0 $*"'), ("fetch", f'echo fetch; exit "$(cat {tmp_path}/outcome)"')):
        (tmp_path / name).write_text(f"#!/bin/sh\n{{ {more}; }} >> {said}\n")
        (tmp_path / name).chmod(0o755)
    defines = " ".join(
        f"-D{name}='\"{tmp_path}/{file}\"'" for name, file in (("SLURMD", "slurmd"), ("START_FETCH", "fetch"))
    )
    program = make("slurmd_start", tmp_path / "build", f"CFLAGS=-O1 -g {defines}")

    def run(outcome: int, *words: str) -> tuple[int, list[str]]:
        (tmp_path / "outcome").write_text(str(outcome))
        done = subprocess.run([program, *words], capture_output=True, text=True, timeout=30, check=False)
        return done.returncode, said.read_text().splitlines()

    return run


def test_slurmd_has_fetched_before_it_starts(start, tmp_path: Path) -> None:
    assert start(0, "-D", "-Z") == (0, ["fetch", f"{tmp_path}/slurmd -D -Z"])


def test_slurmd_does_not_start_without_a_configuration(start) -> None:
    assert start(1, "-D") == (1, ["fetch"])


def test_a_prolog_that_slurmd_starts_through_its_own_name_waits_for_nothing(start, tmp_path: Path) -> None:
    words = ("slurm_script_launcher", "/usr/sbin/prolog", "prolog")
    assert start(1, *words) == (0, [f"{tmp_path}/slurmd {' '.join(words)}"])
