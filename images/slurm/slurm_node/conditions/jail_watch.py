"""Checks that the jail works, before jobs need it: a node that fails each step at once would use up the queue.

A probe makes a job's namespaces, runs a step in them and ends them, every few seconds. drains.py drains the node while
probes fail. In a new pod it lifts no drain before a probe succeeded. A login node's probe enters the jail as a session
would; while it fails, the node takes no logins. A probe that hangs with the storage is left alone, and no second one
starts beside it.
"""

import os
import subprocess
from pathlib import Path

from contract import reasons
from slurm_node.conditions.drains import Causes, plain
from slurm_node.pod import paths
from slurm_node.pod.log import say

PERIOD_SECONDS = 5.0
PATIENCE_SECONDS = 40.0
"""The probe's own deadlines, three of 10 s, end before."""
PROBE_JOB = "0"
"""Job number of a probe's namespaces (native/programs/jail_probe.c). No job has it."""


class JailWatch:
    """Runs probes, one at a time.

    Args:
        probe: the command that tries, and prints why it failed.
        broken: the file with the reason, for steps of running jobs (native/job/job.h), or for users who log in.
        worked: touched after each probe that worked.
        words: text of that file, with the probe's own words for {}.
    """

    def __init__(
        self,
        probe: tuple[str, ...] = (str(paths.JAIL_PROBE), str(paths.TREE)),
        broken: Path = paths.JAIL_BROKEN,
        worked: Path = paths.JAIL_WORKED,
        words: str = "{}",
    ) -> None:
        self._words = words
        self._broken = broken
        self._worked = worked
        broken.unlink(missing_ok=True)
        worked.unlink(missing_ok=True)
        self._probe = probe
        self._process: subprocess.Popen[bytes] | None = None
        self._started = 0.0
        self._next = 0.0
        self.sentence: str | None = None
        """The reason why no job could run here now; None while all is well or nothing is known."""
        self.tried = False

    def tick(self, now: float) -> None:
        """Called about twice a second; returns at once."""
        if self._process is None:
            if now >= self._next:
                self._start(now)
        else:
            self._look(self._process, now)

    @property
    def causes(self) -> Causes:
        """The probe's result as causes of drains; empty before the first probe is done."""
        return {reasons.JAIL: self.sentence} if self.tried else {}

    def _start(self, now: float) -> None:
        self._started, self._next = now, now + PERIOD_SECONDS
        try:
            self._process = subprocess.Popen(self._probe, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE)
        except OSError as error:
            self._conclude(f"no probe can be started: {error.strerror}")
            return
        assert self._process.stdout is not None
        os.set_blocking(self._process.stdout.fileno(), False)

    def _look(self, process: subprocess.Popen[bytes], now: float) -> None:
        assert process.stdout is not None
        said = plain((process.stdout.read() or b"").decode(errors="replace"))
        code = process.poll()
        if said:
            self._conclude(said)
        elif code is not None and not (code and self.sentence):
            self._conclude(None if code == 0 else f"the probe ended with {code} and no word")
        elif code is None and now - self._started > PATIENCE_SECONDS and not self.sentence:
            self._conclude(f"a step in the jail takes longer than {PATIENCE_SECONDS:.0f} s")
        if code is not None:
            process.stdout.close()
            self._process = None

    def _conclude(self, sentence: str | None) -> None:
        if sentence != self.sentence:
            say(f"the jail does not work here: {sentence}" if sentence else "the jail works here again")
            self._write(sentence)
        if sentence is None:
            self._worked.parent.mkdir(parents=True, exist_ok=True)
            self._worked.touch()
        self.sentence, self.tried = sentence, True

    def _write(self, sentence: str | None) -> None:
        if sentence is None:
            self._broken.unlink(missing_ok=True)
            return
        aside = self._broken.with_suffix(".new")
        aside.write_text(self._words.format(sentence))
        aside.replace(self._broken)
