"""Restores mounts of the tree that disappear while the node runs.

The mount points of the tree lie in the shared root. A node without a mount there can remove or rename such a folder.
Then all other nodes lose their mounts. If the storage fails to answer for it even once, the kernel takes it for
removed. Until the mounts are back, jail.c refuses jobs and logins.
"""

import os
import select
import time
from collections.abc import Sequence
from pathlib import Path

from slurm_node.jail import tree
from slurm_node.jail.tree_plan import Mount
from slurm_node.pod import paths
from slurm_node.pod.log import say

PERIOD_SECONDS = 1.0


class TreeWatch:
    """Watches the mount table, which never waits for storage, until a mount is missing or the jail does not work.

    Then a process of its own restores the mounts, one process at a time. So nothing else waits for storage that hangs.

    Args:
        mounts: the tree's plan.
        view: where the tree is.
    """

    def __init__(self, mounts: Sequence[Mount], view: Path = paths.TREE) -> None:
        self._mounts = mounts
        self._view = view
        self._process = 0
        self._answer = -1
        self._next = 0.0
        self._again = False
        self._said = ""

    def tick(self, now: float, *, doubted: bool = False) -> None:
        """Called about twice a second; returns at once.

        Args:
            now: seconds.
            doubted: whether jail probes fail; root in a login session may have deleted the view's marker.
        """
        if self._process:
            self._look()
        elif now >= self._next and (doubted or self._again or tree.missing(self._mounts, self._view)):
            self._next = now + PERIOD_SECONDS
            self._start()

    def pause(self, seconds: float) -> None:
        """Checks once and then sleeps, for callers that wait and do nothing else."""
        self.tick(time.monotonic())
        time.sleep(seconds)

    def _start(self) -> None:
        self._answer, answer = os.pipe()
        try:
            self._process = os.fork()
        except OSError as error:
            os.close(self._answer)
            os.close(answer)
            self._tell(f"no process to remount the jail's view is to be had: {error.strerror}")
            return
        if self._process:
            os.close(answer)
            return
        sentence, status = self._remount()
        try:
            # No more than a pipe holds: its reader waits until this process has ended.
            os.write(answer, sentence.encode(errors="backslashreplace")[: select.PIPE_BUF])
        finally:
            os._exit(status)

    def _remount(self) -> tuple[str, int]:
        try:
            return tree.remount(self._mounts, self._view), 0
        except Exception as error:  # The parent process reports it.
            return f"the jail's view is not whole: {error}", 1

    def _look(self) -> None:
        ended, status = os.waitpid(self._process, os.WNOHANG)
        if not ended:
            return
        with os.fdopen(self._answer, "rb") as answer:
            sentence = answer.read().decode(errors="replace")
        self._process, self._again = 0, status != 0
        self._tell(sentence)

    def _tell(self, sentence: str) -> None:
        if sentence not in ("", self._said):
            say(sentence)
        self._said = sentence
