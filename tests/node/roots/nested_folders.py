"""Folders in folders, deeper than any path may be long."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

_SCRIPT = "import os, sys\nfor _ in range(int(sys.argv[2])):\n    os.mkdir(sys.argv[1])\n    os.chdir(sys.argv[1])"


def nest(folder: Path, name: str, depth: int) -> None:
    """Makes so many, each in the one before, as a program does that goes into each."""
    subprocess.run([sys.executable, "-c", _SCRIPT, name, str(depth)], cwd=folder, check=True)
