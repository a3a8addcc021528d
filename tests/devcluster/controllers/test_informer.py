from __future__ import annotations

import asyncio
import itertools
import subprocess
from collections.abc import AsyncIterator, Callable
from typing import Any

import httpx
import pytest

from devcluster.controllers import informer, network_policy
from devcluster.controllers.informer import Resource

PODS = "/api/v1/pods"


class Done(Exception):
    """It ends a test: the thing that was waited for has come."""


class Silent(httpx.AsyncByteStream):
    """A watch that says nothing and does not end."""

    async def __aiter__(self) -> AsyncIterator[bytes]:
        await asyncio.Event().wait()
        yield b""


@pytest.fixture
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """No waits."""
    for name, seconds in {
        "WATCH_SECONDS": 0.0, "LATE_SECONDS": 0.01, "SETTLE_SECONDS": 0.0, "RETRY_SECONDS": 0.0,
    }.items():  # fmt: skip
        monkeypatch.setattr(informer, name, seconds)


def followed(objects: Callable[[], int], reconcile: Callable[[list[Resource]], None]) -> None:
    """Have passes until one raises `Done`, with an API whose watches are silent.

    Args:
        objects: how many the next list has.
        reconcile: a pass.
    """

    def answer(request: httpx.Request) -> httpx.Response:
        if "watch" in request.url.params:
            return httpx.Response(200, stream=Silent())
        items = [{"metadata": {"uid": str(number)}} for number in range(objects())]
        return httpx.Response(200, json={"metadata": {"resourceVersion": "1"}, "items": items})

    async def follow() -> None:
        api = httpx.AsyncClient(transport=httpx.MockTransport(answer), base_url="http://api")
        copies = informer.Informer(api, (PODS,))

        async def one_pass() -> None:
            reconcile(copies.objects(PODS))

        async with asyncio.timeout(10):
            await copies.follow(one_pass)

    with pytest.raises(ExceptionGroup) as ended:
        asyncio.run(follow())
    assert ended.group_contains(Done)


def test_news_that_a_watch_never_brings_come_with_the_next_list(at_once: None) -> None:
    lists = itertools.count()

    def reconcile(pods: list[Resource]) -> None:
        if len(pods) > 1:
            raise Done

    followed(lambda: next(lists), reconcile)


def test_an_nft_that_takes_too_long_is_tried_again_by_the_same_process(
    at_once: None, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    tries = itertools.count()

    def starved(command: list[str], **_: Any) -> subprocess.CompletedProcess[str]:
        if next(tries) == 0:
            raise subprocess.TimeoutExpired(command, network_policy.NFT_SECONDS)
        raise Done

    monkeypatch.setattr(subprocess, "run", starved)

    followed(lambda: 1, lambda _: network_policy._apply("table inet x {}"))

    assert capsys.readouterr().out.startswith("error: TryAgainError nft has not ended within ")


def test_a_pass_that_comes_late_is_an_error_in_the_log(capsys: pytest.CaptureFixture[str]) -> None:
    informer.tell_if_slow(1)
    assert capsys.readouterr().out == ""

    informer.tell_if_slow(47)
    assert capsys.readouterr().out.startswith("error: ")
