"""Is the configuration that slurmd fetched one that keeps every step in the jail?

native/stepd_guard.c asks the same before each step. Here it decides whether the node may be Ready at all.
"""

import re
from collections.abc import Mapping
from pathlib import Path

from slurm_node import paths


def read(folder: Path = paths.FETCHED) -> dict[str, str] | None:
    """Returns file name → text of the fetched configuration; None while there is none."""
    try:
        if not (folder / "slurm.conf").exists():
            return None
        return {path.name: path.read_text(errors="replace") for path in folder.iterdir() if path.is_file()}
    except FileNotFoundError:  # it is being replaced just now
        return None


def refusal(files: Mapping[str, str], plugin: Path = paths.PLUGIN) -> str | None:
    """Returns why no step may run with this configuration, or None.

    Args:
        files: name → text.
        plugin: the path that plugstack.conf must require.
    """
    for name, text in files.items():
        if any("plugstackconfig" in line.lower() for line in logical_lines(text)):
            return f"{name} has a PlugStackConfig line: remove it, Slurm finds plugstack.conf by itself"
    words = [line.split() for line in logical_lines(files.get("plugstack.conf", ""))]
    if not any(line[:2] == ["required", str(plugin)] for line in words):
        return f'plugstack.conf has no line "required {plugin}": jobs would run outside the jail'
    return None


def logical_lines(text: str) -> list[str]:
    """Returns lines without comments, with continuation lines joined, as Slurm reads them."""
    uncommented = re.sub(r"#.*", "", text)
    return re.sub(r"\\\n", "", uncommented).splitlines()
