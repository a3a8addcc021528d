"""Ownership of an object's fields: decisions about `metadata.managedFields`."""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from typing import Any, Final

from devcluster.standin.decisions import kinds
from devcluster.standin.decisions.kinds import Manifest

CLIENT_SIDE: Final = "pulumi-kubernetes"
"""The manager of objects made by a plain create, as the official provider names it."""

# Their fields become ours with the first update. Otherwise a field dropped from the program would stay for ever.
_TAKEN_OVER: Final = (
    ("kubectl", "Apply"),
    ("kubectl", "Update"),
    ("before-first-apply", "Update"),
    (CLIENT_SIDE, "Update"),
    ("pulumi-resource-kubernetes", "Update"),
)


def manager_name(manifest: Manifest, in_state: str | None) -> str:
    """Return the field manager to apply under: from the annotation, else the one in the state, else a new one."""
    wanted = kinds.annotation(manifest, "patchFieldManager")
    return wanted or in_state or f"{CLIENT_SIDE}-{secrets.token_hex(4)}"


def forced(manifest: Manifest, live: Manifest | None, preview: bool) -> bool:
    """Return whether an apply may take fields from other managers.

    Args:
        manifest: what is applied; the annotation `pulumi.com/patchForce` allows it.
        live: the object as it is; None for a new one.
        preview: then also where the real run would first take over the fields, so that no false conflict shows.
    """
    if kinds.annotation(manifest, "patchForce") == "true":
        return True
    if live is None:
        return preview
    managed = _managed(live)
    return not managed or (preview and any(_taken_over(entry, "Update", CLIENT_SIDE) for entry in managed))


def _managed(live: Manifest) -> list[Mapping[str, Any]]:
    return list(kinds.metadata_of(live).get("managedFields") or [])


def _taken_over(entry: Mapping[str, Any], operation: str, prefix: str) -> bool:
    return (
        entry.get("operation") == operation
        and not entry.get("subresource")
        and str(entry.get("manager", "")).startswith(prefix)
    )


def taken_over(live: Manifest, manager: str) -> list[dict[str, Any]] | None:
    """Return managedFields in which `manager` owns what kubectl and plain creates own; None when nothing changes."""
    ours: dict[str, Any] = {}
    rest: list[dict[str, Any]] = []
    changes = False
    version = kinds.of(live).api_version
    time = None
    for entry in _managed(live):
        if entry.get("manager") == manager and entry.get("operation") == "Apply" and not entry.get("subresource"):
            ours = union(ours, entry.get("fieldsV1") or {})
            time = entry.get("time")
        elif any(_taken_over(entry, operation, prefix) for prefix, operation in _TAKEN_OVER):
            changes = True
            ours = union(ours, entry.get("fieldsV1") or {})
            time = time or entry.get("time")
        else:
            rest.append(dict(entry))
    if not changes:
        return None
    mine = {
        "manager": manager,
        "operation": "Apply",
        "apiVersion": version,
        "time": time,
        "fieldsType": "FieldsV1",
        "fieldsV1": ours,
    }
    return [mine, *rest]


def union(one: Mapping[str, Any], other: Mapping[str, Any]) -> dict[str, Any]:
    """Return the union of two field sets in the `fieldsV1` form: nested maps of field names."""
    result = dict(one)
    for key, inner in other.items():
        result[key] = union(result[key], inner) if key in result else inner
    return result
