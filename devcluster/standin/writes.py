"""Creates, updates and deletes objects the way the official provider does."""

from __future__ import annotations

import asyncio
import dataclasses
import secrets
from collections.abc import Awaitable, Callable
from typing import Final

from devcluster.standin import api
from devcluster.standin.decisions import kinds, ownership
from devcluster.standin.decisions.kinds import Manifest
from devcluster.standin.settings import Settings

_CREATE_WAITS_SECONDS: Final = (1.0, 2.0, 4.0, 8.0)
_TAKE_OVER_TRIES: Final = 5
_EXISTS: Final = (
    "\n\nThe resource already exists in the cluster. Give a renamed Pulumi resource an alias, use `pulumi import` to "
    "adopt the object, or set upsertExistingObjects on the provider to update existing objects on create."
)


@dataclasses.dataclass(frozen=True, slots=True)
class Writer:
    """Context of one resource's writes.

    Attributes:
        api: the API server.
        settings: the provider's arguments.
        manager: the field manager to apply under.
        preview: whether to ask for the result without storing it.
    """

    api: api.Api
    settings: Settings
    manager: str
    preview: bool

    def _query(self, manager: str, **more: str) -> dict[str, str]:
        query = {"fieldManager": manager, "fieldValidation": "Strict", **more}
        return {**query, "dryRun": "All"} if self.preview else query

    async def _fitted(self, manifest: Manifest) -> Manifest:
        # Without its CustomResourceDefinition, a cluster-scoped object was taken for a namespaced one.
        if not kinds.namespace_of(manifest) or (await self.api.resource(kinds.of(manifest))).namespaced:
            return manifest
        metadata = {key: value for key, value in manifest["metadata"].items() if key != "namespace"}
        return {**manifest, "metadata": metadata}

    async def _apply(self, manifest: Manifest, live: Manifest | None) -> Manifest:
        path = await self.api.path(kinds.of(manifest), kinds.namespace_of(manifest), kinds.name_of(manifest))
        force = ownership.forced(manifest, live, self.preview)
        query = self._query(self.manager, force=str(force).lower())
        try:
            applied: Manifest = await self.api.request(
                "PATCH", path, query=query, body=manifest, content_type=api.APPLY
            )
        except api.ApiError as error:
            raise _told_conflict(error, self.manager) from error
        return applied

    async def create(self, manifest: Manifest, tell: Callable[[str], Awaitable[None]]) -> Manifest:
        """Makes a new object; with `upsertExistingObjects` an existing one is applied over.

        A missing namespace or kind is tried for again for some seconds, since another resource may be making it.

        Args:
            manifest: what to create.
            tell: gets a line before each new try.

        Returns:
            The object as the API server stored it, or would store it.

        Raises:
            api.ApiError: it was refused.
            api.KindMissing: the API server does not have the kind.
        """
        waits = () if self.preview else _CREATE_WAITS_SECONDS
        for number, wait_seconds in enumerate((*waits, None)):
            try:
                return await self._create_once(manifest)
            except (api.KindMissing, api.ApiError) as error:
                if wait_seconds is None or (isinstance(error, api.ApiError) and error.code != 404):
                    raise
                await tell(f"Retry #{number}; creation failed: {error}")
                self.api.forget_kinds()
            await asyncio.sleep(wait_seconds)  # The API server tells nobody when a kind is served.
        raise AssertionError("the last try returns or raises")

    async def _create_once(self, manifest: Manifest) -> Manifest:
        manifest = await self._fitted(manifest)
        if self.settings.upsert_existing_objects:
            try:
                return await self._apply(manifest, None)
            except api.ApiError as error:
                if not (self.preview and error.code == 422 and "field is immutable" in str(error)):
                    raise
                return await self._preview_under_another_name(manifest)
        path = await self.api.path(kinds.of(manifest), kinds.namespace_of(manifest))
        try:
            created: Manifest = await self.api.request(
                "POST", path, query=self._query(ownership.CLIENT_SIDE), body=manifest
            )
        except api.ApiError as error:
            if error.reason == "AlreadyExists":
                raise api.ApiError(
                    error.code, {"message": f"{error}{_EXISTS}", "reason": error.reason, "details": error.details}
                ) from error
            raise
        return created

    async def _preview_under_another_name(self, manifest: Manifest) -> Manifest:
        # The old object still exists and cannot become the new one, so the new one is created beside it.
        name = kinds.name_of(manifest)
        beside = {**manifest, "metadata": {**manifest["metadata"], "name": f"{name}-{secrets.token_hex(3)}"}}
        result = await self._apply(beside, None)
        result["metadata"]["name"] = name
        return result

    async def update(self, manifest: Manifest, live_name: str) -> tuple[Manifest, Manifest]:
        """Brings an existing object to its new inputs.

        Args:
            manifest: the new inputs.
            live_name: the name that the object has.

        Returns:
            The object before and after.

        Raises:
            api.ApiError: it was refused, or is not there (code 404).
        """
        target = await self._fitted({**manifest, "metadata": {**kinds.metadata_of(manifest), "name": live_name}})
        live = await self.api.get(target)
        path = await self.api.path(kinds.of(target), kinds.namespace_of(target), live_name)
        if target.get("kind") == "CustomResourceDefinition":
            # A PUT, like `kubectl replace`, since a merge of two schemas would be a third one.
            version = live["metadata"]["resourceVersion"]
            body = {**target, "metadata": {**target["metadata"], "resourceVersion": version}}
            return live, await self.api.request("PUT", path, query=self._query(self.manager), body=body)
        if not self.preview:
            live = await self._take_over(path, live)
        return live, await self._apply(target, live)

    async def _take_over(self, path: str, live: Manifest) -> Manifest:
        for _ in range(_TAKE_OVER_TRIES):
            fields = ownership.taken_over(live, self.manager)
            if fields is None:
                return live
            patch = [
                {"op": "replace", "path": "/metadata/managedFields", "value": fields},
                {"op": "replace", "path": "/metadata/resourceVersion", "value": live["metadata"]["resourceVersion"]},
            ]
            try:
                taken: Manifest = await self.api.request("PATCH", path, body=patch, content_type=api.JSON_PATCH)
            except api.ApiError as error:
                if error.code != 409:
                    raise
                live = await self.api.request("GET", path)
            else:
                return taken
        return live

    async def relinquish(self, live: Manifest) -> None:
        """Gives up every field that this manager owns: an apply of nothing but the object's name."""
        metadata = {"name": kinds.name_of(live), "namespace": kinds.namespace_of(live)}
        bare = {
            "apiVersion": live["apiVersion"],
            "kind": live["kind"],
            "metadata": {key: value for key, value in metadata.items() if value},
        }
        await self._apply(bare, live)


async def delete(client: api.Api, manifest: Manifest, inputs: Manifest) -> Manifest | None:
    """Asks for the end of an object.

    Args:
        client: the API server.
        manifest: the object.
        inputs: its declared form, whose annotation chooses the propagation (Foreground unless told).

    Returns:
        The object as it is about to go; None when it is gone already.
    """
    path = await client.path(kinds.of(manifest), kinds.namespace_of(manifest), kinds.name_of(manifest))
    wanted = kinds.annotation(inputs, "deletionPropagationPolicy").lower()
    policy = {"orphan": "Orphan", "background": "Background"}.get(wanted, "Foreground")
    try:
        await client.request("DELETE", path, body={"propagationPolicy": policy})
        return await client.get(manifest)
    except api.ApiError as error:
        if error.code == 404:
            return None
        raise


def _told_conflict(error: api.ApiError, manager: str) -> api.ApiError:
    if error.code != 409 or error.reason != "Conflict":
        return error
    message = (
        'server-side apply field conflict detected; the annotation `pulumi.com/patchForce: "true"` takes the fields '
        f"over.\nThe resource managed by field manager {manager!r} had an apply conflict: {error}"
    )
    return api.ApiError(error.code, {"message": message, "reason": error.reason, "details": error.details})
