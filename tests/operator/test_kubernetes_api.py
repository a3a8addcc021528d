"""Promises about talking to the API server: every call ends within its deadline, on which the lease is built."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import kopf
import pytest
from slurm_operator import kubernetes_api


@pytest.fixture
def dripping() -> Iterator[str]:
    """A server whose answers never end, although each byte comes in time."""
    ended = threading.Event()

    class Handler(BaseHTTPRequestHandler):
        def log_message(self, format: str, *args: object) -> None:
            pass

        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Length", "100000")
            self.end_headers()
            with contextlib.suppress(OSError):
                while not ended.wait(0.1):
                    self.wfile.write(b" ")

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_address[1]}"
    ended.set()
    server.shutdown()
    server.server_close()


def test_an_answer_that_drips_is_given_up_at_the_deadline(dripping: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kubernetes_api, "DEADLINE_SECONDS", 0.5)

    async def get() -> None:
        api = kubernetes_api.KubernetesApi(lambda: kopf.ConnectionInfo(server=dripping), "slurm")
        try:
            async with asyncio.timeout(10):  # The answer itself never ends.
                await api.get("v1", "pods", "cpu-0")
        finally:
            await api.close()

    with pytest.raises(kubernetes_api.KubernetesError, check=lambda error: error.status == 0):
        asyncio.run(get())
