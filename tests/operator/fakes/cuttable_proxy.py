"""A TCP proxy before the API server. A test cuts it, so that one operator loses the API server."""

from __future__ import annotations

import json
import socket
import threading
from pathlib import Path
from types import TracebackType
from typing import Self
from urllib.parse import urlsplit


class CuttableProxy:
    """Rewrites a kubeconfig to go through itself."""

    def __init__(self, kubeconfig: Path) -> None:
        config = json.loads(kubeconfig.read_text())
        cluster = config["clusters"][0]["cluster"]
        target = urlsplit(cluster["server"])
        self._target = (str(target.hostname), int(target.port or 443))
        self._listener = socket.create_server(("127.0.0.1", 0))
        cluster["server"] = f"https://127.0.0.1:{self._listener.getsockname()[1]}"
        kubeconfig.write_text(json.dumps(config))
        self._open: set[socket.socket] = set()
        self._whole = True

    def __enter__(self) -> Self:
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.cut()
        self._listener.close()

    def cut(self) -> None:
        """End all connections and every new one."""
        self._whole = False
        for each in list(self._open):
            each.close()

    def mend(self) -> None:
        """Let connections through again."""
        self._whole = True

    def _accept(self) -> None:
        while True:
            try:
                near, _ = self._listener.accept()
            except OSError:
                return
            if not self._whole:
                near.close()
                continue
            far = socket.create_connection(self._target)
            for source, sink in ((near, far), (far, near)):
                self._open.add(source)
                threading.Thread(target=self._pump, args=(source, sink), daemon=True).start()

    def _pump(self, source: socket.socket, sink: socket.socket) -> None:
        try:
            while data := source.recv(65536):
                sink.sendall(data)
        except OSError:
            pass
        finally:
            self._open.discard(source)
            for each in (source, sink):
                each.close()
