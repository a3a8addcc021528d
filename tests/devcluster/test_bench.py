"""`make bench` finds all that it measures."""

from __future__ import annotations

import subprocess
import sys

from devcluster import commands
from devcluster.bootstrap import CHECKOUT


def test_an_unknown_measurement_is_answered_with_the_known_ones():
    command = [sys.executable, "-m", "bench", "no-such"]
    done = subprocess.run(
        command, cwd=CHECKOUT, env=commands.bench_environment(), capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 2
    assert "unknown: no-such" in done.stderr
    assert "many-nodes" in done.stderr
