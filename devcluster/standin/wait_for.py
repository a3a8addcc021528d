"""The annotation `pulumi.com/waitFor`: what a program itself says to wait for."""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Callable
from typing import Any

from devcluster.standin import json_path
from devcluster.standin.kinds import Manifest


@dataclasses.dataclass(frozen=True, slots=True)
class Expression:
    """One condition; `holds` tells of a live object whether it does, and what was found instead."""

    written: str
    holds: Callable[[Manifest], tuple[bool, str]]


def parse(annotation: str) -> tuple[Expression, ...]:
    """Reads the annotation: one expression, or a JSON list of them.

    Args:
        annotation: `jsonpath={.path}=value`, `jsonpath={.path}`, `condition=Type` or `condition=Type=Status`.

    Raises:
        ValueError: it is none of these.
    """
    try:
        listed = json.loads(annotation)
    except ValueError:
        listed = annotation
    written = [str(item) for item in listed] if isinstance(listed, list) else [annotation]
    if not written:
        raise ValueError("at least one condition must be specified")
    return tuple(Expression(text.removeprefix("jsonpath="), _parse_one(text)) for text in written)


def _parse_one(text: str) -> Callable[[Manifest], tuple[bool, str]]:
    if text.startswith("jsonpath="):
        return _json_path(text.removeprefix("jsonpath="))
    if text.startswith("condition="):
        name, _, status = text.removeprefix("condition=").partition("=")
        return lambda live: _condition(live, name, status or "True")
    raise ValueError(f'expected a "jsonpath=" or "condition=" prefix, got {text!r}')


def _json_path(text: str) -> Callable[[Manifest], tuple[bool, str]]:
    match = re.fullmatch(r"\{\s*(.*?)\s*\}(?:=(.*))?", text, re.DOTALL)
    if match is None:
        raise ValueError(f"{text} should be wrapped in brackets: jsonpath={{.path}}=value")
    path, wanted = match.groups()
    if wanted == "":
        raise ValueError(f"{{{path}}}= requires a value")
    steps = json_path.parse(path)
    return lambda live: _selected(live, steps, path, wanted)


def _stale(live: Manifest, observed: Any) -> bool:
    generation = live.get("metadata", {}).get("generation")
    return isinstance(generation, int) and isinstance(observed, int) and observed < generation


def _selected(live: Manifest, steps: tuple[json_path.Step, ...], path: str, wanted: str | None) -> tuple[bool, str]:
    if _stale(live, _status(live).get("observedGeneration")):
        return False, "the status is of an older generation"
    found = json_path.select(steps, live)
    if not found:
        return False, f"{path} selected nothing"
    if wanted is None:
        return True, str(found[0])
    if isinstance(found[0], dict | list):
        return False, f"{path} has a non-primitive value"
    text = str(found[0]).lower() if isinstance(found[0], bool) else str(found[0])
    return text == wanted, f"found {json.dumps(text)}"


def _status(live: Manifest) -> dict[str, Any]:
    status = live.get("status")
    return status if isinstance(status, dict) else {}


def _condition(live: Manifest, name: str, wanted: str) -> tuple[bool, str]:
    status = _status(live)
    for condition in status.get("conditions") or []:
        if str(condition.get("type", "")).lower() != name.lower():
            continue
        if _stale(live, condition.get("observedGeneration", status.get("observedGeneration"))):
            return False, "the condition is of an older generation"
        actual = str(condition.get("status", ""))
        # Reason and message stay away: the official provider does not show them.
        return actual.lower() == wanted.lower(), f"{name}={actual}"
    return False, f"it has no condition {name}"
