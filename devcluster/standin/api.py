"""The Kubernetes API over HTTP: discovery, deadlines, bounded retries."""

from __future__ import annotations

import asyncio
import dataclasses
import json
from collections.abc import Mapping
from typing import Any, Final

import httpx

from devcluster.standin import kubeconfig
from devcluster.standin.decisions import kinds
from devcluster.standin.decisions.kinds import Kind, Manifest

DEADLINE_SECONDS: Final = 30.0
_CONNECT_SECONDS: Final = 5.0
_RETRY_WAITS_SECONDS: Final = (0.2, 0.5, 1.0, 2.0)
_BUSY: Final = frozenset({429, 503, 504})
_AT_ONCE: Final = 16

APPLY: Final = "application/apply-patch+yaml"
JSON_PATCH: Final = "application/json-patch+json"


class Unreachable(Exception):
    """The API server did not answer."""


class ApiError(Exception):
    """The API server answered with an error, told in its own words."""

    def __init__(self, code: int, status: Mapping[str, Any]) -> None:
        """Stores the Status object that the API server sent."""
        super().__init__(str(status.get("message") or f"HTTP status {code}"))
        self.code = code
        self.reason = str(status.get("reason", ""))
        self.details: Mapping[str, Any] = status.get("details") or {}

    @property
    def namespace_missing(self) -> bool:
        """Return whether the missing thing is the object's namespace."""
        return self.code == 404 and self.details.get("kind") == "namespaces"


class KindMissing(Exception):
    """The API server does not have the kind."""

    def __init__(self, kind: Kind) -> None:
        """Names the kind in words that `kubectl` users know."""
        super().__init__(f'no matches for kind "{kind.name}" in version "{kind.api_version}"')
        self.kind = kind


@dataclasses.dataclass(frozen=True, slots=True)
class Resource:
    """The API's resource of a kind."""

    plural: str
    namespaced: bool


class Api:
    """One API server. All calls may run at once; each has a deadline."""

    def __init__(self, connection: kubeconfig.Connection, user_agent: str) -> None:
        """Opens nothing yet.

        Args:
            connection: where, and as whom.
            user_agent: what the audit log shall show.
        """
        self._client = httpx.AsyncClient(
            base_url=connection.server,
            verify=connection.tls,
            headers={**connection.headers, "User-Agent": user_agent, "Accept": "application/json"},
            timeout=httpx.Timeout(DEADLINE_SECONDS, connect=_CONNECT_SECONDS),
            limits=httpx.Limits(max_connections=_AT_ONCE, max_keepalive_connections=_AT_ONCE),
            trust_env=False,
        )
        self._server = connection.server
        self._resources: dict[str, dict[str, Resource]] = {}
        self._asking: dict[str, asyncio.Lock] = {}

    async def close(self) -> None:
        """Closes the connections."""
        await self._client.aclose()

    async def request(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        body: Any = None,
        content_type: str = "application/json",
        deadline_seconds: float = DEADLINE_SECONDS,
    ) -> Any:
        """Call the API, again while the server cannot be reached or is too busy, if the call may be repeated.

        Args:
            method: the HTTP method. A POST is repeated only when it never reached the server.
            path: from the root, without the query.
            query: its parameters.
            body: sent as JSON.
            content_type: of the body.
            deadline_seconds: for each attempt.

        Returns:
            The answer's JSON, or its text when it is none.

        Raises:
            ApiError: the server refused.
            Unreachable: no attempt was answered.
        """
        content = None if body is None else json.dumps(body).encode()
        headers = {} if body is None else {"Content-Type": content_type}
        for wait_seconds in (*_RETRY_WAITS_SECONDS, None):
            try:
                async with asyncio.timeout(deadline_seconds):
                    answer = await self._client.request(method, path, params=query, content=content, headers=headers)
            except (httpx.TransportError, TimeoutError) as error:
                may_repeat = method != "POST" or isinstance(error, httpx.ConnectError | httpx.ConnectTimeout)
                if wait_seconds is None or not may_repeat:
                    raise Unreachable(_told(error, self._server, deadline_seconds)) from error
            else:
                if answer.status_code not in _BUSY or wait_seconds is None:
                    return _content(answer)
            await asyncio.sleep(wait_seconds)  # A busy server, or one that starts, tells nobody.
        raise AssertionError("the last attempt returns or raises")

    async def probe(self) -> None:
        """One quick check that the server answers.

        Raises:
            Unreachable: nobody does.
            ApiError: our credentials are refused.
        """
        try:
            async with asyncio.timeout(_CONNECT_SECONDS):
                answer = await self._client.get("/version")
        except (httpx.TransportError, TimeoutError) as error:
            raise Unreachable(_told(error, self._server, _CONNECT_SECONDS)) from error
        _content(answer)

    async def resource(self, kind: Kind) -> Resource:
        """Return the API's resource of a kind; each group and version is asked for once.

        Raises:
            KindMissing: the API server has no such kind.
        """
        known = self._resources.get(kind.api_version, {}).get(kind.name)
        if known is not None:
            return known
        async with self._asking.setdefault(kind.api_version, asyncio.Lock()):
            if kind.name not in self._resources.get(kind.api_version, {}):
                self._resources[kind.api_version] = await self._discover(kind)
        try:
            return self._resources[kind.api_version][kind.name]
        except KeyError:
            raise KindMissing(kind) from None

    async def _discover(self, kind: Kind) -> dict[str, Resource]:
        try:
            listing = await self.request("GET", _root(kind))
        except ApiError as error:
            if error.code == 404:
                raise KindMissing(kind) from error
            raise
        return {
            entry["kind"]: Resource(entry["name"], entry["namespaced"])
            for entry in listing.get("resources", [])
            if "/" not in entry["name"]
        }

    def forget_kinds(self) -> None:
        """Forgets all kinds, since a CustomResourceDefinition changed."""
        self._resources.clear()

    async def path(self, kind: Kind, namespace: str, name: str = "") -> str:
        """Return the path of an object, or of a collection when `name` is empty.

        Raises:
            KindMissing: the API has no such kind.
        """
        resource = await self.resource(kind)
        middle = f"/namespaces/{namespace or 'default'}" if resource.namespaced else ""
        return f"{_root(kind)}{middle}/{resource.plural}" + (f"/{name}" if name else "")

    async def get(self, manifest: Manifest) -> Manifest:
        """Return the live object.

        Raises:
            ApiError: code 404 when it is not there.
        """
        path = await self.path(kinds.of(manifest), kinds.namespace_of(manifest), kinds.name_of(manifest))
        live: Manifest = await self.request("GET", path)
        return live

    async def items(self, kind: Kind, namespace: str, query: Mapping[str, str] | None = None) -> list[Manifest]:
        """Return the objects of a kind in one namespace."""
        listing = await self.request("GET", await self.path(kind, namespace), query=query)
        return [{"apiVersion": kind.api_version, "kind": kind.name, **item} for item in listing.get("items") or []]


def _root(kind: Kind) -> str:
    return f"/apis/{kind.group}/{kind.version}" if kind.group else f"/api/{kind.version}"


def _told(error: Exception, server: str, deadline_seconds: float) -> str:
    if isinstance(error, TimeoutError | httpx.TimeoutException):
        return f"the Kubernetes API server at {server} did not answer within {deadline_seconds:g} s"
    return f"the Kubernetes API server at {server} cannot be reached: {error}"


def _content(answer: httpx.Response) -> Any:
    try:
        content = answer.json()
    except ValueError:
        content = answer.text
    if answer.is_success:
        return content
    raise ApiError(answer.status_code, content if isinstance(content, dict) else {"message": answer.text[:500]})
