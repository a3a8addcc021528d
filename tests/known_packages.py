"""A Python for Pulumi's language host, which asks pip for all packages before each program."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

SECONDS = 120
PYTHON = """\
#!/bin/sh
# Pulumi's Python host lists all packages before each program, to learn which plugins they need.
[ "$*" = "-m pip list -v --format json" ] && exec cat {packages}
exec {python} "$@"
"""


def python_that_knows_its_packages(folder: Path) -> Path:
    """Make a `python3` for PATH that answers pip's questions at once: they take a tenth to a quarter of a preview."""
    packages, program = folder / "packages.json", folder / "python3"
    listing = [sys.executable, "-m", "pip", "list", "-v", "--format", "json"]
    packages.write_bytes(subprocess.run(listing, capture_output=True, timeout=SECONDS, check=True).stdout)
    program.write_text(PYTHON.format(packages=packages, python=sys.executable))
    program.chmod(0o755)
    return folder
