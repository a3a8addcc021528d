"""Looks into a configuration as it was written, before it is known to be right."""

from collections.abc import Mapping
from typing import Any


def mapping(value: Any) -> Mapping[str, Any]:
    """The value if it is a map of keys, else an empty one."""
    return value if isinstance(value, Mapping) else {}


def rows(value: Any) -> list[tuple[int, Mapping[str, Any]]]:
    """The maps in a list, each with its position; nothing if the value is no list."""
    entries = value if isinstance(value, list) else []
    return [(index, row) for index, row in enumerate(entries) if isinstance(row, Mapping)]
