"""Checks that the configuration which slurmd fetched keeps every step in the jail.

native/stepd/stepd_guard.c checks the same before each step. Here the result decides whether the node may be Ready.
"""

import re
from collections.abc import Mapping
from pathlib import Path

from contract import names
from slurm_node.pod import paths

FETCH_SECONDS = 10.0
"""Time for a new slurmd to fetch the configuration. Until then the old one's files do not count against it."""


def read(folder: Path = paths.FETCHED) -> dict[str, str] | None:
    """Returns file name → text of the fetched configuration; None while there is none."""
    try:
        if not (folder / names.SLURM_CONF).exists():
            return None
        return {path.name: path.read_text(errors="replace") for path in folder.iterdir() if path.is_file()}
    except FileNotFoundError:  # it is just being replaced
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
    words = [line.split() for line in logical_lines(files.get("plugstack.conf", "")) if line.split()]
    if not any(line[:2] == ["required", str(plugin)] for line in words):
        return f'plugstack.conf has no line "required {plugin}": jobs would run outside the jail'
    if words[0][:2] != ["required", str(plugin)]:
        return f'plugstack.conf has "{" ".join(words[0])}" before {plugin}: it would run outside the jail'
    if wrong := [word for word in words[0][2:] if not re.fullmatch(r"jail=(/[A-Za-z0-9._-]+)+", word)]:
        return f"plugstack.conf tells {plugin} {wrong[0]!r}; it takes jail=/PATH alone"
    absent = [line[1] for line in words if line[0] == "required" and line[1:] and not Path(line[1]).exists()]
    if others := [file for file in absent if file != str(plugin)]:
        return f"plugstack.conf requires {others[0]}, which this image does not have: every step would fail"
    return None


class Judge:
    """Judges whether a slurmd must be stopped: only the configuration that it fetched itself counts against it.

    A restarted slurmd finds the files of its predecessor. If it were refused for those, it would never fetch corrected
    ones. Until it has, native/stepd/stepd_guard.c refuses every step.
    """

    def __init__(self, folder: Path = paths.FETCHED) -> None:
        self._folder = folder
        self._refused: frozenset[tuple[str, int, int]] = frozenset()

    def refusal(self, ran_seconds: float) -> str | None:
        """Returns why this slurmd must be stopped, or None.

        Args:
            ran_seconds: since it was started.
        """
        files = read(self._folder)
        sentence = refusal(files) if files is not None else None
        if sentence is None:
            return None
        state = self._look()
        if state == self._refused and ran_seconds < FETCH_SECONDS:
            return None
        self._refused = state
        return sentence

    def _look(self) -> frozenset[tuple[str, int, int]]:
        """A value that changes when files are rewritten, whatever their content."""
        try:
            files = [(path.name, path.stat()) for path in self._folder.iterdir()]
            return frozenset((name, facts.st_ino, facts.st_mtime_ns) for name, facts in files)
        except FileNotFoundError:  # it is just being replaced
            return frozenset()


def logical_lines(text: str) -> list[str]:
    """Returns lines without comments, with continuation lines joined, as Slurm reads them."""
    uncommented = re.sub(r"#.*", "", text)
    return re.sub(r"\\\n", "", uncommented).splitlines()
