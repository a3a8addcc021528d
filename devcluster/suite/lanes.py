"""Runs parts of a test run in parallel: lanes, each in a thread. An interrupt ends all their programs."""

from __future__ import annotations

import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

GRACE_SECONDS = 90.0
"""Time for pytest's fixtures to clean up after an interrupt."""
INTERRUPTED = 130


class Programs:
    """Programs that several threads run."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._running: set[subprocess.Popen[bytes]] = set()
        self._has_ended = False

    def run(self, command: Sequence[str], folder: Path, environment: Mapping[str, str]) -> int:
        """Run a program to its end and return its exit status.

        The output of a program in a lane is shown after its end, so that outputs do not mix.
        """
        if threading.current_thread() is threading.main_thread():
            return self._wait(command, folder, environment, None)
        with tempfile.TemporaryFile() as output:
            status = self._wait(command, folder, environment, output.fileno())
            output.seek(0)
            with self._lock:
                sys.stdout.write(output.read().decode(errors="replace"))
                sys.stdout.flush()
        return status

    def _wait(self, command: Sequence[str], folder: Path, environment: Mapping[str, str], output: int | None) -> int:
        with self._lock:
            if self._has_ended:
                return INTERRUPTED
            process = subprocess.Popen(command, cwd=folder, env=environment, stdout=output, stderr=output)
            self._running.add(process)
        status = process.wait()
        with self._lock:
            self._running.discard(process)
        return status

    def end(self) -> None:
        """Interrupt all that runs, kill what does not end within the grace, and start nothing more."""
        with self._lock:
            self._has_ended, running = True, [*self._running]
        for process in running:
            process.send_signal(signal.SIGINT)
        deadline = time.monotonic() + GRACE_SECONDS
        for process in running:
            try:
                process.wait(max(0.0, deadline - time.monotonic()))
            except subprocess.TimeoutExpired:
                process.kill()


def side_by_side(lanes: Sequence[Callable[[], int]], here: Callable[[], int], programs: Programs) -> int:
    """Run lanes in threads, and `here` in this one, which may be interrupted; return their statuses, joined."""
    with ThreadPoolExecutor(len(lanes)) as pool:
        begun = [pool.submit(lane) for lane in lanes]
        try:
            status = here()
            for lane in begun:
                status |= lane.result()
        except KeyboardInterrupt:
            programs.end()
            raise
    return status
