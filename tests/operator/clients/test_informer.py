"""Promises about what the watches have shown: it is never older than what was once known, and no error ends a watch."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from typing import Any, cast

import pytest
from slurm_operator.clients import informer
from slurm_operator.clients.kubernetes import KubernetesApi, KubernetesError

from tests.operator.worlds.slow_world import at_once

Body = dict[str, Any]
KEY = ("ConfigMap", "a")
WATCH = informer.Watch("v1", "ConfigMap")


def config(text: str, version: int) -> Body:
    return {"kind": "ConfigMap", "metadata": {"name": "a", "resourceVersion": str(version)}, "data": {"x": text}}


class PlayedApi:
    """An API server with one kind: each listing is the next of those given, and changes come when a test says so."""

    def __init__(self, *listings: Body | Exception) -> None:
        self.listings = list(listings)
        self.changes: asyncio.Queue[tuple[str, Body] | Exception | None] = asyncio.Queue()
        self.watched_from: list[str] = []
        self.watched_again = asyncio.Event()

    async def pages(self, *_: object) -> AsyncIterator[tuple[str, list[Body]]]:
        found = self.listings.pop(0)
        if isinstance(found, Exception):
            raise found
        half = len(found["items"]) // 2
        for items in (found["items"][:half], found["items"][half:]):
            yield found["metadata"]["resourceVersion"], items

    async def watch(self, _: str, __: str, params: dict[str, str]) -> AsyncIterator[tuple[str, Body]]:
        if self.watched_from:
            self.watched_again.set()
        self.watched_from.append(params["resourceVersion"])
        while True:
            change = await self.changes.get()
            if change is None:
                return
            if isinstance(change, Exception):
                raise change
            yield change
            yield "BOOKMARK", {"kind": "ConfigMap", "metadata": {"resourceVersion": "99"}}


def listing(version: int, *items: Body) -> Body:
    return {"metadata": {"resourceVersion": str(version)}, "items": list(items)}


class Watched:
    """An informer that follows the one kind."""

    def __init__(self, api: PlayedApi) -> None:
        self.api, self.woken = api, asyncio.Event()
        self.informer = informer.Informer(cast(KubernetesApi, api), self.woken.set)
        self.informer.follow([WATCH])

    def text(self) -> str | None:
        """Return what the object says, empty if it is gone, None if it is left out."""
        shown = self.informer.snapshot([KEY])
        return None if KEY not in shown else (shown[KEY] or {"data": {"x": ""}})["data"]["x"]

    async def until(self, text: str | None) -> None:
        for _ in range(2000):
            if self.text() == text:
                return
            await asyncio.sleep(0.01)  # By a virtual clock.
        raise AssertionError(f"it still says {self.text()}")

    async def tell(self, kind: str, live: Body) -> None:
        await self.api.changes.put((kind, live))


def play(api: PlayedApi, story: Callable[[Watched], Coroutine[Any, Any, None]]) -> None:
    async def whole() -> None:
        watched = Watched(api)
        try:
            await story(watched)
        finally:
            await watched.informer.close()

    at_once(lambda _: whole())


def test_the_answer_to_a_write_is_known_before_the_watch_tells_of_it_and_is_not_undone_by_older_news() -> None:
    async def story(watched: Watched) -> None:
        await watched.until("listed")
        watched.informer.store(config("written", 7))
        assert watched.text() == "written"
        await watched.tell("MODIFIED", config("before that", 6))
        await watched.tell("MODIFIED", config("after it", 8))
        seen: set[str | None] = set()
        for _ in range(100):
            seen.add(watched.text())
            await asyncio.sleep(0)
        assert seen == {"written", "after it"}

    play(PlayedApi(listing(5, config("listed", 5))), story)


@pytest.mark.parametrize(("kind", "left"), [("MODIFIED", "edited"), ("DELETED", "")])
def test_an_answer_that_comes_after_newer_news_is_not_taken_for_what_is(kind: str, left: str) -> None:
    """Otherwise the edit, or the deletion, would be unseen until the next listing, minutes later."""

    async def story(watched: Watched) -> None:
        await watched.until("listed")
        await watched.tell(kind, config("edited", 8))
        await watched.until(left)
        watched.informer.store(config("written", 7))
        assert watched.text() == left
        watched.informer.store(config("made anew", 9))
        assert watched.text() == "made anew"

    play(PlayedApi(listing(5, config("listed", 5))), story)


def test_an_answer_older_than_the_listing_in_which_the_object_is_missing_does_not_bring_it_back() -> None:
    async def story(watched: Watched) -> None:
        await watched.until("")
        watched.informer.store(config("written", 4))
        assert watched.text() == ""

    play(PlayedApi(listing(5)), story)


@pytest.mark.parametrize("error", [KubernetesError(0, "broken"), RuntimeError("a defect"), KeyError("metadata")])
def test_whatever_ends_a_watch_it_begins_anew(error: Exception, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(informer, "_RETRY_SECONDS", 0.05)

    async def story(watched: Watched) -> None:
        await watched.until("listed")
        await watched.api.changes.put(error)
        await watched.until(None)
        assert WATCH in watched.informer.broken
        await watched.until("listed again")
        assert not watched.informer.broken

    play(PlayedApi(listing(5, config("listed", 5)), error, listing(9, config("listed again", 8))), story)


def test_a_watch_that_ends_at_once_each_time_is_begun_again_after_growing_pauses() -> None:
    async def story(watched: Watched) -> None:
        for _ in range(1000):
            watched.api.changes.put_nowait(None)
        await asyncio.sleep(60)
        assert 5 <= len(watched.api.watched_from) <= 10
        watched.api.changes = asyncio.Queue()
        await asyncio.sleep(60)
        watched.api.changes.put_nowait(None)
        before = len(watched.api.watched_from)
        await asyncio.sleep(0.1)
        assert len(watched.api.watched_from) == before + 1, "one that lasted goes on at once"

    play(PlayedApi(listing(5, config("listed", 5))), story)


def test_a_watch_that_the_api_server_ends_goes_on_from_what_it_has_shown_without_another_listing() -> None:
    """Listed anew every few minutes, thousands of objects would be there twice each time."""

    async def story(watched: Watched) -> None:
        await watched.until("listed")
        await watched.tell("MODIFIED", config("edited", 8))
        await watched.api.changes.put(None)
        await watched.tell("MODIFIED", config("edited again", 120))
        await watched.until("edited again")
        assert watched.api.watched_from == ["5", "99"], "from the last bookmark"
        watched.informer.store(config("written before that", 100))
        assert watched.text() == "edited again"

    play(PlayedApi(listing(5, config("listed", 5))), story)


@pytest.mark.parametrize(("late", "left"), [(98, ""), (121, "made anew")])
def test_news_of_before_a_watch_went_on_stay_older_than_what_it_had_shown(late: int, left: str) -> None:
    async def story(watched: Watched) -> None:
        await watched.until("listed")
        await watched.tell("DELETED", config("listed", 8))
        await watched.until("")
        await watched.api.changes.put(None)
        await asyncio.wait_for(watched.api.watched_again.wait(), 20)
        watched.informer.store(config("made anew", late))
        assert watched.text() == left

    play(PlayedApi(listing(5, config("listed", 5))), story)


def test_a_written_object_is_shown_by_the_watches_of_its_labels_alone() -> None:
    watch = informer.Watch("v1", "ConfigMap", selector="app=slurm,more=x")
    body = config("written", 7)
    assert not watch.shows(body)
    assert not watch.shows(body | {"metadata": body["metadata"] | {"labels": {"app": "slurm"}}})
    assert watch.shows(body | {"metadata": body["metadata"] | {"labels": {"app": "slurm", "more": "x", "and": "y"}}})
    assert watch.params == {"labelSelector": "app=slurm,more=x"}


def test_a_watch_that_has_shown_what_is_not_so_is_begun_anew_and_its_objects_are_left_out_until_then() -> None:
    async def story(watched: Watched) -> None:
        await watched.until("listed")
        watched.woken.clear()
        watched.informer.look_again("Secret", "a")
        assert watched.text() == "listed"
        watched.informer.look_again(*KEY)
        assert watched.text() is None
        await watched.until("listed again")
        assert watched.woken.is_set()
        await watched.tell("MODIFIED", config("edited", 9))
        await watched.until("edited")

    play(PlayedApi(listing(5, config("listed", 5)), listing(9, config("listed again", 8))), story)
