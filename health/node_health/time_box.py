"""Runs questions that may never get an answer, such as one to hanging storage or a lost GPU.

Questions of a group share a process at first, which asks them one after the other: a healthy node is checked by few
processes. After a moment each question that is still unanswered gets a process of its own. So does each that follows
one that hangs, ends the process or says no answer. Each process has a session of its own. One that does not answer in
time is killed and left alone. At the end all that processes left is killed, in whichever session it is. But a process
that waits for storage or a driver in the kernel can't be killed. While any process of it lives, its question is not
asked again, so that they never pile up.
"""

import math
import os
import select
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from node_health import answering, node
from node_health.answering import Question
from node_health.check import SECONDS
from node_health.verdict import Answer, Finding, Verdict, fails, unknown

TOGETHER_SECONDS = 1.0
"""One process answers all questions. After this time each that is left gets its own."""
LONGEST_ANSWER = 1 << 20
"""Bytes. A child that writes more without an end is given up."""


@dataclass(frozen=True, slots=True)
class Timed:
    """An answer, and how many seconds it took."""

    answer: Answer
    seconds: float = 0.0


@dataclass(slots=True)
class _Child:
    """A process that was asked.

    Attributes:
        questions: those that it has not answered; it is at the first one.
        process: its id, and that of its session.
        since: when it came to that question.
        said: what it has said of that.
    """

    questions: list[Question]
    process: int
    since: float
    said: bytearray = field(default_factory=bytearray)

    @property
    def question(self) -> Question:
        return self.questions[0]


def ask(
    questions: Sequence[Question],
    seconds: float = SECONDS,
    hanging: Path = node.HANGING,
    together: float = TOGETHER_SECONDS,
) -> dict[str, Timed]:
    """Returns the answer of each check.

    Args:
        questions: what to ask.
        seconds: how long all of them may take together.
        hanging: the folder that remembers which question still hangs.
        together: for how many seconds questions share a process.
    """
    hanging.mkdir(parents=True, exist_ok=True)
    hang = {file.name: still_hanging(file) for file in hanging.iterdir()}
    asking = _Asking(seconds, hanging, together)
    groups: dict[str, list[Question]] = {}
    for question in questions:
        if (hangs := hang.get(question.name)) is not None:
            asking.answers.update({check: Timed(of_hanging(question, check, hangs)) for check in question.checks})
        else:
            groups.setdefault(question.group, []).append(question)
    with answering.nothing_left():
        for group in groups.values():
            asking.start(group)
        while asking.children:
            asking.go_on()
    return {check: asking.answers[check] for question in questions for check in question.checks}


class _Asking:
    """The processes of one call, by the pipes into which they answer, and their answers."""

    def __init__(self, seconds: float, hanging: Path, together: float) -> None:
        self.answers: dict[str, Timed] = {}
        self.children: dict[int, _Child] = {}
        self._seconds, self._hanging = seconds, hanging
        begun = time.monotonic()
        self._end, self._parts_at = begun + seconds, begun + min(together, seconds / 2)

    def start(self, questions: list[Question]) -> None:
        """Starts a process that answers questions one after the other."""
        pipe, process = answering.start(questions)
        self.children[pipe] = _Child(questions, process, time.monotonic())

    def go_on(self) -> None:
        """Waits for the next answer or the next deadline."""
        now = time.monotonic()
        if now >= self._parts_at:
            for child in [child for child in self.children.values() if len(child.questions) > 1]:
                self._start_each(child)
        for pipe in [pipe for pipe, child in self.children.items() if self._deadline(child) <= now]:
            self._give_up(pipe, now)
        if not self.children:
            return
        moments = [self._deadline(child) for child in self.children.values()]
        moments += [self._parts_at for child in self.children.values() if len(child.questions) > 1]
        ready = select.select(list(self.children), [], [], max(0.0, min(moments) - now))[0]
        for pipe in ready:
            self._hear(pipe)

    def _start_each(self, child: _Child) -> None:
        """Starts a process for each further question of a child, which keeps the one that it is at."""
        further, child.questions = child.questions[1:], child.questions[:1]
        for question in further:
            self.start([question])

    def _deadline(self, child: _Child) -> float:
        return min(self._end, child.since + child.question.seconds)

    def _give_up(self, pipe: int, now: float) -> None:
        child = self.children.pop(pipe)
        self._start_each(child)
        _abandon(child, pipe, self._hanging)
        limit = min(self._seconds, child.question.seconds)
        self.answers.update(_unknown(child.question, f"no answer within {limit:g} s", now - child.since))

    def _hear(self, pipe: int) -> None:
        """Reads what came.

        It does not wait for the end of the pipe: a process that a check left behind may hold it for ever.
        """
        child = self.children[pipe]
        try:
            more = os.read(pipe, 1 << 16)
        except BlockingIOError:
            return
        child.said += more
        while b"\n" in child.said:
            line, _, rest = bytes(child.said).partition(b"\n")
            is_answer, child.said = self._take(child, line), bytearray(rest)
            if not is_answer or not child.questions:
                self._finish(pipe)
                return
        if not more or len(child.said) > LONGEST_ANSWER:
            self._take(child, bytes(child.said))
            self._finish(pipe)

    def _take(self, child: _Child, said: bytes) -> bool:
        """Takes what a child said as the answer of its question; returns whether it is one."""
        question, now = child.questions.pop(0), time.monotonic()
        answers, is_answer = answering.parse(question, said)
        self.answers.update({check: Timed(answer, now - child.since) for check, answer in answers.items()})
        child.since = now
        return is_answer

    def _finish(self, pipe: int) -> None:
        """Ends a child with all that it started and left behind; others get the questions that it has not answered."""
        child = self.children.pop(pipe)
        os.close(pipe)
        answering.end(child.process)
        os.waitpid(child.process, os.WNOHANG)
        for question in child.questions:
            self.start([question])


def still_hanging(file: Path, processes: Path = Path("/proc")) -> float | None:
    """Returns for how many seconds a question hangs, while a process of an abandoned one still exists; else None.

    Args:
        file: holds its session and when it was abandoned, in seconds since boot.
        processes: /proc.
    """
    try:
        session, since = file.read_text().split()
    except (OSError, ValueError):
        return None
    now = time.clock_gettime(time.CLOCK_BOOTTIME)
    for stat in processes.glob("[0-9]*/stat"):
        try:
            # proc(5): after the name in brackets come state, ppid, pgrp, session …; start time is the 20th of them.
            # The name is of bytes that a user chooses.
            fields = stat.read_text(errors="replace").rpartition(")")[2].split()
        except OSError:
            continue
        started = int(fields[19]) / os.sysconf("SC_CLK_TCK")
        if fields[3] == session and fields[0] not in "ZX" and started <= float(since):
            return now - float(since)
    file.unlink(missing_ok=True)
    return None


def of_hanging(question: Question, check: str, seconds: float) -> Finding:
    """Returns the finding of a check whose question hangs for so long, and can't be ended."""
    if seconds >= (longest := question.fails_after.get(check, math.inf)):
        return fails(f"it does not answer, and the kernel can't end a question to it for more than {longest:g} s")
    return unknown(f"an earlier question hangs for {seconds:.0f} s and can't be ended: not asked again")


def _unknown(question: Question, sentence: str, seconds: float) -> dict[str, Timed]:
    return {check: Timed(Finding(Verdict.UNKNOWN, sentence), seconds) for check in question.checks}


def _abandon(child: _Child, pipe: int, hanging: Path) -> None:
    os.close(pipe)
    answering.end(child.process)
    since = time.clock_gettime(time.CLOCK_BOOTTIME)
    with suppress(OSError):  # Without room for the note the other answers count all the same.
        (hanging / child.question.name).write_text(f"{child.process} {since:.2f}")
