"""A process that answers questions, one after the other, each by one line of JSON; and its end, with what it started.

The line has check → [verdict or SKIPPED, evidence, action]. Whatever else comes is UNKNOWN.
"""

import json
import os
import signal
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from node_health.check import SECONDS
from node_health.verdict import Action, Answer, Finding, Skipped, Verdict

HIGHEST_FILE = 256
LONGEST_EVIDENCE = 1000
SKIPPED = "SKIPPED"
PR_SET_CHILD_SUBREAPER = 36
"""linux/prctl.h. Processes whose parent ends become children of the nearest process above that set this."""
ENDS_SOON, ENDS_WITHIN = 0.02, 1.0
"""Seconds in which a killed process ends mostly, and at last, unless it waits in the kernel."""

Ask = Callable[[], Mapping[str, Answer]]


@dataclass(frozen=True, slots=True)
class Question:
    """Checks that are answered together.

    Attributes:
        checks: their names; the first one names the question.
        ask: answers in the process, by the check's name.
        seconds: how long it may take.
        group: name of the questions with which it shares a process at first.
        fails_after: check → seconds after which it fails if the question hangs and can't be ended.
    """

    checks: tuple[str, ...]
    ask: Ask
    seconds: float = SECONDS
    group: str = ""
    fails_after: Mapping[str, float] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """Its name, and that of the file that remembers it while it hangs."""
        return self.checks[0]


def start(questions: Sequence[Question]) -> tuple[int, int]:
    """Starts a process in a session of its own; returns the pipe of its answers, and its id."""
    answers, telling = os.pipe()
    child = os.fork()
    if child:
        os.close(telling)
        os.set_blocking(answers, False)
        return answers, child
    try:
        os.setsid()
        _answer_as_child(questions, telling)
    finally:
        os._exit(0)


def end(child: int) -> None:
    """Kills a process with all that it started."""
    try:
        os.killpg(child, signal.SIGKILL)
    except ProcessLookupError:  # It has not called setsid yet.
        os.kill(child, signal.SIGKILL)


@contextmanager
def nothing_left() -> Iterator[None]:
    """Kills, at its end, what processes that were started in it left, also in sessions and groups of their own."""
    spared = below(()) if _has_children() else frozenset()
    _adopt(True)
    try:
        yield
    finally:
        _end_all(spared)
        _adopt(False)


def below(spared: Collection[int], processes: Path = Path("/proc")) -> frozenset[int]:
    """Returns the processes that descend from this one.

    Args:
        spared: those without which, and without whose descendants.
        processes: /proc.
    """
    parents: dict[int, int] = {}
    for stat in processes.glob("[0-9]*/stat"):
        with suppress(OSError):  # it has just ended
            parents[int(stat.parent.name)] = int(stat.read_bytes().rpartition(b")")[2].split()[1])
    descendants, latest = frozenset[int](), {os.getpid()}
    # A number that two processes had, one after the other, may be below itself.
    while latest := {child for child, parent in parents.items() if parent in latest}.difference(spared, descendants):
        descendants |= latest
    return descendants


def _adopt(orphans: bool) -> None:
    """Sets whether this process becomes the parent of processes below it whose parent ends."""
    import ctypes

    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, ctypes.c_ulong(orphans), *[ctypes.c_ulong(0)] * 3)


def _has_children() -> bool:
    try:
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return False
    return True


def _end_all(spared: Collection[int]) -> None:
    """Kills what is below this process until nothing is, or the rest waits in the kernel."""
    # Most often only those are left that were killed right before. To look through /proc takes longer.
    soon = time.monotonic() + ENDS_SOON
    while _reap(spared) and time.monotonic() < soon:
        time.sleep(0.001)  # No wait for a child has a deadline.
    until = time.monotonic() + ENDS_WITHIN
    while _reap(spared):
        for process in below(spared):
            with suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)
        if time.monotonic() > until:
            return
        time.sleep(0.01)  # The kernel tells nobody when the last descendant ends.


def _reap(spared: Collection[int]) -> bool:
    """Takes leave of children that have ended; returns whether others are left."""
    if not spared:
        with suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        return _has_children()
    for process in below(spared):
        with suppress(ChildProcessError):  # a grandchild, until its parent ends
            os.waitpid(process, os.WNOHANG)
    return bool(below(spared))


def _answer_as_child(questions: Sequence[Question], telling: int) -> None:
    # Slurm waits until no process holds the output of its health check program.
    nothing = os.open("/dev/null", os.O_RDWR)
    for stream in (0, 1, 2):
        os.dup2(nothing, stream)
    # Above all the lock, which an abandoned process would hold for ever.
    os.closerange(3, telling)
    os.closerange(telling + 1, HIGHEST_FILE)
    with os.fdopen(telling, "wb") as pipe:
        for question in questions:
            pipe.write(_answer_of(question))
            pipe.flush()


def _answer_of(question: Question) -> bytes:
    try:
        answers = question.ask()
    except Exception as error:  # A check with a defect gives UNKNOWN: never a pass, never a drain.
        answers = dict.fromkeys(question.checks, Finding(Verdict.UNKNOWN, f"{type(error).__name__}: {error}"))
    return json.dumps({check: _as_json(answer) for check, answer in answers.items()}).encode() + b"\n"


def _as_json(answer: Answer) -> list[str | None]:
    if isinstance(answer, Skipped):
        return [SKIPPED, answer.why[:LONGEST_EVIDENCE], None]
    return [answer.verdict, answer.evidence[:LONGEST_EVIDENCE], answer.action]


def parse(question: Question, said: bytes) -> tuple[dict[str, Answer], bool]:
    """Returns an answer for each check of the question, whatever its process said, and whether it was one."""
    try:
        answers = json.loads(said)
        return {check: _answer(answers.get(check)) for check in question.checks}, answers.keys() <= {*question.checks}
    except (ValueError, AttributeError):
        why = (
            f"the check's process said no answer: {said[:80]!r}"
            if said
            else "the check's process ended without an answer"
        )
        return dict.fromkeys(question.checks, Finding(Verdict.UNKNOWN, why)), False


def _answer(said: object) -> Answer:
    match said:
        case [str(verdict), str(evidence), None | str() as action]:
            try:
                if verdict == SKIPPED:
                    return Skipped(evidence)
                return Finding(Verdict(verdict), evidence, Action(action) if action else None)
            except ValueError:
                pass
    return Finding(Verdict.UNKNOWN, f"the check gave no verdict: {str(said)[:80]}")
