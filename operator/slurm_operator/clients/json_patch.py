"""JSON patches (RFC 6902), whose tests are preconditions about a part of an object."""

from __future__ import annotations

from collections.abc import Sequence

import httpx

from slurm_operator.clients.kubernetes import KubernetesApi, KubernetesError, Object


def as_seen(body: Object, *paths: str) -> list[Object]:
    """Return tests that parts of an object are as they were seen; null stands for a missing one."""
    return [{"op": "test", "path": path, "value": _part(body, path)} for path in paths]


def escaped(key: str) -> str:
    """Return a key as a path has it."""
    return key.replace("~", "~0").replace("/", "~1")


async def patch(api: KubernetesApi, group: str, plural: str, name: str, operations: Sequence[Object]) -> None:
    """Apply a JSON patch to an object.

    Raises:
        KubernetesError: 409 if one of its tests fails.
    """
    try:
        await api.patch(group, plural, name, operations)
    except KubernetesError as error:
        if error.status != httpx.codes.UNPROCESSABLE_ENTITY:
            raise
        raise KubernetesError(httpx.codes.CONFLICT, str(error)) from error


def _part(body: Object, path: str) -> object:
    part: object = body
    for key in path.split("/")[1:]:
        part = part.get(key) if isinstance(part, dict) else None
    return part
