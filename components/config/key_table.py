"""Makes docs/slurm-keys.md from the lists that checks use: who sets each key of a partition in slurm.conf."""

from collections.abc import Iterable, Mapping
from typing import Final

from components.config.values import partition_options, slurm_files

_HEAD: Final = """# Keys of slurm.conf

Made from the lists by which the program checks keys; `.venv/bin/python -m tests.unit.golden_files` writes it. A test
compares the lists with the keys that the parser of the installed Slurm takes (26.05).
"""
_TABLE: Final = """
## {title}

| key of slurm.conf | who sets it |
|---|---|
"""


def _rows(
    at: str, typed: Mapping[str, str], owned: Mapping[str, str], refused: Mapping[str, str], allowed: Iterable[str]
) -> str:
    said = {
        **{key: f"`{at}.{name}`" for key, name in typed.items()},
        **{key: f"this program: {reason}" for key, reason in owned.items()},
        **{key: f"nobody: {reason}" for key, reason in refused.items()},
        **dict.fromkeys(allowed, f"`{at}.options`"),
    }
    return "".join(f"| {key} | {said[key]} |\n" for key in sorted(said, key=str.lower))


_FILES: Final = """
## Files beside slurm.conf

| file | who writes it | read by | nodes and logins get it |
|---|---|---|---|
"""


def _files() -> str:
    rows = {
        **{name: f"`slurm.files` | {taken.reader} | {_yes(taken.sent)}" for name, taken in slurm_files.TAKEN.items()},
        **{name: f"this program: {reason} | |" for name, reason in slurm_files.OURS.items()},
        **{name: f"nobody: {reason} | |" for name, reason in slurm_files.REFUSED.items()},
    }
    return _FILES + "".join(f"| {name} | {rows[name]} |\n" for name in sorted(rows))


def _yes(sent: bool) -> str:
    return "yes" if sent else "no"


def text() -> str:
    """Return the whole page."""
    own = partition_options
    partitions = _rows("partitions[]", own.TYPED, own.OWNED, own.REFUSED, own.ALLOWED)
    return _HEAD + _TABLE.format(title="Partitions") + partitions + _files()
