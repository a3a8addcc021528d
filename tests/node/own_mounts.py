"""Python in a mount namespace of its own, with the image's code."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from devcluster.machine.bootstrap import CHECKOUT


def run(folder: Path, script: str) -> tuple[list[str], list[str]]:
    """Lines that a script prints and logs; ``folder`` is its argument."""
    done = subprocess.run(
        ["unshare", "--mount", sys.executable, "-c", script, str(folder)],
        env={**os.environ, "PYTHONPATH": f"{CHECKOUT}/images/slurm:{CHECKOUT}", "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines(), done.stderr.splitlines()
