"""Keys that a manual page of a configuration file describes."""

from __future__ import annotations

import gzip
import re
from pathlib import Path

_KEY = re.compile(r"\\fB(\w+)\\fR(=|$)")


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
    return described(gzip.decompress((image / f"usr/share/man/man5/{file}.5.gz").read_bytes()).decode())
