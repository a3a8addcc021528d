"""Declared kinds as the API server holds them now, kept fresh by watches: to see an edit costs no polling."""

from __future__ import annotations

import asyncio
import dataclasses
import logging
from collections.abc import Callable, Iterable, Mapping

import httpx

from slurm_operator.clients.kubernetes import KubernetesApi, KubernetesError, Object
from slurm_operator.decide.drift import Key, fingerprint

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


@dataclasses.dataclass(slots=True)
class _Shown:
    """What a watch has shown: objects by name, and how new the newest news of each name is, also of one that went."""

    objects: dict[str, Object]
    listed: int
    newest: dict[str, int] = dataclasses.field(default_factory=dict)

    def take(self, live: Object, *, gone: bool = False) -> bool:
        """Take an object over, unless there is newer news of its name."""
        name, version = live["metadata"]["name"], int(live["metadata"]["resourceVersion"])
        if version < self.newest.get(name, self.listed):
            return False
        self.newest[name] = version
        if gone:
            self.objects.pop(name, None)
        else:
            self.objects[name] = live
        return True


class Informer:
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
        self._shown: dict[Watch, _Shown] = {}

    def follow(self, watches: Iterable[Watch]) -> None:
        """Watch these, and nothing else."""
        wanted = set(watches)
        for gone in self._tasks.keys() - wanted:
            self._tasks.pop(gone).cancel()
            self._shown.pop(gone, None)
        for new in wanted - self._tasks.keys():
            self._begin(new)

    def look_again(self, kind: str, name: str) -> None:
        """Begin the watch of an object anew, which has shown what is not so; until then the object is left out."""
        for watch in [each for each in self._tasks if each.kind == kind and each.name in ("", name)]:
            self._tasks[watch].cancel()
            self._shown.pop(watch, None)
            self._begin(watch)

    def snapshot(self, keys: Iterable[Key]) -> dict[Key, Object | None]:
        """How objects are, None for one that is missing; an object whose watch is broken is left out."""
        by_kind: dict[str, dict[str, Object]] = {}
        by_name: dict[Key, Object | None] = {}
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

    def objects(self, watch: Watch) -> Mapping[str, Object] | None:
        """What a watch shows, by name; None while it is broken or has not begun."""
        shown = self._shown.get(watch)
        return None if shown is None else shown.objects

    def store(self, live: Object) -> None:
        """Take over an object that was just written, unless its watch was faster and tells of something newer."""
        for watch, shown in self._shown.items():
            if watch.kind == live["kind"] and watch.name in ("", live["metadata"]["name"]):
                shown.take(self._shape(live))

    async def close(self) -> None:
        """End the watches."""
        for task in self._tasks.values():
            task.cancel()
        await asyncio.gather(*self._tasks.values(), return_exceptions=True)

    def _begin(self, watch: Watch) -> None:
        self._tasks[watch] = asyncio.create_task(self._keep(watch), name=f"watch {watch.kind} {watch.name}")

    async def _keep(self, watch: Watch) -> None:
        trouble = ""
        while True:
            try:
                await self._watch_once(watch)
                trouble = ""
            except Exception as error:  # Whatever it is: without its watch a kind would be taken for what it once was.
                self._shown.pop(watch, None)
                if not isinstance(error, KubernetesError):
                    log.exception("watch broken: kind=%s name=%s", watch.kind, watch.name)
                elif str(error) != trouble:
                    log.warning("watch broken: kind=%s name=%s error=%s", watch.kind, watch.name, error)
                trouble = self.broken[watch] = str(error)
                forbidden = isinstance(error, KubernetesError) and error.status == httpx.codes.FORBIDDEN
                await asyncio.sleep(_FORBIDDEN_RETRY_SECONDS if forbidden else _RETRY_SECONDS)

    async def _watch_once(self, watch: Watch) -> None:
        params = {"fieldSelector": f"metadata.name={watch.name}"} if watch.name else {}
        items: list[Object] = []
        version = ""
        async for page in self._api.pages(watch.api, plural(watch.kind), params):
            # Lists leave out what every item is.
            items += [self._shape({"apiVersion": watch.api, "kind": watch.kind, **item}) for item in page["items"]]
            version = page["metadata"]["resourceVersion"]
        shown = self._shown[watch] = _Shown({item["metadata"]["name"]: item for item in items}, int(version))
        self.broken.pop(watch, None)
        self._changed()
        async for kind, live in self._api.watch(watch.api, plural(watch.kind), {**params, "resourceVersion": version}):
            if kind != "BOOKMARK":  # Nothing but a sign of life, without which the watch would be taken for broken.
                self._see(shown, self._shape(live), gone=kind == "DELETED")

    def _see(self, shown: _Shown, live: Object, *, gone: bool) -> None:
        before = shown.objects.get(live["metadata"]["name"])
        if not shown.take(live, gone=gone):
            return  # Our own answer to a write was newer.
        if before is None or gone or fingerprint(before) != fingerprint(live):
            self._changed()
