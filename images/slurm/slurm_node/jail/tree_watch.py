"""Mounts again what went away from the tree while the node runs.

What the tree's mounts stand on lies in the shared root. Who removes or renames it on a node that has nothing mounted
there takes the mounts away from all others. Where the storage fails to answer for it, even once, the kernel takes them
for removed. Until they are back, jail.c refuses jobs and logins.
"""

import os
import select
import time
from collections.abc import Sequence
from pathlib import Path

from slurm_node.jail import tree
from slurm_node.pod import paths
from slurm_node.pod.log import say

PERIOD_SECONDS = 1.0


class TreeWatch:
    """Looks at the mount table alone, until a mount is missing or the jail does not work. No storage can hold that up.

    A process of its own mounts it again, one at a time: storage that hangs holds up nobody else.

    Args:
        mounts: the tree's plan.
        view: where the tree is.
    """

    def __init__(self, mounts: Sequence[tree.Mount], view: Path = paths.TREE) -> None:
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
            doubted: whether jail probes fail: root in a login session may have deleted the view's marker.
        """
        if self._process:
            self._look()
        elif now >= self._next and (doubted or self._again or tree.missing(self._mounts, self._view)):
            self._next = now + PERIOD_SECONDS
            self._start()

    def pause(self, seconds: float) -> None:
        """Looks, and then passes time, for who waits and does nothing else."""
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
        sentence, status = self._mend()
        try:
            # No more than a pipe takes at once: nobody reads before this process has ended.
            os.write(answer, sentence.encode(errors="backslashreplace")[: select.PIPE_BUF])
        finally:
            os._exit(status)

    def _mend(self) -> tuple[str, int]:
        try:
            return tree.remount(self._mounts, self._view), 0
        except Exception as error:  # This process has nobody else to tell.
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
