"""Restores one declared object: the body to apply, the fields that others added, and what is told of it.

The API server itself tells whether an object has drifted: an apply of the declared fields changes nothing if nothing
has. An apply leaves alone the fields that others added. Where Pulumi owns everything, these are then removed one by
one. The owners of fields before and after tell what had drifted.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import re
from collections.abc import Iterable, Mapping
from typing import Any

from slurm_operator.decide.cluster import ownership
from slurm_operator.findings import shown

Object = Mapping[str, Any]
Key = tuple[str, str]
"""Kind and name."""

CLAIM = "PersistentVolumeClaim"
_LABELS = ("f:metadata", "f:labels")
_ALL_OURS = (("f:data",), ("f:binaryData",), ("f:spec",))
"""Places where a field of another owner is drift. Annotations are none: controllers keep their notes there."""
_REPLICAS = ("f:spec", "f:replicas")
_IMMUTABLE = "f:immutable"


@dataclasses.dataclass(frozen=True, slots=True)
class Check:
    """Apply an object; `before` is its observed state, None if it is missing."""

    declared: Object
    before: Object | None

    @property
    def key(self) -> Key:
        """Return its kind and name."""
        return self.declared["kind"], self.declared["metadata"]["name"]


def body(check: Check) -> dict[str, Any]:
    """Return the body to apply: the declared fields, on the very object that was seen.

    It names the uid, so that the API server refuses it if the object was deleted meanwhile. With the resourceVersion
    alone, the apply would create the object anew: a StatefulSet of one pod, for example, whose other pods would end.

    Only the size of a claim can be changed, and an administrator may have raised it. So its spec is sent as it stands.
    """
    declared = dict(check.declared)
    if check.before is not None:
        declared["metadata"] = {**declared["metadata"], **identity(check.before)}
        if declared["kind"] == CLAIM:
            declared["spec"] = {
                key: check.before["spec"][key] for key in declared["spec"] if key in check.before["spec"]
            }
    return declared


def identity(live: Object) -> dict[str, str]:
    """Return the metadata that binds a change to the object that was seen: the API server refuses it for another."""
    return {key: live["metadata"][key] for key in ("name", "uid", "resourceVersion")}


def sized_by_operator(declared: Object) -> bool:
    """Return whether the operator sets the size of a StatefulSet. A new one then gets the size of its pods."""
    return bool(declared["kind"] == "StatefulSet" and "replicas" not in declared["spec"])


def size_of(stateful_set: str, pods: Iterable[str]) -> int:
    """Return the smallest size of a StatefulSet that deletes none of its pods."""
    matches = [re.fullmatch(re.escape(stateful_set) + r"-(\d+)", name) for name in pods]
    return max((int(match.group(1)) + 1 for match in matches if match), default=0)


def gives_back(live: Object) -> bool:
    """Return whether the operator owns more of a StatefulSet than its size, as after it has made it."""
    return any(path != _REPLICAS for path in ownership.leaves(ownership.operators(live)))


def surplus(live: Object) -> list[ownership.Path]:
    """Return the fields that others added where Pulumi owns everything."""
    return _surplus(live, ownership.declared(live))


def _surplus(live: Object, ours: ownership.Tree) -> list[ownership.Path]:
    roots = (_LABELS,) if live["kind"] == CLAIM else (*_ALL_OURS, _LABELS)
    by_path = {
        path
        for _, fields in ownership.foreign(live)
        for root in roots
        for path in ownership.lacking(ownership.within(fields, root), ownership.within(ours, root), root)
    }
    frozen = any(_IMMUTABLE in fields for _, fields in ownership.foreign(live)) and _IMMUTABLE not in ours
    return sorted(by_path - {_REPLICAS}) + ([(_IMMUTABLE,)] if frozen else [])


def is_unowned(live: Object) -> bool:
    """Return whether somebody removed `managedFields`, so that no field has a known owner."""
    return not live["metadata"].get("managedFields")


def handing_over(live: Object) -> dict[str, Any] | None:
    """Return a merge patch that gives the fields of others to Pulumi, on the object that was seen; None without any.

    An apply under Pulumi's name then removes what is not declared and restores what is, in one request. In two, an
    object of neither state would have to be valid: a Service with two ports of one nodePort, or with no port.
    The size of a set and annotations stay with whoever wrote them: what is Pulumi's and not declared would go.
    """
    paths = surplus(live)
    if not paths:
        return None

    def goes(field: ownership.Path) -> bool:
        added = any(field[: len(path)] == path for path in paths)
        return added and field != _REPLICAS and "f:annotations" not in field

    return {"metadata": {**identity(live), "managedFields": ownership.handed_over(live, goes)}}


def describe(before: Object | None, after: Object) -> str:
    """Return what was restored, without values; empty if nothing was.

    Args:
        before: the object as it was, None if it was missing.
        after: as it is now.
    """
    name = title((after["kind"], after["metadata"]["name"]))
    if before is None:
        return f"restored {name}, which was deleted"
    if fingerprint(before) == fingerprint(after):
        return ""
    held, holds = ownership.declared(before), ownership.declared(after)
    restored = [path for path in ownership.leaves(holds) if not ownership.has(held, path)]
    paths = [*restored, *_surplus(before, holds)]
    if not paths:
        return f"restored {name}, which was changed under the name of Pulumi"
    rows = [f"{ownership.text(path)} ({_by(before, path)})" for path in paths]
    return f"restored {name}: {shown(rows, 8)}"


def fingerprint(live: Object) -> str:
    """Return a hash of an object without its status and its writers."""
    hidden = ("resourceVersion", "managedFields", "generation")
    metadata = {key: value for key, value in live["metadata"].items() if key not in hidden}
    content = {key: value for key, value in live.items() if key not in ("status", "metadata", "apiVersion", "kind")}
    return hashlib.sha256(json.dumps([metadata, content], sort_keys=True).encode()).hexdigest()


def _by(before: Object, path: ownership.Path) -> str:
    managers = ownership.writers(before, path)
    return f"by {', '.join(managers)}" if managers else "removed, nobody is noted"


def title(key: Key) -> str:
    """Return how an object is named in messages."""
    return f"{key[0]} {key[1]}"
