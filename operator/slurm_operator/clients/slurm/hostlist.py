"""Slurm's node list expressions, such as `cpu-[0-2,7],gpu-1`."""

import itertools
import math
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
    choices = [_choices(part) for part in parts]
    # Users write some of them, and may repeat a name.
    if sum(math.prod(map(len, of_part)) for of_part in choices) > _MAX_NODES:
        raise ValueError(f"too many nodes: {expression[:80]!r}")
    return frozenset("".join(pieces) for of_part in choices for pieces in itertools.product(*of_part))


def _choices(part: str) -> list[list[str]]:
    # Every second piece stood in brackets.
    pieces = enumerate(_BRACKETS.split(part))
    return [_numbers(piece) if number % 2 else [piece] for number, piece in pieces]


def _numbers(ranges: str) -> list[str]:
    numbers: list[str] = []
    for item in ranges.split(","):
        match = _RANGE.fullmatch(item)
        if match is None:
            raise ValueError(f"no node list expression: [{ranges}]")
        first, last = match[1], match[2] or match[1]
        if int(last) < int(first):
            raise ValueError(f"no node list expression: [{ranges}]")
        if int(last) - int(first) + len(numbers) >= _MAX_NODES:
            raise ValueError(f"too many nodes: [{ranges[:80]}]")
        numbers += [str(number).zfill(len(first)) for number in range(int(first), int(last) + 1)]
    return numbers
