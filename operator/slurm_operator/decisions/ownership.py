"""Who owns which field of an object, read from `metadata.managedFields`.

A set of fields is a tree as Kubernetes writes it (FieldsV1): `f:<field>`, `k:<keys of a list item as JSON>`, `v:<value
of a list item as JSON>`; `.` says that the map or item itself is owned. A path is a tuple of such keys.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from slurm_operator import names

Path = tuple[str, ...]
Tree = Mapping[str, Any]

_PULUMI = (names.DECLARING_MANAGER, "pulumi-kubernetes", "pulumi-resource-kubernetes")
"""The manager that the program names, and those under which the provider creates or patches without it."""


def declared(live: Mapping[str, Any]) -> Tree:
    """Return the fields that Pulumi owns, or a heal of ours."""
    found: Tree = {}
    for manager, fields in _entries(live):
        if manager.startswith(_PULUMI) and manager != names.FIELD_MANAGER:
            found = _union(found, fields)
    return found


def foreign(live: Mapping[str, Any]) -> list[tuple[str, Tree]]:
    """Return the fields of everybody else but the operator, by manager."""
    return [
        (manager, fields)
        for manager, fields in _entries(live)
        if manager != names.FIELD_MANAGER and not manager.startswith(_PULUMI)
    ]


def operators(live: Mapping[str, Any]) -> Tree:
    """Return the fields that the operator owns under its own name."""
    return next((fields for manager, fields in _entries(live) if manager == names.FIELD_MANAGER), {})


def within(fields: Tree, path: Path) -> Tree:
    """Return what of a set is below a path."""
    for key in path:
        fields = fields.get(key, {})
    return fields


def lacking(one: Tree, other: Tree, path: Path = ()) -> Iterator[Path]:
    """Yield the shallowest paths of `one` that are not in `other`; annotations, where controllers take notes, aside."""
    for key, inner in one.items():
        if key in (".", "f:annotations") or inner.keys() == {"f:annotations"}:
            continue
        if key not in other:
            yield (*path, key)
        else:
            yield from lacking(inner, other[key], (*path, key))


def leaves(fields: Tree, path: Path = ()) -> Iterator[Path]:
    """Yield the paths of single fields."""
    for key, inner in fields.items():
        if key != ".":
            if inner:
                yield from leaves(inner, (*path, key))
            else:
                yield (*path, key)


def has(fields: Tree, path: Path) -> bool:
    """Whether a path is in a set."""
    for key in path:
        if key not in fields:
            return False
        fields = fields[key]
    return True


def writers(live: Mapping[str, Any], path: Path) -> list[str]:
    """Return who else owns a field or something in it."""
    return sorted({manager for manager, fields in foreign(live) if has(fields, path)})


def pointer(live: Any, path: Path) -> tuple[str | int, ...] | None:
    """Return where a path leads in the object itself: keys and list indices; None if it leads nowhere."""
    steps: list[str | int] = []
    for key in path:
        kind, _, rest = key.partition(":")
        step: str | int | None = rest
        if kind == "f":
            step = rest if isinstance(live, Mapping) and rest in live else None
        elif isinstance(live, list):
            wanted = json.loads(rest)
            same = (number for number, item in enumerate(live) if _is(item, wanted, keys=kind == "k"))
            step = next(same, None)
        if step is None:
            return None
        steps.append(step)
        live = live[step]
    return tuple(steps)


def text(path: Path) -> str:
    """Write a path for people, as in `spec.containers[name=slurm].image`."""
    words = ""
    for key in path:
        kind, _, rest = key.partition(":")
        if kind == "f":
            words += f".{rest}"
        elif kind == "k":
            words += "[" + ",".join(f"{name}={value}" for name, value in json.loads(rest).items()) + "]"
        else:
            words += f"[{rest}]"
    return words.removeprefix(".")


def _entries(live: Mapping[str, Any]) -> list[tuple[str, Tree]]:
    entries = live["metadata"].get("managedFields", [])
    return [(entry.get("manager", ""), entry.get("fieldsV1", {})) for entry in entries]


def _union(one: Tree, other: Tree) -> Tree:
    return {
        key: _union(one[key], other[key]) if key in one and key in other else one.get(key, other.get(key))
        for key in [*one, *(key for key in other if key not in one)]
    }


def _is(item: Any, wanted: Any, *, keys: bool) -> bool:
    if not keys:
        return bool(item == wanted)
    return isinstance(item, Mapping) and all(item.get(key) == value for key, value in wanted.items())
