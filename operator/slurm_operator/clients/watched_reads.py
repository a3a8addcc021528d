"""Reads of a pass that watches answer: a pass in which nothing changed asks the API server for nothing.

What a watch shows may be older than what is, by the time that news takes. Every action has a precondition of its own
(resource version, uid, a look at the node). So an old view costs a conflict, and no job.

Two watches may tell in another order than things happened. `get_latest` is for what must not be older than the rest.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from contract import names
from slurm_operator.clients.informer import Informer, Watch
from slurm_operator.clients.kubernetes import KubernetesApi, Object, whole

_KINDS = {
    names.SLURM_CLUSTERS: "SlurmCluster",
    names.NODE_SETS: "NodeSet",
    "statefulsets": "StatefulSet",
    "deployments": "Deployment",
    "pods": "Pod",
    "configmaps": "ConfigMap",
    "secrets": "Secret",
}
_T = TypeVar("_T")


class WatchedReads:
    """Answers reads from watches. The first read of a kind, or of a named object, begins its watch.

    While a watch has not listed yet, or is broken, the API server answers. Callers must not change an object that they
    get: the cache has the same one.
    """

    def __init__(self, api: KubernetesApi) -> None:
        """Begin with no watches. What is written through `api` is seen at once, before its watch tells of it."""
        self._api = api
        self._asked: set[Watch] = set()
        self._news = 0
        self._asked_at: dict[tuple[str, str], int] = {}
        self._informer = Informer(api, self._count_news)
        api.written.append(self._informer.store)

    def begin_anew(self) -> None:
        """Empty the cache and end all watches.

        A replica that takes the lease begins with this: another one has acted, and watches may not show that yet.
        """
        self._asked.clear()
        self._asked_at.clear()
        self._informer.follow(())

    async def close(self) -> None:
        """End the watches."""
        await self._informer.close()

    async def list(self, api: str, plural: str, selector: str = "") -> list[Object]:
        """List objects by name, by labels (`key=value,…`) if a selector is given."""
        return [*await self.list_as(whole, api, plural, selector)]

    async def list_as(self, read: Callable[[Object], _T], api: str, plural: str, selector: str = "") -> Sequence[_T]:
        """List what is read of objects, by name; nothing else of them is kept."""
        shown = self._shown(Watch(api, _KINDS[plural], selector=selector, read=read))
        if shown is None:
            return await self._api.list_as(read, api, plural, selector)
        return [kept for _, kept in sorted(shown.items())]

    async def get(self, api: str, plural: str, name: str) -> Object | None:
        """Return an object, None if it does not exist."""
        shown = self._shown(Watch(api, _KINDS[plural], name))
        return await self._api.get(api, plural, name) if shown is None else shown.get(name)

    async def get_latest(self, api: str, plural: str, name: str) -> Object | None:
        """Return an object no older than what the watches have shown. It is asked for again when they had news."""
        news, before = self._news, self._asked_at.get((plural, name))
        if news == before:
            return await self.get(api, plural, name)
        live = await self._api.get(api, plural, name)
        shown = self._shown(Watch(api, _KINDS[plural], name))
        if live is not None:
            self._informer.store(live)
        elif shown and name in shown:
            # No answer has the version of a deletion, so a late event of the watch could bring the object back.
            self._informer.look_again(_KINDS[plural], name)
        self._asked_at[plural, name] = news
        return live

    async def log(self, pod: str, lines: int) -> str:
        """Return the last lines of a pod's log, which no watch shows."""
        return await self._api.log(pod, lines)

    def _count_news(self) -> None:
        self._news += 1

    def _shown(self, watch: Watch) -> Mapping[str, Any] | None:
        if watch not in self._asked:
            self._asked.add(watch)
            self._informer.follow(self._asked)
        return self._informer.objects(watch)


Reads = KubernetesApi | WatchedReads
"""Either answers the reads of a pass."""
