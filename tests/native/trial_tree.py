"""Runs a program in a tree of mounts that nobody else sees."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence
from pathlib import Path


def run_in_tree(script: str, jail: Path, probe: Path, steps: Sequence[str], seconds: int = 60) -> str:
    """Run a script of shell in a mount namespace of its own; return what it printed.

    Args:
        script: makes the tree at $JAIL and runs $PROBE with its arguments.
        jail: where the tree is.
        probe: the program.
        steps: the script's arguments.
        seconds: the time that it may take.
    """
    # The leak check needs ptrace, which a task gives up.
    ours = {"JAIL": str(jail), "PROBE": str(probe), "ASAN_OPTIONS": "detect_leaks=0"}
    finished = subprocess.run(
        ["unshare", "--mount", "--propagation", "private", "sh", "-c", script, "sh", *steps],
        capture_output=True,
        text=True,
        timeout=seconds,
        env={**os.environ, **ours},
        check=False,
    )
    assert finished.returncode == 0, finished.stderr
    return finished.stdout
