"""A mount of far storage on a node."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import IO

SERVER = Path(__file__).with_name("file_server.py")
LATENCY_SECONDS, CACHE_SECONDS = 0.0005, 1.0


class Mount:
    """One node's mount of the volume."""

    def __init__(self, volume: Path, folder: Path, cache_seconds: float = CACHE_SECONDS) -> None:
        folder.mkdir()
        self.folder = folder
        numbers = [str(LATENCY_SECONDS), str(cache_seconds)]
        self._server = subprocess.Popen(
            [sys.executable, str(SERVER), str(volume), str(folder), *numbers],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip
        assert self._said() == "mounted"

    def _said(self) -> str:
        output: IO[str] | None = self._server.stdout
        assert output is not None
        return output.readline().strip()

    def become(self, mood: str) -> None:
        """well, stale, nameless or mute."""
        assert self._server.stdin is not None
        self._server.stdin.write(f"{mood}\n")
        self._server.stdin.flush()
        assert self._said() == mood

    def end(self) -> None:
        """Ends the server; whoever hangs on it gets an error."""
        self._server.kill()
        self._server.wait()
        subprocess.run(["umount", "--lazy", self.folder], check=True)
