"""/livez (the loop turns), /readyz (passes make progress) and /metrics, in a thread that no blocked loop can stop."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any
from wsgiref.simple_server import WSGIRequestHandler, make_server

import httpx
import prometheus_client as prometheus
from prometheus_client.exposition import ThreadingWSGIServer

from slurm_operator.clients.kubernetes import KubernetesError

STALLED_SECONDS = 90.0


class Progress:
    """The time at which the last pass ended, or at which the loop last turned."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._last = clock()

    def made(self) -> None:
        """A pass ended: what it found, an unreachable Slurm too, was dealt with."""
        self._last = self._clock()

    def met(self, error: KubernetesError) -> None:
        """Count an API server that is away, or a conflict, as progress. An operator without its rights makes none."""
        if error.status not in (httpx.codes.UNAUTHORIZED, httpx.codes.FORBIDDEN):
            self.made()

    def stalled_seconds(self) -> float:
        """Seconds since the last pass ended."""
        return self._clock() - self._last


class _Quiet(WSGIRequestHandler):
    timeout = 5

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing: a probe every few seconds is not an event."""


def serve(loop: Progress, passes: Mapping[str, Progress], port: int) -> Callable[[], None]:
    """Serve /livez, /readyz and /metrics over HTTP on all addresses.

    Args:
        loop: of the event loop. While it turns, a restart repairs nothing: /livez is well.
        passes: of each kind of pass, by its name. The slowest one makes /readyz fail.
        port: where to listen.

    Returns:
        A function that stops the server.
    """
    measure = prometheus.make_wsgi_app()

    def answer(environment: dict[str, Any], start: Any) -> Iterable[bytes]:
        if environment["PATH_INFO"] == "/metrics":
            page: Iterable[bytes] = measure(environment, start)
            return page
        looked_at = {"/livez": {"loop": loop}, "/readyz": passes}.get(environment["PATH_INFO"])
        if looked_at is None:
            start("404 Not Found", [("Content-Type", "text/plain")])
            return [b"/livez, /readyz and /metrics are here\n"]
        stalled, kind = max((progress.stalled_seconds(), kind) for kind, progress in looked_at.items())
        start("200 OK" if stalled < STALLED_SECONDS else "503 Service Unavailable", [("Content-Type", "text/plain")])
        return [f"{kind}: last done {stalled:.0f} s ago\n".encode()]

    server = make_server("", port, answer, server_class=ThreadingWSGIServer, handler_class=_Quiet)
    thread = threading.Thread(target=server.serve_forever, name="health", daemon=True)
    thread.start()

    def stop() -> None:
        server.shutdown()
        server.server_close()

    return stop
