"""Scripts of the site that Slurm's own programs start: their kinds, and the files by which a pod knows them.

A kind has a list, named after it, with one line for each script: its name and its time limit in seconds. Each script
has a file of its own beside it.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

END_SECONDS: Final = 2
"""Time for a script to be gone after it was killed."""


class Kind(StrEnum):
    """Kinds of scripts; the values are the keys of slurm.scripts, and name the lists."""

    PROLOG = "prolog"
    EPILOG = "epilog"
    HEALTH_CHECK = "healthCheck"
    PROLOG_SLURMCTLD = "prologSlurmctld"
    EPILOG_SLURMCTLD = "epilogSlurmctld"
    TASK_PROLOG = "taskProlog"
    TASK_EPILOG = "taskEpilog"


@dataclass(frozen=True, slots=True)
class Script:
    """A line of a list.

    Attributes:
        name: the script's name.
        seconds: its time limit.
    """

    name: str
    seconds: int


def file_of(kind: Kind, name: str) -> str:
    """Return the name of a script's file."""
    return f"{kind}.{name}"


def list_text(scripts: list[Script]) -> str:
    """Return a list as text."""
    return "".join(f"{script.name} {script.seconds}\n" for script in scripts)


def parse_list(text: str) -> list[Script]:
    """Return the scripts of a list, in their order."""
    rows = (line.split() for line in text.splitlines())
    return [Script(name, int(seconds)) for name, seconds in rows]
