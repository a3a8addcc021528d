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
        self.late: asyncio.Queue[tuple[str, Body]] = asyncio.Queue()

    async def list_as(self, read: Callable[[Body], Any], _: str, plural: str, selector: str = "") -> list[Any]:
        self.asked.append(f"list {plural} {selector}".rstrip())
        return [*map(read, self.pods)]

    async def get(self, _: str, plural: str, name: str) -> Body | None:
        self.asked.append(f"get {plural} {name}")
        return next((each for each in self.pods if each["metadata"]["name"] == name), None)

    async def pages(self, _: str, __: str, params: dict[str, str]) -> AsyncIterator[tuple[str, list[Body]]]:
        name = params.get("fieldSelector", "").removeprefix("metadata.name=")
        labels = {term.split("=")[0]: term.split("=")[1] for term in params.get("labelSelector", "").split(",") if term}
        items = [each for each in self.pods if name in ("", each["metadata"]["name"])]
        yield "9", [each for each in items if labels.items() <= each["metadata"]["labels"].items()]

    async def watch(self, _: str, __: str, params: dict[str, str]) -> AsyncIterator[tuple[str, Body]]:
        while True:
            yield await (self.late if "fieldSelector" in params else self.news).get()


def play(api: PlayedApi, story: Callable[[WatchedReads], Coroutine[Any, Any, None]]) -> None:
    async def whole() -> None:
        reads = WatchedReads(cast(KubernetesApi, api))
        try:
            await story(reads)
        finally:
            await reads.close()

    asyncio.run(whole())


def phase(live: Body) -> tuple[str, str]:
    """A pod, as far as the tests read it."""
    return live["metadata"]["name"], live["status"]["phase"]


async def settled() -> None:
    """Let the watches' tasks run: they wait for nothing but this played API server."""
    for _ in range(20):
        await asyncio.sleep(0)


def test_the_api_server_answers_until_the_watch_does() -> None:
    mine = {"app": "slurm", "more": "x"}
    api = PlayedApi(pod("b", 2, mine), pod("a", 1, mine), pod("c", 3, {"app": "other"}))

    async def story(reads: WatchedReads) -> None:
        assert await reads.list("v1", "pods", "app=slurm,more=x") == api.pods
        assert await reads.get("v1", "pods", "a") == api.pods[1]
        await settled()
        listed = await reads.list("v1", "pods", "app=slurm,more=x")
        assert [each["metadata"]["name"] for each in listed] == ["a", "b"], "by label, and always in the same order"
        assert (await reads.get("v1", "pods", "a") or {})["metadata"] == api.pods[1]["metadata"]
        assert api.asked == ["list pods app=slurm,more=x", "get pods a"]

    play(api, story)


def test_of_an_object_nothing_is_kept_but_what_is_read_of_it() -> None:
    api = PlayedApi(pod("b", 2, {}), pod("a", 1, {}))

    async def story(reads: WatchedReads) -> None:
        assert sorted(await reads.list_as(phase, "v1", "pods")) == [("a", "Running"), ("b", "Running")]
        await settled()
        assert await reads.list_as(phase, "v1", "pods") == [("a", "Running"), ("b", "Running")]
        (shown,) = reads._informer._shown.values()
        assert [*shown.objects.values()] == [("b", "Running"), ("a", "Running")]
        api.news.put_nowait(("MODIFIED", pod("a", 12, {}, "Failed")))
        await settled()
        assert (await reads.list_as(phase, "v1", "pods"))[0] == ("a", "Failed")
        assert api.asked == ["list pods"]

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


def test_what_is_gone_is_not_shown_once_more_before_its_watch_tells_of_it() -> None:
    api = PlayedApi(pod("a", 1, {}))

    async def story(reads: WatchedReads) -> None:
        assert await reads.get("v1", "pods", "a")
        await settled()
        assert await reads.get("v1", "pods", "a")
        api.pods.clear()
        assert await reads.get_latest("v1", "pods", "a") is None
        assert await reads.get("v1", "pods", "a") is None
        await settled()
        assert await reads.get("v1", "pods", "a") is None
        assert await reads.get_latest("v1", "pods", "a") is None
        api.asked.clear()
        assert await reads.get_latest("v1", "pods", "a") is None
        assert api.asked == [], "its watch has begun anew, and shows that it is gone"
        api.late.put_nowait(("ADDED", pod("a", 13, {})))
        await settled()
        assert await reads.get("v1", "pods", "a"), "one that is made anew is shown"

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
