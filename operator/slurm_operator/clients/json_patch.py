"""Parts of JSON patches (RFC 6902), whose tests are preconditions about a part of an object."""

from __future__ import annotations

from slurm_operator.clients.kubernetes import Object


def as_seen(body: Object, *paths: str) -> list[Object]:
    """Return tests that parts of an object are as they were seen; null stands for a missing one."""
    return [{"op": "test", "path": path, "value": _part(body, path)} for path in paths]


def escaped(key: str) -> str:
    """Return a key as a path has it."""
    return key.replace("~", "~0").replace("/", "~1")


def _part(body: Object, path: str) -> object:
    part: object = body
    for key in path.split("/")[1:]:
        part = part.get(key) if isinstance(part, dict) else None
    return part
