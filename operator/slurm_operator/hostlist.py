"""Slurm's node list expressions, such as `cpu-[0-2,7],gpu-1`."""

import re

_PART = re.compile(r"([^,\[\]]+|\[[^\[\]]*\])+(?:,|$)")
_RANGE = re.compile(r"(\d+)(?:-(\d+))?$")
_MAX_NODES = 100_000


def expand(expression: str) -> frozenset[str]:
    """Return the node names of an expression.

    Raises:
        ValueError: the expression is not one, so nothing may be concluded from it.
    """
    names: set[str] = set()
    position = 0
    while position < len(expression):
        part = _PART.match(expression, position)
        if part is None:
            raise ValueError(f"no node list expression: {expression!r}")
        names.update(_expand_part(part.group().removesuffix(","), expression))
        position = part.end()
    return frozenset(names)


def _expand_part(part: str, expression: str) -> list[str]:
    opening = part.find("[")
    if opening < 0:
        return [part]
    closing = part.index("]", opening)
    names: list[str] = []
    for item in part[opening + 1 : closing].split(","):
        found = _RANGE.match(item)
        if found is None:
            raise ValueError(f"no node list expression: {expression!r}")
        first, last = found.group(1), found.group(2) or found.group(1)
        if int(last) - int(first) >= _MAX_NODES:
            raise ValueError(f"too many nodes: {expression!r}")
        numbers = [str(number).zfill(len(first)) for number in range(int(first), int(last) + 1)]
        tails = _expand_part(part[closing + 1 :], expression) if closing + 1 < len(part) else [""]
        names.extend(f"{part[:opening]}{number}{tail}" for number in numbers for tail in tails)
    return names
