"""The part of JSONPath that `pulumi.com/waitFor` conditions use."""

from __future__ import annotations

import re
from typing import Any

_STEP = re.compile(
    r"""\.(?P<name>[A-Za-z_][\w-]*)
      | \['(?P<single>(?:[^'\\]|\\.)*)'\] | \["(?P<double>(?:[^"\\]|\\.)*)"\]
      | \[(?P<index>-?\d+)\]
      | (?P<every>\[\*\]|\.\*)
      | \[\?\(?\s*@\.(?P<key>[\w.-]+)\s*==\s*(?P<quote>['"])(?P<wanted>.*?)(?P=quote)\s*\)?\]
    """,
    re.VERBOSE,
)
Step = tuple[str, Any]


def parse(path: str) -> tuple[Step, ...]:
    """Parses a path such as `.status.conditions[?(@.type=="Ready")].status`.

    Raises:
        ValueError: it uses what this subset does not have.
    """
    rest, steps = path.removeprefix("$"), list[Step]()
    position = 0
    while position < len(rest):
        match = _STEP.match(rest, position)
        if match is None:
            raise ValueError(
                f"the stand-in provider does not understand {rest[position:]!r} in the JSONPath {path!r}: "
                'it knows .name, ["name"], [0], [*] and [?(@.key=="value")]'
            )
        steps.append(_step(match))
        position = match.end()
    return tuple(steps)


def _step(match: re.Match[str]) -> Step:
    if match["index"]:
        return "index", int(match["index"])
    if match["every"]:
        return "every", None
    if match["key"]:
        return "filter", (match["key"].split("."), match["wanted"])
    quoted = match["single"] if match["single"] is not None else match["double"]
    return "name", match["name"] or re.sub(r"\\(.)", r"\1", quoted)


def select(steps: tuple[Step, ...], value: Any) -> list[Any]:
    """Every value that the path leads to."""
    found = [value]
    for step in steps:
        found = [inner for outer in found for inner in _inner(step, outer)]
    return found


def _inner(step: Step, value: Any) -> list[Any]:
    what, argument = step
    if isinstance(value, dict):
        if what == "every":
            return list(value.values())
        return [value[argument]] if what == "name" and argument in value else []
    if not isinstance(value, list):
        return []
    if what == "index":
        return [value[argument]] if -len(value) <= argument < len(value) else []
    if what == "filter":
        keys, wanted = argument
        return [item for item in value if _at(item, keys) == wanted]
    return value if what == "every" else []


def _at(value: Any, keys: list[str]) -> Any:
    for key in keys:
        value = value.get(key) if isinstance(value, dict) else None
    return value
