"""Reads from `metadata.managedFields` which manager owns which field of an object.

A set of fields is a tree as Kubernetes writes it (FieldsV1): `f:<field>`, `k:<keys of a list item as JSON>`, `v:<value
of a list item as JSON>`; `.` says that the map or item itself is owned. A path is a tuple of such keys.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from contract import names

Path = tuple[str, ...]
Tree = Mapping[str, Any]

_PULUMI = (names.FIELD_MANAGER, "pulumi-kubernetes", "pulumi-resource-kubernetes")
"""The manager that the program names, and those under which the provider creates or patches without it."""


def declared(live: Mapping[str, Any]) -> Tree:
    """Return the fields that Pulumi owns, or the operator by a repair."""
    tree: Tree = {}
    for manager, fields in _entries(live):
        if manager.startswith(_PULUMI) and manager != names.OPERATOR_FIELD_MANAGER:
            tree = _union(tree, fields)
    return tree


def foreign(live: Mapping[str, Any]) -> list[tuple[str, Tree]]:
    """Return the fields of everybody else but the operator, by manager."""
    return [(manager, fields) for manager, fields in _entries(live) if _is_foreign(manager)]


def operators(live: Mapping[str, Any]) -> Tree:
    """Return the fields that the operator owns under its own name."""
    return next((fields for manager, fields in _entries(live) if manager == names.OPERATOR_FIELD_MANAGER), {})


def handed_over(live: Mapping[str, Any], goes: Callable[[Path], bool]) -> list[dict[str, Any]]:
    """Return `metadata.managedFields` with fields of others noted as applied by the program.

    Args:
        live: the object.
        goes: whether a field that somebody else owns is to be the program's.
    """
    ours: dict[str, Any] = {"manager": names.FIELD_MANAGER, "operation": "Apply", "fieldsType": "FieldsV1"}
    ours["apiVersion"] = live["apiVersion"]
    kept: list[dict[str, Any]] = []
    taken: Tree = {}
    for entry in live["metadata"].get("managedFields", []):
        manager, subresource = entry.get("manager", ""), entry.get("subresource", "")
        if (manager, entry.get("operation"), subresource) == (names.FIELD_MANAGER, "Apply", ""):
            ours = entry
        elif _is_foreign(manager):
            mine, rest = _split(entry.get("fieldsV1", {}), goes)
            taken = _union(taken, mine)
            kept += [{**entry, "fieldsV1": rest}] if rest else []
        else:
            kept.append(entry)
    return [*kept, {**ours, "fieldsV1": _union(ours.get("fieldsV1", {}), taken)}]


def within(fields: Tree, path: Path) -> Tree:
    """Return the part of a set below a path."""
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
    """Return whether a path is in a set."""
    for key in path:
        if key not in fields:
            return False
        fields = fields[key]
    return True


def writers(live: Mapping[str, Any], path: Path) -> list[str]:
    """Return who else owns a field or something in it."""
    return sorted({manager for manager, fields in foreign(live) if has(fields, path)})


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


def _is_foreign(manager: str) -> bool:
    return manager != names.OPERATOR_FIELD_MANAGER and not manager.startswith(_PULUMI)


def _split(fields: Tree, goes: Callable[[Path], bool], path: Path = ()) -> tuple[Tree, Tree]:
    """Return the fields that go and the others; a map or item itself goes with the last field in it."""
    taken: dict[str, Tree] = {}
    kept: dict[str, Tree] = {}
    for key, inner in fields.items():
        if key == ".":
            continue
        if inner:
            one, other = _split(inner, goes, (*path, key))
            taken |= {key: one} if one else {}
            kept |= {key: other} if other else {}
        else:
            (taken if goes((*path, key)) else kept)[key] = {}
    if "." in fields:
        (kept if kept or not (taken or goes(path)) else taken)["."] = {}
    return taken, kept


def _union(one: Tree, other: Tree) -> Tree:
    return {
        key: _union(one[key], other[key]) if key in one and key in other else one.get(key, other.get(key))
        for key in [*one, *(key for key in other if key not in one)]
    }
