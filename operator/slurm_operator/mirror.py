"""Declared kinds as the API server holds them now, kept fresh by watches: to see an edit costs no polling."""

from __future__ import annotations

import asyncio
import dataclasses
import logging
from collections.abc import Callable, Iterable
from typing import Any

import httpx

from slurm_operator.decisions.drift import Key, fingerprint
from slurm_operator.kubernetes_api import KubernetesApi, KubernetesError, Object

log = logging.getLogger(__name__)

_RETRY_SECONDS = 1.0
_FORBIDDEN_RETRY_SECONDS = 10.0


@dataclasses.dataclass(frozen=True, slots=True)
class Watch:
    """A kind of the namespace, or one object of it, where the Role grants no more."""

    api: str
    kind: str
    name: str = ""


def plural(kind: str) -> str:
    """A kind as URLs have it; holds for every kind that the program declares."""
    word = kind.lower()
    return f"{word[:-1]}ies" if word.endswith("y") else f"{word}s"


class Mirror:
    """What the watches have shown.

    Attributes:
        broken: why a watch does not work now.
    """

    def __init__(
        self, api: KubernetesApi, changed: Callable[[], None], shape: Callable[[Object], Object] = lambda live: live
    ) -> None:
        """Begin with no watches.

        Args:
            api: the API server.
            changed: called when an object came, went, or says something else.
            shape: what to keep of an object.
        """
        self.broken: dict[Watch, str] = {}
        self._api = api
        self._changed = changed
        self._shape = shape
        self._tasks: dict[Watch, asyncio.Task[None]] = {}
        self._objects: dict[Watch, dict[str, Object]] = {}

    def follow(self, watches: Iterable[Watch]) -> None:
        """Watch these, and nothing else."""
        wanted = set(watches)
        for gone in self._tasks.keys() - wanted:
            self._tasks.pop(gone).cancel()
            self._objects.pop(gone, None)
        for new in wanted - self._tasks.keys():
            self._tasks[new] = asyncio.create_task(self._keep(new), name=f"watch {new.kind} {new.name}")

    def snapshot(self, keys: Iterable[Key]) -> dict[Key, Object | None]:
        """How objects are, None for one that is missing; an object whose watch is broken is left out."""
        by_kind: dict[str, dict[str, Object]] = {}
        by_name: dict[Key, Object | None] = {}
        for watch, objects in self._objects.items():
            if watch.name:
                by_name[watch.kind, watch.name] = objects.get(watch.name)
            else:
                by_kind[watch.kind] = objects
        return {
            key: by_name[key] if key in by_name else by_kind[key[0]].get(key[1])
            for key in keys
            if key in by_name or key[0] in by_kind
        }

    def store(self, live: Object) -> None:
        """Take over an object that was just written, before its watch tells of it."""
        for watch, objects in self._objects.items():
            if watch.kind == live["kind"] and watch.name in ("", live["metadata"]["name"]):
                objects[live["metadata"]["name"]] = live

    async def close(self) -> None:
        """End the watches."""
        for task in self._tasks.values():
            task.cancel()
        await asyncio.gather(*self._tasks.values(), return_exceptions=True)

    async def _keep(self, watch: Watch) -> None:
        trouble = ""
        while True:
            try:
                await self._watch_once(watch)
                trouble = ""
            except KubernetesError as error:
                self._objects.pop(watch, None)
                if str(error) != trouble:
                    log.warning("watch broken: kind=%s name=%s error=%s", watch.kind, watch.name, error)
                trouble = self.broken[watch] = str(error)
                forbidden = error.status == httpx.codes.FORBIDDEN
                await asyncio.sleep(_FORBIDDEN_RETRY_SECONDS if forbidden else _RETRY_SECONDS)

    async def _watch_once(self, watch: Watch) -> None:
        params = {"fieldSelector": f"metadata.name={watch.name}"} if watch.name else {}
        listed = await self._api.listing(watch.api, plural(watch.kind), params)
        # Lists leave out what every item is.
        items = [self._shape({"apiVersion": watch.api, "kind": watch.kind, **item}) for item in listed["items"]]
        self._objects[watch] = {item["metadata"]["name"]: item for item in items}
        self.broken.pop(watch, None)
        self._changed()
        from_here = {**params, "resourceVersion": listed["metadata"]["resourceVersion"]}
        async for kind, live in self._api.watch(watch.api, plural(watch.kind), from_here):
            self._see(self._objects[watch], kind, self._shape(live))

    def _see(self, objects: dict[str, Object], kind: str, live: Object) -> None:
        name = live["metadata"]["name"]
        before = objects.get(name)
        if before is not None and _version(live) < _version(before):
            return  # Our own answer to a write was newer.
        if kind == "DELETED":
            objects.pop(name, None)
        else:
            objects[name] = live
        if before is None or kind == "DELETED" or fingerprint(before) != fingerprint(live):
            self._changed()


def _version(live: dict[str, Any]) -> int:
    return int(live["metadata"]["resourceVersion"])
