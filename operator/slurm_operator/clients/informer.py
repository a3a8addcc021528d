"""A cache of the API server's objects, which watches keep current: the operator sees an edit without polling."""

from __future__ import annotations

import asyncio
import dataclasses
import logging
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import httpx

from slurm_operator.clients.kubernetes import KubernetesApi, KubernetesError, Object, whole
from slurm_operator.decide.cluster.drift.restore import Key, fingerprint

log = logging.getLogger(__name__)

_RETRY_SECONDS = 1.0
_LONGEST_RETRY_SECONDS = 10.0
_SHORT_SECONDS = 5.0
"""A watch that ends sooner waits before it begins again: a proxy, or a busy API server, may end every watch so."""


@dataclasses.dataclass(frozen=True, slots=True)
class Watch:
    """A kind of the namespace, or one object of it, where the Role grants no more.

    `selector` are labels (`key=value,…`) of what is watched. `read` returns the part of an object that is kept, since
    there are thousands of pods and Kubernetes nodes.
    """

    api: str
    kind: str
    name: str = ""
    selector: str = ""
    read: Callable[[Object], Any] = whole

    def shows(self, live: Object) -> bool:
        """Return whether the watch covers the object."""
        metadata = live["metadata"]
        wanted = dict(term.split("=", 1) for term in self.selector.split(",") if term)
        named = live["kind"] == self.kind and self.name in ("", metadata["name"])
        return named and wanted.items() <= metadata.get("labels", {}).items()

    @property
    def params(self) -> dict[str, str]:
        """Return the query parameters that select the watched objects."""
        by_name = {"fieldSelector": f"metadata.name={self.name}"} if self.name else {}
        return by_name | ({"labelSelector": self.selector} if self.selector else {})


def plural(kind: str) -> str:
    """Return the plural of a kind, as URLs have it. The rule holds for every kind that the program declares."""
    word = kind.lower()
    return f"{word[:-1]}ies" if word.endswith("y") else f"{word}s"


@dataclasses.dataclass(slots=True)
class _WatchCache:
    """The cache of one watch.

    Attributes:
        read: returns what is kept of an object.
        version: resource version up to which the watch has shown everything. Older events tell nothing new.
        objects: what is kept of each object, by name.
        newest: resource version of the latest event since `version`, by name. It has deleted objects too.
    """

    read: Callable[[Object], Any]
    version: int = 0
    objects: dict[str, Any] = dataclasses.field(default_factory=dict)
    newest: dict[str, int] = dataclasses.field(default_factory=dict)

    def take(self, live: Object, *, gone: bool = False) -> bool:
        """Store an object, unless a newer event of its name was stored.

        Args:
            live: the object.
            gone: the object was deleted.

        Returns:
            True if that is news: the object went, or more than its status changed.
        """
        name, version = live["metadata"]["name"], int(live["metadata"]["resourceVersion"])
        if version < self.newest.get(name, self.version):
            return False
        self.newest[name] = version
        before = self.objects.get(name)
        if gone:
            self.objects.pop(name, None)
            return True
        now = self.objects[name] = self.read(live)
        return before is None or _content(before) != _content(now)

    def has_shown_all_until(self, version: int) -> None:
        """Note that the watch has shown everything up to `version`, and forget older versions by name."""
        self.version = version
        self.newest = {name: known for name, known in self.newest.items() if known > version}


def _content(kept: Any) -> Any:
    """Return what is compared for news. Of a whole object it is a hash without the status: that alone is no news."""
    return fingerprint(kept) if isinstance(kept, dict) else kept


class Informer:
    """A cache of objects that watches keep current.

    Attributes:
        broken: why a watch does not work now.
    """

    def __init__(self, api: KubernetesApi, changed: Callable[[], None]) -> None:
        """Begin without a watch.

        Args:
            api: the API server.
            changed: called when an object came, went, or says something else.
        """
        self.broken: dict[Watch, str] = {}
        self._api = api
        self._changed = changed
        self._tasks: dict[Watch, asyncio.Task[None]] = {}
        self._shown: dict[Watch, _WatchCache] = {}

    def follow(self, watches: Iterable[Watch]) -> None:
        """Watch these, and nothing else."""
        wanted = set(watches)
        for gone in self._tasks.keys() - wanted:
            self._tasks.pop(gone).cancel()
            self._shown.pop(gone, None)
        for new in wanted - self._tasks.keys():
            self._begin(new)

    def look_again(self, kind: str, name: str) -> None:
        """Restart the watch of an object that showed something wrong; until it lists again, snapshots omit that."""
        for watch in [followed for followed in self._tasks if followed.kind == kind and followed.name in ("", name)]:
            self._tasks[watch].cancel()
            self._shown.pop(watch, None)
            self._begin(watch)

    def snapshot(self, keys: Iterable[Key]) -> dict[Key, Any]:
        """Return what the cache keeps of objects: None for a missing one, no entry for one whose watch is broken."""
        by_kind: dict[str, dict[str, Any]] = {}
        by_name: dict[Key, Any] = {}
        for watch, shown in self._shown.items():
            if watch.name:
                by_name[watch.kind, watch.name] = shown.objects.get(watch.name)
            else:
                by_kind[watch.kind] = shown.objects
        return {
            key: by_name[key] if key in by_name else by_kind[key[0]].get(key[1])
            for key in keys
            if key in by_name or key[0] in by_kind
        }

    def objects(self, watch: Watch) -> Mapping[str, Any] | None:
        """Return the cached objects of a watch by name; None while the watch is broken or has not begun."""
        shown = self._shown.get(watch)
        return None if shown is None else shown.objects

    def store(self, live: Object) -> None:
        """Take over an object that was just written, unless its watch was faster and tells of something newer."""
        for watch, shown in self._shown.items():
            if watch.shows(live):
                shown.take(live)

    async def close(self) -> None:
        """End the watches."""
        for task in self._tasks.values():
            task.cancel()
        await asyncio.gather(*self._tasks.values(), return_exceptions=True)

    def _begin(self, watch: Watch) -> None:
        self._tasks[watch] = asyncio.create_task(self._keep(watch), name=f"watch {watch.kind} {watch.name}")

    async def _keep(self, watch: Watch) -> None:
        trouble, shown, pause, clock = "", None, 0.0, asyncio.get_running_loop().time
        while True:
            began = clock()
            try:
                # It does not list again while the watch works: all objects would be in memory twice meanwhile.
                shown = await self._watch_once(watch, shown)
                trouble, least = "", 0.0
            except Exception as error:  # Whatever it is: a watch that ended silently would leave the cache stale.
                shown = None
                self._shown.pop(watch, None)
                if str(error) != trouble:
                    traceback = None if isinstance(error, KubernetesError) else error
                    words = "watch broken: kind=%s name=%s error=%s"
                    log.warning(words, watch.kind, watch.name, error, exc_info=traceback)
                trouble = self.broken[watch] = str(error)
                forbidden = isinstance(error, KubernetesError) and error.status == httpx.codes.FORBIDDEN
                least = _LONGEST_RETRY_SECONDS if forbidden else _RETRY_SECONDS
            was_short = clock() - began < _SHORT_SECONDS
            grown = min(max(2 * pause, _RETRY_SECONDS), _LONGEST_RETRY_SECONDS) if was_short else 0.0
            pause = max(least, grown)
            await asyncio.sleep(pause)  # A watch that broke would break again at once.

    async def _watch_once(self, watch: Watch, shown: _WatchCache | None) -> _WatchCache:
        """Watch on from what was shown, or from a new list, until the API server ends the watch."""
        if shown is None:
            shown = self._shown[watch] = await self._list(watch)
            self.broken.pop(watch, None)
            self._changed()
        version = shown.version
        params = {**watch.params, "resourceVersion": str(version)}
        async for kind, live in self._api.watch(watch.api, plural(watch.kind), params):
            version = int(live["metadata"]["resourceVersion"])
            # A bookmark is a sign of life, without which the watch would be taken for broken.
            if kind != "BOOKMARK" and shown.take(live, gone=kind == "DELETED"):
                self._changed()
        shown.has_shown_all_until(version)
        return shown

    async def _list(self, watch: Watch) -> _WatchCache:
        shown = _WatchCache(watch.read)
        async for version, items in self._api.pages(watch.api, plural(watch.kind), watch.params):
            for item in items:
                live = {"apiVersion": watch.api, "kind": watch.kind, **item}  # Items of a list lack their kind.
                shown.objects[item["metadata"]["name"]] = watch.read(live)
            shown.version = int(version)
        return shown
