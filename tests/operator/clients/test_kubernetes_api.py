"""Promises about talking to the API server: every call ends within its deadline, on which the lease is built."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import threading
from collections.abc import Awaitable, Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import cast

import httpx
import kopf
import pytest
from slurm_operator import actions, execute
from slurm_operator.clients import kubernetes
from slurm_operator.clients.slurm.slurmrestd import SlurmRest

from tests.operator.played.played_clients import LeaseFor


@pytest.fixture
def dripping() -> Iterator[str]:
    """A server whose answers never end, although each byte comes in time; that about all nodes ends after a second."""
    ended = threading.Event()

    class Handler(BaseHTTPRequestHandler):
        def log_message(self, format: str, *args: object) -> None:
            pass

        def do_PATCH(self) -> None:
            self.do_GET()

        def do_GET(self) -> None:
            self.send_response(200)
            drips, end = (
                (10, b'{"items": [], "metadata": {"resourceVersion": "1"}}') if "/nodes" in self.path else (100000, b"")
            )
            self.send_header("Content-Length", str(drips + len(end)))
            self.end_headers()
            with contextlib.suppress(OSError):
                for _ in range(drips):
                    if ended.wait(0.1):
                        return
                    self.wfile.write(b" ")
                self.wfile.write(end)

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_address[1]}"
    ended.set()
    server.shutdown()
    server.server_close()


Call = Callable[[kubernetes.KubernetesApi], Awaitable[object]]


async def call(server: str, asked: Call) -> object:
    api = kubernetes.KubernetesApi(lambda: kopf.ConnectionInfo(server=server), "slurm")
    try:
        async with asyncio.timeout(10):  # The answer itself never ends.
            return await asked(api)
    finally:
        await api.close()


@pytest.mark.parametrize(
    ("asked", "limit"),
    [
        (lambda api: api.get("v1", "pods", "cpu-0"), "DEADLINE_SECONDS"),
        (lambda api: api.apply("v1", "pods", {"metadata": {"name": "cpu-0"}}), "DEADLINE_SECONDS"),
        (lambda api: api.list("v1", "pods"), "LISTING_SECONDS"),
    ],
    ids=["get", "apply", "listing"],
)
def test_an_answer_that_drips_is_given_up_at_the_deadline(
    dripping: str, monkeypatch: pytest.MonkeyPatch, asked: Call, limit: str
) -> None:
    monkeypatch.setattr(kubernetes, limit, 0.5)
    with pytest.raises(kubernetes.KubernetesError, check=lambda error: error.status == 0):
        asyncio.run(call(dripping, asked))


def test_a_long_listing_may_take_longer_than_all_else(dripping: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kubernetes, "DEADLINE_SECONDS", 0.3)
    assert asyncio.run(call(dripping, lambda api: api.list("v1", "nodes"))) == []


def test_a_peer_that_vanished_without_a_word_ends_a_connection_within_half_a_minute(dripping: str) -> None:
    """A watch says little by itself, and a cordon would be seen late."""

    async def options(api: kubernetes.KubernetesApi) -> list[int]:
        async with api._client.stream("GET", "/") as answer:
            connection = answer.extensions["network_stream"].get_extra_info("socket")
            tcp = (socket.TCP_KEEPIDLE, socket.TCP_KEEPINTVL, socket.TCP_KEEPCNT)
            keeps = connection.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
            return [keeps, *(connection.getsockopt(socket.IPPROTO_TCP, option) for option in tcp)]

    keeps, idle, pause, count = cast(list[int], asyncio.run(call(dripping, options)))
    assert keeps
    assert idle + pause * count <= 30


def test_a_long_listing_comes_in_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    async def page(self: kubernetes.KubernetesApi, *request: object) -> httpx.Response:
        asked.append(request[3])
        number = len(asked)
        more = {"continue": f"after {number}"} if number < 3 else {}
        metadata = {"resourceVersion": "7", **more}
        return httpx.Response(200, json={"items": [{"number": number}], "metadata": metadata})

    monkeypatch.setattr(kubernetes.KubernetesApi, "_request", page)
    listed = asyncio.run(call("http://127.0.0.1:9", lambda api: api.list("v1", "pods", "a=b")))
    assert listed == [{"number": 1}, {"number": 2}, {"number": 3}]
    first = {"labelSelector": "a=b", "limit": str(kubernetes.PAGE)}
    assert asked == [first, first | {"continue": "after 1"}, first | {"continue": "after 2"}]


def test_of_a_pod_that_is_gone_already_no_deletion_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    async def gone(*_: object) -> httpx.Response:
        return httpx.Response(404, json={"message": "not found"})

    monkeypatch.setattr(kubernetes.KubernetesApi, "_request", gone)
    decided = actions.DeletePod(
        "slurm-controller-0", "7", actions.Purpose.CONTROLLER, "a new one has the current template"
    )
    acting = LeaseFor(9)
    done = call("http://127.0.0.1:9", lambda api: execute.Executor(api, acting).perform(cast(SlurmRest, None), decided))
    assert asyncio.run(done) == ""
