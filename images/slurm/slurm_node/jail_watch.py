"""Does the jail work on this node? Asked before a job is: a node that fails every step at once would swallow the queue.

A trial makes and ends a job's namespaces as a job would, every few seconds. When it fails, the node is drained with the
reason; when it works again, the drain is lifted, if it is still ours. A trial that hangs with the storage is left alone
and no second one is started beside it.
"""

import os
import re
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

from slurm_node import paths
from slurm_node.log import say

REASON_PREFIX = "pulumi-slurm:jail"
"""What this node's drains begin with; only such a drain is lifted here."""
SLURMS_OWN_REASONS = ("batch job complete failure", "Prolog error", "Kill task failed")
"""What slurmctld writes when a step fails to start, which is what a broken jail makes it do."""
PERIOD_SECONDS = 5.0
RETRY_SECONDS = 10.0
"""Between attempts to tell slurmctld."""
PATIENCE_SECONDS = 20.0
"""The trial's own deadlines end before."""
SCONTROL_SECONDS = 10


@dataclass(frozen=True, slots=True)
class Drain:
    """Give the node no new jobs."""

    reason: str


@dataclass(frozen=True, slots=True)
class Undrain:
    """Lift our drain."""


class Told(Enum):
    """What slurmctld knows of the trial's outcome."""

    NOTHING = "nothing"
    WORKS = "works"
    BROKEN = "broken"


@dataclass(frozen=True, slots=True)
class NodeRecord:
    """This node as slurmctld sees it."""

    drained: bool
    reason: str


def reaction(sentence: str | None, node: NodeRecord) -> Drain | Undrain | None:
    """What to change about the node's drain.

    Args:
        sentence: why the jail does not work; None when it does.
        node: the node's record.
    """
    ours = node.drained and node.reason.startswith(REASON_PREFIX)
    if sentence is None:
        return Undrain() if ours else None
    consequence = any(node.reason.startswith(reason) for reason in SLURMS_OWN_REASONS)
    if node.drained and not ours and not consequence:
        return None
    wanted = f"{REASON_PREFIX}: {sentence}"
    return None if ours and node.reason == wanted else Drain(wanted)


def parse_record(text: str) -> NodeRecord:
    """Reads what ``scontrol -o show node NAME`` prints."""
    state = re.search(r"\bState=(\S+)", text)
    reason = re.search(r"\bReason=(.*?)(?: \[\S+@\S+\])?\s*$", text)
    return NodeRecord("DRAIN" in (state[1] if state else ""), reason[1] if reason else "")


def plain(sentence: str) -> str:
    """A sentence as one line that fits into a node's reason."""
    return " ".join(re.sub(r"[^ -~]", " ", sentence).replace('"', "'").split())[:200]


class JailWatch:
    """Runs trials, one at a time, and tells slurmctld when the outcome changes.

    Args:
        node_name: this node in Slurm.
        trial: the command that tries, and prints why it failed.
        scontrol: runs scontrol with arguments; returns what it printed, or None when slurmctld does not answer.
        broken: the file that says why to steps of jobs that run already (native/job.h).
    """

    def __init__(
        self,
        node_name: str,
        trial: tuple[str, ...] = (str(paths.JAIL_TRIAL), str(paths.TREE)),
        scontrol: Callable[..., str | None] | None = None,
        broken: Path = paths.JAIL_BROKEN,
    ) -> None:
        self._broken = broken
        broken.unlink(missing_ok=True)
        self._node_name = node_name
        self._trial = trial
        self._scontrol = scontrol or run_scontrol
        self._process: subprocess.Popen[bytes] | None = None
        self._started = 0.0
        self._next = 0.0
        self._tell_at = 0.0
        self._told = Told.NOTHING
        self.sentence: str | None = None
        """Why no job could run here now; None while all is well or nothing is known."""
        self.tried = False

    def tick(self, now: float) -> None:
        """Called about twice a second; returns at once, but for a call of scontrol when the outcome changed."""
        if self._process is None:
            if now >= self._next:
                self._start(now)
        else:
            self._look(self._process, now)
        wanted = Told.BROKEN if self.sentence else Told.WORKS
        if self.tried and wanted is not self._told and now >= self._tell_at:
            self._tell_at = now + RETRY_SECONDS
            if self._tell():
                self._told = wanted

    def _start(self, now: float) -> None:
        self._process = subprocess.Popen(self._trial, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE)
        assert self._process.stdout is not None
        os.set_blocking(self._process.stdout.fileno(), False)
        self._started, self._next = now, now + PERIOD_SECONDS

    def _look(self, process: subprocess.Popen[bytes], now: float) -> None:
        assert process.stdout is not None
        said = plain((process.stdout.read() or b"").decode(errors="replace"))
        code = process.poll()
        if said:
            self._conclude(said)
        elif code is not None and not (code and self.sentence):
            self._conclude(None if code == 0 else f"the trial ended with {code} and no word")
        elif code is None and now - self._started > PATIENCE_SECONDS and not self.sentence:
            self._conclude(f"making a job's view of the jail takes longer than {PATIENCE_SECONDS:.0f} s")
        if code is not None:
            process.stdout.close()
            self._process = None

    def _conclude(self, sentence: str | None) -> None:
        if sentence != self.sentence:
            say(f"no job can run here: {sentence}" if sentence else "jobs can run in the jail again")
            self._told = Told.NOTHING
            self._write(sentence)
        self.sentence, self.tried = sentence, True

    def _write(self, sentence: str | None) -> None:
        if sentence is None:
            self._broken.unlink(missing_ok=True)
            return
        aside = self._broken.with_suffix(".new")
        aside.write_text(sentence)
        aside.replace(self._broken)

    def _tell(self) -> bool:
        """Drains or undrains the node as needed; False when slurmctld did not answer."""
        printed = self._scontrol("-o", "show", "node", self._node_name)
        if printed is None:
            return False
        match reaction(self.sentence, parse_record(printed)):
            case Drain(reason):
                say(f"draining this node: {reason}")
                return self._update("state=drain", f"reason={reason}")
            case Undrain():
                say("lifting this node's drain")
                return self._update("state=undrain")
        return True

    def _update(self, *changes: str) -> bool:
        return self._scontrol("update", f"nodename={self._node_name}", *changes) is not None


def run_scontrol(*arguments: str) -> str | None:
    """Runs scontrol as root of this node; None when it fails or takes too long."""
    try:
        done = subprocess.run(
            ["/opt/slurm/bin/scontrol", *arguments],
            capture_output=True,
            text=True,
            timeout=SCONTROL_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return None
    return done.stdout if done.returncode == 0 else None
