"""Promises about a pass's reads: watches answer, the answer to a write counts at once, a new leader begins anew."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from typing import Any, cast

from slurm_operator.clients.kubernetes import KubernetesApi
from slurm_operator.clients.watched_reads import WatchedReads

Body = dict[str, Any]


def pod(name: str, version: int, labels: dict[str, str], phase: str = "Running") -> Body:
    metadata = {"name": name, "resourceVersion": str(version), "labels": labels}
    return {"kind": "Pod", "metadata": metadata, "status": {"phase": phase}, "dropped": True}


class PlayedApi:
    """An API server of some pods, which counts what it is asked besides watches."""

    def __init__(self, *pods: Body) -> None:
        self.pods = list(pods)
        self.asked: list[str] = []
        self.written: list[Callable[[Body], None]] = []
        self.news: asyncio.Queue[tuple[str, Body]] = asyncio.Queue()

    async def list(self, _: str, plural: str, selector: str = "") -> list[Body]:
        self.asked.append(f"list {plural} {selector}".rstrip())
        return self.pods

    async def get(self, _: str, plural: str, name: str) -> Body | None:
        self.asked.append(f"get {plural} {name}")
        return next((each for each in self.pods if each["metadata"]["name"] == name), None)

    async def pages(self, _: str, __: str, params: dict[str, str]) -> AsyncIterator[Body]:
        name = params.get("fieldSelector", "").removeprefix("metadata.name=")
        items = [each for each in self.pods if name in ("", each["metadata"]["name"])]
        yield {"items": items, "metadata": {"resourceVersion": "9"}}

    async def watch(self, _: str, __: str, params: dict[str, str]) -> AsyncIterator[tuple[str, Body]]:
        while True:
            yield await (asyncio.Queue() if "fieldSelector" in params else self.news).get()


def play(api: PlayedApi, story: Callable[[WatchedReads], Coroutine[Any, Any, None]]) -> None:
    async def whole() -> None:
        shape = {"Pod": lambda live: {key: live[key] for key in ("kind", "metadata", "status")}}
        reads = WatchedReads(cast(KubernetesApi, api), shape)
        try:
            await story(reads)
        finally:
            await reads.close()

    asyncio.run(whole())


async def settled() -> None:
    """Let the watches' tasks run: they wait for nothing but this played API server."""
    for _ in range(20):
        await asyncio.sleep(0)


def test_the_api_server_answers_until_the_watch_does() -> None:
    mine = {"app": "slurm", "more": "x"}
    api = PlayedApi(pod("b", 2, mine), pod("a", 1, mine), pod("c", 3, {"app": "other"}))

    async def story(reads: WatchedReads) -> None:
        assert await reads.list("v1", "pods", "app=slurm,more=x") == api.pods
        assert (await reads.get("v1", "pods", "a") or {})["dropped"]
        await settled()
        listed = await reads.list("v1", "pods", "app=slurm,more=x")
        assert [each["metadata"]["name"] for each in listed] == ["a", "b"], "by label, and always in the same order"
        assert "dropped" not in listed[0], "what nobody reads is not kept"
        assert len(await reads.list("v1", "pods")) == 3
        assert "dropped" not in (await reads.get("v1", "pods", "a") or {"dropped": ""})
        assert api.asked == ["list pods app=slurm,more=x", "get pods a"]

    play(api, story)


def test_what_the_operator_wrote_is_read_before_the_watch_tells_of_it() -> None:
    api = PlayedApi(pod("a", 1, {}))

    async def story(reads: WatchedReads) -> None:
        await reads.list("v1", "pods")
        await settled()
        for tell in api.written:
            tell(pod("a", 12, {}, "Failed"))
        assert [each["status"]["phase"] for each in await reads.list("v1", "pods")] == ["Failed"]

    play(api, story)


def test_what_must_not_be_old_is_asked_for_again_whenever_a_watch_had_news() -> None:
    api = PlayedApi(pod("a", 1, {}))

    async def story(reads: WatchedReads) -> None:
        await reads.list("v1", "pods")
        await settled()
        for _ in range(3):
            await reads.get_latest("v1", "pods", "a")
            await settled()
        api.asked.clear()
        await reads.get_latest("v1", "pods", "a")
        assert api.asked == [], "nothing has changed"
        api.pods = [pod("a", 12, {}, "Failed")]
        api.news.put_nowait(("ADDED", pod("b", 13, {})))
        await settled()
        assert (await reads.get_latest("v1", "pods", "a") or {})["status"]["phase"] == "Failed"
        assert api.asked == ["get pods a"]
        assert (await reads.get("v1", "pods", "a") or {})["status"]["phase"] == "Failed", (
            "and the others do not go back"
        )

    play(api, story)


def test_who_takes_the_lease_reads_what_is_and_not_what_he_once_saw() -> None:
    api = PlayedApi(pod("a", 1, {}))

    async def story(reads: WatchedReads) -> None:
        await reads.list("v1", "pods")
        await settled()
        api.pods = [pod("a", 12, {}, "Failed")]
        reads.begin_anew()
        assert [each["status"]["phase"] for each in await reads.list("v1", "pods")] == ["Failed"]

    play(api, story)
