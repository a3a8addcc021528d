"""Pieces of CEL, the language of admission policies."""

import json
from collections.abc import Iterable
from typing import Any


def literal(value: Any) -> str:
    """Return JSON as a CEL literal.

    Kubernetes takes no list or map of unlike values, so each value in one is of no declared type.
    """
    if isinstance(value, dict):
        return "{" + ", ".join(f"{literal(str(key))}: dyn({literal(item)})" for key, item in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(f"dyn({literal(item)})" for item in value) + "]"
    return json.dumps(value, ensure_ascii=False)


def strings(values: Iterable[str]) -> str:
    """Return a list of strings, sorted, as a CEL literal."""
    return json.dumps(sorted(values), ensure_ascii=False)


def same(field: str, besides: Iterable[str] = ()) -> str:
    """Return a CEL expression that is true while a map holds what it held before.

    Args:
        field: Path of a map below the object, such as `metadata.labels`.
        besides: Keys of the map that may change.
    """
    new, old = (_map(root, field) for root in ("object", "oldObject"))
    free = strings(besides)
    return (
        f"{new}.all(key, key in {free} || {old}[?key] == {new}[?key]) && {old}.all(key, key in {free} || key in {new})"
    )


def same_items(field: str, besides: str) -> str:
    """Return a CEL expression that is true while a list of strings is unchanged, except for one free string."""
    new, old = (_optional(root, field) + ".orValue([])" for root in ("object", "oldObject"))
    return " && ".join(
        f"{one}.all(item, item == {literal(besides)} || item in {other})" for one, other in ((new, old), (old, new))
    )


def _map(root: str, field: str) -> str:
    return _optional(root, field) + ".orValue({})"


def _optional(root: str, field: str) -> str:
    return root + "".join(f".?{part}" for part in field.split("."))
