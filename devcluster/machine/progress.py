"""Progress lines with elapsed time. Standard library only: it also speaks before the virtual environment exists."""

from __future__ import annotations

import os
import select
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType

HEARTBEAT_SECONDS = 15.0


class StepFailed(Exception):
    """A step of a command failed. The text is the sentence for the user; `log` is the file to read, if there is one."""

    def __init__(self, message: str, log: Path | None = None) -> None:
        super().__init__(message)
        self.log = log


class Step:
    """One running step: prints its name at once, its notes as they come, its elapsed time at the end."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._started = time.monotonic()
        self._last_heartbeat = self._started

    def __enter__(self) -> Step:
        self._started = time.monotonic()
        say(f"▸ {self.name} …")
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        if kind is None:
            say(f"  {self.name}: done in {self.elapsed_seconds:.1f} s")
        else:
            say(f"  {self.name}: failed after {self.elapsed_seconds:.1f} s")

    @property
    def elapsed_seconds(self) -> float:
        """Seconds since the step began."""
        return time.monotonic() - self._started

    def note(self, text: str) -> None:
        """Print a line that belongs to this step."""
        say(f"  {text}")

    def heartbeat(self, text: str) -> None:
        """Print `text` with the elapsed time, but at most once every 15 s: for loops that wait."""
        now = time.monotonic()
        if now - self._last_heartbeat >= HEARTBEAT_SECONDS:
            self._last_heartbeat = now
            say(f"  {self.elapsed_seconds:.0f} s: {text}")


def say(text: str) -> None:
    """Print one progress line on standard error, so that standard output stays a command's result."""
    print(text, file=sys.stderr, flush=True)


@contextmanager
def reported_failures() -> Iterator[None]:
    """Turn StepFailed into one sentence, the log to read, and exit status 1.

    A command whose reader goes away (`| head -1`) ends without a word, and with the status of SIGPIPE in a shell.
    """
    with _quiet_without_a_reader():
        try:
            yield
        except StepFailed as failure:
            say(f"error: {failure}")
            if failure.log is not None:
                say(f"  read the log: {failure.log}")
            raise SystemExit(1) from None


@contextmanager
def _quiet_without_a_reader() -> Iterator[None]:
    try:
        try:
            yield
        except SystemExit:
            sys.stdout.flush()
            raise
        sys.stdout.flush()
    except BrokenPipeError:
        unread = [stream.fileno() for stream in (sys.stdout, sys.stderr) if _is_unread(stream.fileno())]
        if not unread:  # It is a connection of the command's own.
            raise
        nowhere = os.open(os.devnull, os.O_WRONLY)
        for descriptor in unread:  # Python flushes them once more at its end.
            os.dup2(nowhere, descriptor)
        raise SystemExit(128 + signal.SIGPIPE) from None


def _is_unread(descriptor: int) -> bool:
    """Return whether the reader of a pipe or socket is gone."""
    looked = select.poll()
    looked.register(descriptor, 0)
    return any(events & (select.POLLERR | select.POLLHUP) for _, events in looked.poll(0))
