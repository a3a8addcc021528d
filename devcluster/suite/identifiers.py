"""Finds names in Python and C that are words of an earlier vocabulary, or tell nothing about their thing."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

FOLDERS = ("bench", "components", "contract", "devcluster", "health", "images", "native", "operator")
"""Folders whose names are checked. Names in tests are free: a test says what it is about in its own words."""
FOREIGN_NAMES = {
    "carry_out": "execute, or what it does",
    "each": "what it is one of",
    "found": "what it is",
    "healed": "restored",
    "mend": "remount or repair",
    "people": "users, where they are accounts",
    "take_jobs": "requeue_jobs",
}
"""Whole names, without underscores around them and in lower case, each with what to say."""
FOREIGN_PARTS = {
    "agreement": "cross-field validation",
    "farewell": "prestop",
    "ghost": "orphaned record",
    "ghosts": "orphaned records",
    "healer": "drift reconciler",
    "keeper": "supervisor, roots controller, job_init",
    "pace": "requeue_after",
    "rehearsal": "config dry run",
    "rung": "step of a repair",
    "trial": "probe",
    "unaccounted": "slurmdbd fallback",
}
"""Words of names, in any place of one."""


@dataclass(frozen=True, slots=True)
class Name:
    """A name where a file gives it to something, or in C where it stands first; `line` is from 1."""

    line: int
    text: str


def foreign(file: Path) -> Iterator[tuple[Name, str]]:
    """Yield the names of a file that are foreign, each with what to say instead."""
    if file.parts[0] not in FOLDERS or file.suffix not in (".py", ".c", ".h"):
        return
    text = file.read_text()
    for name in _python(text) if file.suffix == ".py" else _c(text):
        if ours := _better(name.text):
            yield name, ours


def _better(name: str) -> str | None:
    snake = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).strip("_").lower()
    parts = (FOREIGN_PARTS.get(part) for part in snake.split("_"))
    return FOREIGN_NAMES.get(snake) or next((ours for ours in parts if ours), None)


def _python(text: str) -> Iterator[Name]:
    """Yield what is named here. Names of other modules and libraries are not, unless an import renames them."""
    for node in ast.walk(ast.parse(text)):
        match node:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                yield Name(node.lineno, name)
            case ast.Name(id=name, ctx=ast.Store()) | ast.arg(arg=name) | ast.alias(asname=str(name)):
                yield Name(node.lineno, name)
            case ast.Attribute(attr=name, ctx=ast.Store()):
                yield Name(node.lineno, name)


def _c(text: str) -> Iterator[Name]:
    """Yield identifiers outside of comments and strings."""
    code = re.sub(
        r'"(?:\\.|[^"\\\n])*"|/\*.*?\*/|//[^\n]*', lambda match: "\n" * match[0].count("\n"), text, flags=re.DOTALL
    )
    known = set[str]()
    for number, line in enumerate(code.splitlines(), start=1):
        for name in re.findall(r"[A-Za-z_]\w*", line):
            if name not in known:
                known.add(name)
                yield Name(number, name)
