"""A thin client of the API server: the few verbs that the operator needs, each with a deadline.

httpx is here anyway for slurmrestd, and the operator treats objects as the JSON they are, so a typed client library
would bring models of all of Kubernetes for seven calls.
"""

from __future__ import annotations

import json
from typing import Any

import httpx

from slurm_operator import names
from slurm_operator.access import Access

Object = dict[str, Any]
DEADLINE_SECONDS = 5.0
_MANAGER = {"fieldManager": names.FIELD_MANAGER}
_APPLY = {"Content-Type": "application/apply-patch+yaml"}


class KubernetesError(Exception):
    """The API server could not be reached or refused; `status` is its HTTP status, 0 if there was no answer."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


class KubernetesApi:
    """The objects of one namespace."""

    def __init__(self, access: Access, namespace: str) -> None:
        self._access = access
        self._namespace = namespace
        self._client = httpx.AsyncClient(
            base_url=access.server, verify=access.tls(), timeout=DEADLINE_SECONDS, trust_env=False
        )

    async def close(self) -> None:
        """Close the connections."""
        await self._client.aclose()

    async def list(self, api: str, plural: str, selector: str = "") -> list[Object]:
        """List objects, by labels if a selector is given."""
        answer = await self._call("GET", self._path(api, plural), params={"labelSelector": selector})
        items: list[Object] = answer["items"]
        return items

    async def get(self, api: str, plural: str, name: str) -> Object | None:
        """Return an object, None if it does not exist."""
        try:
            return await self._call("GET", self._path(api, plural, name))
        except KubernetesError as error:
            if error.status == httpx.codes.NOT_FOUND:
                return None
            raise

    async def create(self, api: str, plural: str, body: Object) -> Object:
        """Create an object; it exists already: KubernetesError 409."""
        return await self._call("POST", self._path(api, plural), body, params=_MANAGER)

    async def replace(self, api: str, plural: str, body: Object) -> Object:
        """Replace an object; its resourceVersion is no longer the one given: KubernetesError 409."""
        return await self._call("PUT", self._path(api, plural, body["metadata"]["name"]), body, params=_MANAGER)

    async def apply(self, api: str, plural: str, body: Object, subresource: str = "") -> Object:
        """Server-side apply the fields of `body` as ours; a resourceVersion in it that is not the current one: 409."""
        path = self._path(api, plural, body["metadata"]["name"]) + (f"/{subresource}" if subresource else "")
        return await self._call("PATCH", path, body, params={**_MANAGER, "force": "true"}, headers=_APPLY)

    async def delete(self, api: str, plural: str, name: str, resource_version: str) -> None:
        """Delete an object and then what it owns; it is gone already: nothing; it is no longer as it was seen: 409."""
        options = {"propagationPolicy": "Background", "preconditions": {"resourceVersion": resource_version}}
        try:
            await self._call("DELETE", self._path(api, plural, name), options)
        except KubernetesError as error:
            if error.status != httpx.codes.NOT_FOUND:
                raise

    async def log(self, pod: str, lines: int) -> str:
        """Return the last lines of a pod's log."""
        path = f"{self._path('v1', 'pods', pod)}/log"
        answer = await self._request("GET", path, None, {"tailLines": str(lines)}, {})
        if answer.is_error:
            raise KubernetesError(answer.status_code, f"GET {path}: {answer.text[:200]}")
        return answer.text

    def _path(self, api: str, plural: str, name: str = "") -> str:
        prefix = f"/apis/{api}" if "/" in api else f"/api/{api}"
        return f"{prefix}/namespaces/{self._namespace}/{plural}" + (f"/{name}" if name else "")

    async def _call(
        self,
        method: str,
        path: str,
        body: Object | None = None,
        *,
        params: dict[str, str] | None = None,
        headers: dict[str, str] | None = None,
    ) -> Object:
        content = json.dumps(body) if body is not None else None
        answer = await self._request(
            method, path, content, params, {"Content-Type": "application/json"} | (headers or {})
        )
        try:
            parsed = answer.json()
        except ValueError as error:
            raise KubernetesError(0, f"{method} {path}: {type(error).__name__} {error}".rstrip()) from error
        if answer.is_error:
            raise KubernetesError(answer.status_code, f"{method} {path}: {parsed.get('message', answer.status_code)}")
        if not isinstance(parsed, dict):
            raise KubernetesError(0, f"{method} {path}: the answer is no object")
        return parsed

    async def _request(
        self, method: str, path: str, content: str | None, params: dict[str, str] | None, headers: dict[str, str]
    ) -> httpx.Response:
        bearer = self._access.bearer()
        all_headers = headers | ({"Authorization": f"Bearer {bearer}"} if bearer else {})
        try:
            return await self._client.request(method, path, content=content, params=params, headers=all_headers)
        except httpx.HTTPError as error:
            raise KubernetesError(0, f"{method} {path}: {type(error).__name__} {error}".rstrip()) from error
