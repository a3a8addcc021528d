"""Builds a guest's kernel beside all that a run of the tests does, on idle cores."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from devcluster.images.images import ImageError
from devcluster.machine import progress
from devcluster.machine.bootstrap import CHECKOUT
from devcluster.machine.progress import StepFailed, say
from devcluster.suite.lanes import INTERRUPTED, Programs
from devcluster.suite.tally import Tally, Watch
from devcluster.vm import kernel, own_kernel

PART = "guest's kernel"
BUDGET_MINUTES = 50
"""It lasts almost as long as all else, since it takes what that leaves of two cores: sixteen minutes of a core."""
COMMAND = [sys.executable, "-m", "devcluster.suite.early_kernel"]
HEARTBEAT_SECONDS = 300.0
"""All lines are shown when it ends, so they are few."""
SESSION_NICENESS = 19


@dataclass(frozen=True, slots=True)
class KernelBuild:
    """The build of a guest's kernel; without a status there is nothing to build."""

    status: Future[int] | None = None

    def has_ended(self) -> bool:
        """Return whether nobody has to wait for it."""
        return self.status is None or self.status.done()

    def wait(self, seconds: float) -> int | None:
        """Wait for its end and return its exit status, 0 if nothing was to build, None if it takes longer."""
        if self.status is None:
            return 0
        try:
            return self.status.result(max(0.0, seconds))
        except TimeoutError:
            return None


@contextlib.contextmanager
def built_beside(tally: Tally) -> Iterator[KernelBuild]:
    """Build the kernel meanwhile, unless the cache has it or this machine needs none. The build ends with the block."""
    if kernel.is_built() or not own_kernel.lacking():
        yield KernelBuild()
        return
    say("▸ the guest's kernel: built beside all else, on idle cores; its output comes when it ends")
    programs = Programs()
    with ThreadPoolExecutor(1) as pool:
        try:
            yield KernelBuild(pool.submit(_build, tally, programs))
        finally:
            programs.end()


def _build(tally: Tally, programs: Programs) -> int:
    watch = Watch()
    status = programs.run(COMMAND, CHECKOUT, os.environ)
    tally.parts[PART] = watch.spent(BUDGET_MINUTES)
    return status


def take_only_idle_cores() -> None:
    """Have this process and its children run only while no other process wants a core.

    Linux weighs sessions before it weighs their processes (autogroups in sched(7)). In the session of the tests,
    an idle process would count as much as a dev cluster's whole control group. Of disks it takes what is left, too
    (ionice(1): the default follows the scheduling policy).
    """
    if os.getsid(0) != os.getpid():
        os.setsid()
    os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
    with contextlib.suppress(OSError):  # A kernel without autogroups weighs processes.
        Path("/proc/self/autogroup").write_text(str(SESSION_NICENESS))


def main() -> int:
    """Build the kernel in this process, and return its exit status. An interrupt ends it, also in the background."""
    take_only_idle_cores()
    signal.signal(signal.SIGINT, _end_the_session)
    progress.HEARTBEAT_SECONDS = HEARTBEAT_SECONDS
    try:
        with progress.reported_failures():
            _build_here()
    except KeyboardInterrupt:
        return INTERRUPTED
    return 0


def _end_the_session(*_: object) -> None:
    """End all programs of the build, also children of children, before its folder is removed."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    os.killpg(os.getpid(), signal.SIGTERM)
    raise KeyboardInterrupt


def _build_here() -> None:
    try:
        kernel.build()
    except ImageError as error:  # This machine names no archive of Debian.
        raise StepFailed(str(error)) from error


if __name__ == "__main__":
    sys.exit(main())
