"""A thin client of the API server: the few verbs that the operator needs, each with a deadline.

httpx is here anyway for slurmrestd, and the operator treats objects as the JSON that they are. A typed client library
would bring models of all of Kubernetes for seven calls.
"""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

import httpx
import kopf
import msgspec

from contract import names
from slurm_operator.clients import access

Object = dict[str, Any]
DEADLINE_SECONDS = 5.0
"""Deadline of every other call, from its beginning to its answer. The lease relies on it (lease.py)."""
LISTING_SECONDS = 30.0
"""Deadline of one page of a listing, which may be long and changes nothing."""
PAGE = 100
"""Objects of one page. httpx holds a page twice in memory, and one Kubernetes node may have 40 KB."""
WATCH_SECONDS = 240
SILENCE_SECONDS = 150.0
"""A watch that says nothing for so long is broken: bookmarks come about once a minute."""
_KEEPALIVE = (
    (socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1),
    (socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, 10),
    (socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, 5),
    (socket.IPPROTO_TCP, socket.TCP_KEEPCNT, 3),
)
"""These options end a watch 25 s after its peer vanished without a word. Until then the watch misses events."""
_MANAGER = {"fieldManager": names.OPERATOR_FIELD_MANAGER}
_APPLY = "application/apply-patch+yaml"
_MERGE_PATCH = "application/merge-patch+json"
_JSON_PATCH = "application/json-patch+json"
_T = TypeVar("_T")


class _ListMeta(msgspec.Struct):
    version: str = msgspec.field(name="resourceVersion")
    following: str = msgspec.field(name="continue", default="")


class _Page(msgspec.Struct):
    """A page whose items are not decoded yet: thousands of objects at once would take ten times their JSON."""

    metadata: _ListMeta
    items: list[msgspec.Raw]


def whole(live: Object) -> Object:
    """Read an object as all that it is."""
    return live


class KubernetesError(Exception):
    """The API server could not be reached or refused; `status` is its HTTP status, 0 if there was no answer."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


class KubernetesApi:
    """The objects of one namespace, and Kubernetes' nodes.

    Attributes:
        written: called with each object as it is after a write of ours.
        instance: name of this process's pod, which its Events carry.
    """

    instance = names.OPERATOR_FIELD_MANAGER

    def __init__(self, find: Callable[[], kopf.ConnectionInfo], namespace: str, instance: str = "") -> None:
        self.written: list[Callable[[Object], None]] = []
        self.instance = instance or self.instance
        self._find = find
        self._namespace = namespace
        info = find()
        transport = httpx.AsyncHTTPTransport(verify=access.tls(info), socket_options=_KEEPALIVE)
        self._client = httpx.AsyncClient(
            base_url=info.server, transport=transport, timeout=DEADLINE_SECONDS, trust_env=False
        )

    async def close(self) -> None:
        """Close the connections."""
        await self._client.aclose()

    async def list(self, api: str, plural: str, selector: str = "") -> list[Object]:
        """List objects, by labels if a selector is given."""
        return [*await self.list_as(whole, api, plural, selector)]

    async def list_as(self, read: Callable[[Object], _T], api: str, plural: str, selector: str = "") -> Sequence[_T]:
        """List what is read of objects, by labels if a selector is given."""
        pages = self.pages(api, plural, {"labelSelector": selector})
        return [read(item) async for _, items in pages for item in items]

    async def pages(self, api: str, plural: str, params: dict[str, str]) -> AsyncIterator[tuple[str, Iterator[Object]]]:
        """List objects a page at a time: the version of the list, from which to watch, and the page's objects.

        Raises:
            KubernetesError: no answer, or the list became too old between two pages (410).
        """
        path, following = self._path(api, plural), ""
        while True:
            asked = {**params, "limit": str(PAGE), **({"continue": following} if following else {})}
            page = await self._call_as(_Page, "GET", path, params=asked, seconds=LISTING_SECONDS)
            yield page.metadata.version, map(msgspec.json.decode, page.items)
            following = page.metadata.following
            if not following:
                return

    async def watch(self, api: str, plural: str, params: dict[str, str]) -> AsyncIterator[tuple[str, Object]]:
        """Yield changes (ADDED, MODIFIED, DELETED or BOOKMARK, and the object) for some minutes.

        Raises:
            KubernetesError: the connection broke, or the version to watch from is too old: list again.
        """
        path = self._path(api, plural)
        asked = {**params, "watch": "true", "timeoutSeconds": str(WATCH_SECONDS), "allowWatchBookmarks": "true"}
        deadline = httpx.Timeout(DEADLINE_SECONDS, read=SILENCE_SECONDS)
        try:
            async with self._client.stream(
                "GET", path, params=asked, headers=self._headers(), timeout=deadline
            ) as answer:
                if answer.is_error:
                    raise KubernetesError(answer.status_code, f"watch {path}: {answer.status_code}")
                async for line in answer.aiter_lines():
                    change = msgspec.json.decode(line)
                    if change["type"] == "ERROR":
                        raise KubernetesError(0, f"watch {path}: {change['object'].get('message', '')}")
                    yield change["type"], change["object"]
        except (httpx.HTTPError, msgspec.DecodeError) as error:
            raise KubernetesError(0, f"watch {path}: {type(error).__name__} {error}".rstrip()) from error

    async def get(self, api: str, plural: str, name: str) -> Object | None:
        """Return an object, None if it does not exist."""
        try:
            return await self._call("GET", self._path(api, plural, name))
        except KubernetesError as error:
            if error.status == httpx.codes.NOT_FOUND:
                return None
            raise

    async def get_latest(self, api: str, plural: str, name: str) -> Object | None:
        """Return an object, None if it does not exist: no answer of the API server is old."""
        return await self.get(api, plural, name)

    async def create(self, api: str, plural: str, body: Object) -> Object:
        """Create an object. If it exists already, the answer is KubernetesError 409."""
        return await self._call("POST", self._path(api, plural), body, params=_MANAGER)

    async def would_be_created(self, api: str, plural: str, body: Mapping[str, Any]) -> bool:
        """Return whether the API server accepts the object in a dry run, or refuses only its name as taken.

        Any other refusal means that the object itself is not valid.
        """
        try:
            await self._call("POST", self._path(api, plural), body, params={**_MANAGER, "dryRun": "All"})
        except KubernetesError as error:
            return error.status == httpx.codes.CONFLICT
        return True

    async def replace(self, api: str, plural: str, body: Object) -> Object:
        """Replace an object. If it has another resourceVersion by now, the answer is KubernetesError 409."""
        return await self._call("PUT", self._path(api, plural, body["metadata"]["name"]), body, params=_MANAGER)

    async def apply(
        self, api: str, plural: str, body: Object, subresource: str = "", manager: str = names.OPERATOR_FIELD_MANAGER
    ) -> Object:
        """Server-side apply the fields of `body`. If its resourceVersion is old, the answer is KubernetesError 409."""
        path = self._path(api, plural, body["metadata"]["name"]) + (f"/{subresource}" if subresource else "")
        return await self._call("PATCH", path, body, params={"fieldManager": manager, "force": "true"}, kind=_APPLY)

    async def patch(self, api: str, plural: str, name: str, operations: Sequence[Object]) -> Object:
        """Apply a JSON patch. If one of its tests fails, the answer is KubernetesError 422."""
        return await self._call("PATCH", self._path(api, plural, name), operations, params=_MANAGER, kind=_JSON_PATCH)

    async def merge(self, api: str, plural: str, name: str, change: Object) -> Object:
        """Merge a change into an object. If its resourceVersion is old, the answer is KubernetesError 409."""
        return await self._call("PATCH", self._path(api, plural, name), change, params=_MANAGER, kind=_MERGE_PATCH)

    async def delete(
        self, api: str, plural: str, name: str, preconditions: Mapping[str, str], *, orphan: bool = False
    ) -> bool:
        """Delete an object, and then what it owns. If a precondition does not hold, the answer is KubernetesError 409.

        Args:
            api: API group and version.
            plural: the kind, as in URLs.
            name: name of the object.
            preconditions: `uid`, or also `resourceVersion`, which every change of the object changes.
            orphan: leave what it owns.

        Returns:
            True if the object existed.
        """
        policy = "Orphan" if orphan else "Background"
        options = {"propagationPolicy": policy, "preconditions": dict(preconditions)}
        try:
            await self._call("DELETE", self._path(api, plural, name), options)
        except KubernetesError as error:
            if error.status != httpx.codes.NOT_FOUND:
                raise
            return False
        return True

    async def log(self, pod: str, lines: int) -> str:
        """Return the last lines of a pod's log."""
        path = f"{self._path('v1', 'pods', pod)}/log"
        answer = await self._request("GET", path, None, {"tailLines": str(lines)})
        if answer.is_error:
            raise KubernetesError(answer.status_code, f"GET {path}: {answer.text[:200]}")
        return answer.text

    def _path(self, api: str, plural: str, name: str = "") -> str:
        prefix = f"/apis/{api}" if "/" in api else f"/api/{api}"
        if plural != "nodes":
            prefix += f"/namespaces/{self._namespace}"
        return f"{prefix}/{plural}" + (f"/{name}" if name else "")

    async def _call(
        self,
        method: str,
        path: str,
        body: Mapping[str, Any] | Sequence[Object] | None = None,
        *,
        params: dict[str, str] | None = None,
        kind: str = "application/json",
    ) -> Object:
        parsed = await self._call_as(Object, method, path, body, params=params, kind=kind)
        if method in ("POST", "PUT", "PATCH") and "dryRun" not in (params or {}):
            for tell in self.written:
                tell(parsed)
        return parsed

    async def _call_as(
        self,
        shape: type[_T],
        method: str,
        path: str,
        body: Mapping[str, Any] | Sequence[Object] | None = None,
        *,
        params: dict[str, str] | None = None,
        kind: str = "application/json",
        seconds: float | None = None,
    ) -> _T:
        content = json.dumps(body) if body is not None else None
        answer = await self._request(method, path, content, params, kind, seconds)
        try:
            if answer.is_error:
                words = msgspec.json.decode(answer.content, type=Object).get("message", answer.status_code)
                raise KubernetesError(answer.status_code, f"{method} {path}: {words}")
            return msgspec.json.decode(answer.content, type=shape)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise KubernetesError(0, f"{method} {path}: {type(error).__name__} {error}".rstrip()) from error

    async def _request(
        self,
        method: str,
        path: str,
        content: str | None,
        params: dict[str, str] | None,
        kind: str = "",
        seconds: float | None = None,
    ) -> httpx.Response:
        try:
            # httpx limits each read; the lease is safe only if the whole has a limit, however slowly bytes come.
            async with asyncio.timeout(DEADLINE_SECONDS if seconds is None else seconds):
                headers = self._headers(kind)
                return await self._client.request(method, path, content=content, params=params, headers=headers)
        except (httpx.HTTPError, TimeoutError) as error:
            raise KubernetesError(0, f"{method} {path}: {type(error).__name__} {error}".rstrip()) from error

    def _headers(self, kind: str = "") -> dict[str, str]:
        token = self._find().token
        return ({"Content-Type": kind} if kind else {}) | ({"Authorization": f"Bearer {token}"} if token else {})
