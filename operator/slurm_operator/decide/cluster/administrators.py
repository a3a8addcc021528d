"""Slurm's administrators: users that the SlurmCluster names. They may appoint others."""

from __future__ import annotations

from collections.abc import Mapping

NOBODY = "None"
"""Slurm's word for the level of an ordinary user."""


def changes(wanted: Mapping[str, str], given: Mapping[str, str], known: Mapping[str, str]) -> dict[str, str]:
    """Return the users who get another AdminLevel; each argument is name → level.

    A level that somebody else gave stays: only what was given for the configuration is taken away again.

    Args:
        wanted: users that the SlurmCluster names.
        given: what was given for an earlier SlurmCluster, as its status says.
        known: what slurmdbd says; whoever it leaves out has none.
    """
    appointed = {name: level for name, level in wanted.items() if known.get(name, NOBODY) != level}
    gone = {name for name, level in given.items() if name not in wanted and known.get(name) == level}
    return appointed | dict.fromkeys(gone, NOBODY)
