"""Keys that a manual page of a configuration file describes; options and variables of a program's page."""

from __future__ import annotations

import gzip
import re
from collections.abc import Iterator
from pathlib import Path

_KEY = re.compile(r"\\fB(\w+)\\fR(=|$)")
_VARIABLES = ("INPUT ENVIRONMENT VARIABLES", "ENVIRONMENT VARIABLES")
"""Headings of what a program reads."""


def described(page: str) -> dict[str, list[str]]:
    """Return the keys by the heading above them: man(7)'s tagged paragraphs that stand in no other one.

    Args:
        page: The page's source, in the macros of man(7).
    """
    heading, depth, tagged = "", 0, False
    found: dict[str, list[str]] = {}
    for line in page.splitlines():
        if line.startswith(".SH"):
            heading, depth = line[3:].strip().strip('"'), 0
        elif line.startswith(".RS"):
            depth += 1
        elif line.startswith(".RE"):
            depth -= 1
        elif tagged and depth == 0 and (key := _KEY.match(line)):
            found.setdefault(heading, []).append(key[1])
        tagged = line.startswith((".TP", ".TQ"))
    return found


def keys(image: Path, file: str) -> dict[str, list[str]]:
    """Return the keys of a file by heading, as the manual page in an unpacked image has them."""
    return described(_page(image, file, 5))


def _page(image: Path, name: str, section: int) -> str:
    return gzip.decompress((image / f"usr/share/man/man{section}/{name}.{section}.gz").read_bytes()).decode()


def _tags(page: str) -> Iterator[tuple[str, str]]:
    """Each tag of a paragraph, without its fonts, and the heading above it."""
    heading, tagged = "", False
    for line in page.splitlines():
        if line.startswith(".SH"):
            heading = line[3:].strip().strip('"')
        elif tagged:
            yield heading, re.sub(r"\\f[BIR]", "", line).replace("\\-", "-")
        tagged = line.startswith((".TP", ".TQ"))


def options(image: Path, program: str) -> tuple[set[str], set[str]]:
    """Return a program's long options and its letters, both without dashes, as its page in an unpacked image has them.

    Args:
        image: where.
        program: of Slurm.
    """
    tags = [tag for _, tag in _tags(_page(image, program, 1)) if tag.startswith("-")]
    long = {name for tag in tags for name in re.findall(r"(?<![\w-])--([a-z0-9][\w-]*)", tag)}
    return long, {letter for tag in tags for letter in re.findall(r"^-(\w)\b", tag)}


def variables(image: Path, program: str) -> set[str]:
    """Return the variables that a program reads, as its page in an unpacked image has them."""
    tags = (tag for heading, tag in _tags(_page(image, program, 1)) if heading in _VARIABLES)
    return {found[1] for tag in tags if (found := re.match(r"([A-Z][A-Z0-9_]+)(=|$)", tag.split()[0]))}
