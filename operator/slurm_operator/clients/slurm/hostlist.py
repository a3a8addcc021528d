"""Slurm's node list expressions, such as `cpu-[0-2,7],gpu-1`."""

import itertools
import re

_PART = re.compile(r"((?:[^,\[\]]|\[[^\[\]]*\])+)(?:,|$)")
_BRACKETS = re.compile(r"\[(.*?)\]")
_RANGE = re.compile(r"(\d+)(?:-(\d+))?")
_MAX_NODES = 100_000


def expand(expression: str) -> frozenset[str]:
    """Return the node names of an expression.

    Raises:
        ValueError: the expression is not one, so nothing may be concluded from it.
    """
    parts = _PART.findall(expression)
    if ",".join(parts) != expression:
        raise ValueError(f"no node list expression: {expression!r}")
    return frozenset(name for part in parts for name in _names(part))


def _names(part: str) -> list[str]:
    # Every second piece stood in brackets.
    pieces = enumerate(_BRACKETS.split(part))
    choices = [_numbers(piece) if number % 2 else [piece] for number, piece in pieces]
    return ["".join(parts) for parts in itertools.product(*choices)]


def _numbers(ranges: str) -> list[str]:
    numbers: list[str] = []
    for item in ranges.split(","):
        match = _RANGE.fullmatch(item)
        if match is None:
            raise ValueError(f"no node list expression: [{ranges}]")
        first, last = match[1], match[2] or match[1]
        if int(last) < int(first):
            raise ValueError(f"no node list expression: [{ranges}]")
        if int(last) - int(first) >= _MAX_NODES:
            raise ValueError(f"too many nodes: [{ranges}]")
        numbers += [str(number).zfill(len(first)) for number in range(int(first), int(last) + 1)]
    return numbers
