"""Faults by schedule (docs/faults.md): what is promised holds while they come two at a time."""

from __future__ import annotations

import subprocess
import sys

import pytest

from bench.faults.schedule import SHORT_MINUTES, SHORT_SEED
from devcluster.machine.bootstrap import CHECKOUT

SECONDS = SHORT_MINUTES * 60 + 600
"""For the schedule, five minutes in which all may become well again, and two updates."""


@pytest.mark.timeout(SECONDS + 60)
def test_a_short_schedule_of_faults_breaks_no_promise(slurm, tmp_path):
    words = ["--seed", str(SHORT_SEED), "--minutes", str(SHORT_MINUTES), "--name", slurm.cluster.instance.name]
    command = [sys.executable, "-m", "bench.faults", *words, "--out", str(tmp_path / "faults.jsonl")]
    done = subprocess.run(command, cwd=CHECKOUT, capture_output=True, text=True, check=False, timeout=SECONDS)
    assert done.returncode == 0, done.stdout + done.stderr
