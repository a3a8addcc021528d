"""The fake config dry run of the operator's tests: it refuses an unknown key in slurmctld's words."""

from __future__ import annotations

import contextlib
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

REFUSAL = "_parse_next_key: Parsing error at unrecognized key: Nonsense; Unable to process configuration file"
"""The answer of a config dry run with slurmctld 26.05.5."""


class _Handler(BaseHTTPRequestHandler):
    def log_message(self, format: str, *args: object) -> None:
        pass

    def do_POST(self) -> None:
        files = json.loads(self.rfile.read(int(self.headers["Content-Length"])))["files"]
        accepted = "Nonsense=" not in files["slurm.conf"]
        body = json.dumps({"accepted": accepted, "words": "" if accepted else REFUSAL}).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


@contextlib.contextmanager
def running() -> Iterator[str]:
    """Run the fake for a test; yields its base URL."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()
