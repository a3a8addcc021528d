"""Makes docs/slurm-keys.md from the lists that checks use: who sets each key of a line in slurm.conf."""

from typing import Final

from components.config.values import node_options, partition_options, slurm_files
from components.config.values.line_keys import LineKeys

_HEAD: Final = """# Keys of slurm.conf

Made from the lists by which the program checks keys; `.venv/bin/python -m tests.unit.golden_files` writes it. A test
compares the lists with the keys that the parser of the installed Slurm takes (26.05).
"""
_TABLE: Final = """
## {title}

| key of slurm.conf | who sets it |
|---|---|
"""


def _rows(keys: LineKeys) -> str:
    said = {
        **{key: f"`{keys.at}.{name}`" for key, name in keys.typed.items()},
        **{key: f"this program: {reason}" for key, reason in keys.owned.items()},
        **{key: f"nobody: {reason}" for key, reason in keys.refused.items()},
        **dict.fromkeys(keys.allowed, f"`{keys.at}.options`"),
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
    tables = (("Nodes", node_options.KEYS), ("Partitions", partition_options.KEYS))
    return _HEAD + "".join(_TABLE.format(title=title) + _rows(keys) for title, keys in tables) + _files()
