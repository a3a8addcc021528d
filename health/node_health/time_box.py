"""Runs questions that may never get an answer, such as one to hanging storage or a lost GPU.

Each question has a process of its own, in a session of its own. One that does not answer in time is killed and left
alone. But a process that waits for storage in the kernel can't be killed. While any process of it lives, the question
is not asked again, so that they never pile up.

An answer is one line of JSON: check → [verdict or SKIPPED, evidence, action]. Whatever else comes is UNKNOWN.
"""

import json
import os
import select
import signal
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from node_health import node
from node_health.check import SECONDS
from node_health.verdict import Action, Answer, Finding, Skipped, Verdict

HIGHEST_FILE = 256
LONGEST_EVIDENCE = 1000
LONGEST_ANSWER = 1 << 20
"""Bytes. A child that writes more without an end is given up."""
SKIPPED = "SKIPPED"

Ask = Callable[[], Mapping[str, Answer]]


@dataclass(frozen=True, slots=True)
class Question:
    """Checks that are answered together by one process.

    Attributes:
        checks: their names; the first one names the question.
        ask: answers in the child, by the check's name.
        seconds: how long it may take.
    """

    checks: tuple[str, ...]
    ask: Ask
    seconds: float = SECONDS

    @property
    def name(self) -> str:
        """Its name, and that of the file that remembers it while it hangs."""
        return self.checks[0]


@dataclass(frozen=True, slots=True)
class Timed:
    """An answer, and how many seconds it took."""

    answer: Answer
    seconds: float = 0.0


@dataclass(slots=True)
class _Child:
    """A process that was asked, and what it has said so far."""

    question: Question
    process: int
    deadline: float
    said: bytearray = field(default_factory=bytearray)


def ask(questions: Sequence[Question], seconds: float = SECONDS, hanging: Path = node.HANGING) -> dict[str, Timed]:
    """Returns the answer of each check, all asked at once.

    Args:
        questions: what to ask.
        seconds: how long all of them may take together.
        hanging: the folder that remembers which question still hangs.
    """
    hanging.mkdir(parents=True, exist_ok=True)
    begun = time.monotonic()
    answers: dict[str, Timed] = {}
    children: dict[int, _Child] = {}
    hang = {file.name: still_hanging(file) for file in hanging.iterdir()}
    for question in questions:
        if sentence := hang.get(question.name):
            answers.update(_unknown(question, sentence, 0.0))
        else:
            pipe, process = _start(question)
            children[pipe] = _Child(question, process, begun + min(seconds, question.seconds))
    while children:
        now = time.monotonic()
        for pipe in [pipe for pipe, child in children.items() if child.deadline <= now]:
            child = children.pop(pipe)
            _abandon(child, pipe, hanging)
            limit = min(seconds, child.question.seconds)
            answers.update(_unknown(child.question, f"no answer within {limit:g} s", now - begun))
        if not children:
            break
        first = min(child.deadline for child in children.values())
        for pipe in select.select(list(children), [], [], max(0.0, first - now))[0]:
            if (said := _hear(children[pipe], pipe)) is not None:
                child = children.pop(pipe)
                _finish(child, pipe)
                took = time.monotonic() - begun
                answers.update({check: Timed(answer, took) for check, answer in _parse(child.question, said).items()})
    return {check: answers[check] for question in questions for check in question.checks}


def still_hanging(file: Path, processes: Path = Path("/proc")) -> str | None:
    """Returns a sentence while a process of an abandoned question still exists.

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
            fields = stat.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        started = int(fields[19]) / os.sysconf("SC_CLK_TCK")
        if fields[3] == session and fields[0] not in "ZX" and started <= float(since):
            return f"an earlier question hangs for {now - float(since):.0f} s and can't be ended: not asked again"
    file.unlink(missing_ok=True)
    return None


def _unknown(question: Question, sentence: str, seconds: float) -> dict[str, Timed]:
    return {check: Timed(Finding(Verdict.UNKNOWN, sentence), seconds) for check in question.checks}


def _start(question: Question) -> tuple[int, int]:
    answers, telling = os.pipe()
    child = os.fork()
    if child:
        os.close(telling)
        os.set_blocking(answers, False)
        return answers, child
    try:
        os.setsid()
        _answer_as_child(question, telling)
    finally:
        os._exit(0)


def _hear(child: _Child, pipe: int) -> bytes | None:
    """Reads what came; returns the whole answer once it is complete or can't become so.

    It does not wait for the end of the pipe: a process that the check left behind may hold it for ever.
    """
    try:
        more = os.read(pipe, 1 << 16)
    except BlockingIOError:
        return None
    child.said += more
    if not more or b"\n" in more or len(child.said) > LONGEST_ANSWER:
        return bytes(child.said)
    return None


def _finish(child: _Child, pipe: int) -> None:
    os.close(pipe)
    _kill(child.process)  # also what the check started and left behind
    os.waitpid(child.process, os.WNOHANG)


def _abandon(child: _Child, pipe: int, hanging: Path) -> None:
    os.close(pipe)
    since = time.clock_gettime(time.CLOCK_BOOTTIME)
    (hanging / child.question.name).write_text(f"{child.process} {since:.2f}")
    _kill(child.process)


def _kill(child: int) -> None:
    try:
        os.killpg(child, signal.SIGKILL)
    except ProcessLookupError:  # It has not called setsid yet.
        os.kill(child, signal.SIGKILL)


def _answer_as_child(question: Question, telling: int) -> None:
    # Slurm waits until no process holds the output of its health check program.
    nothing = os.open("/dev/null", os.O_RDWR)
    for stream in (0, 1, 2):
        os.dup2(nothing, stream)
    # Above all the lock, which an abandoned process would hold for ever.
    os.closerange(3, telling)
    os.closerange(telling + 1, HIGHEST_FILE)
    try:
        answers = question.ask()
    except Exception as error:  # A check with a defect gives UNKNOWN: never a pass, never a drain.
        answers = dict.fromkeys(question.checks, Finding(Verdict.UNKNOWN, f"{type(error).__name__}: {error}"))
    said = json.dumps({check: _as_json(answer) for check, answer in answers.items()}).encode() + b"\n"
    with os.fdopen(telling, "wb") as pipe:
        pipe.write(said)


def _as_json(answer: Answer) -> list[str | None]:
    if isinstance(answer, Skipped):
        return [SKIPPED, answer.why[:LONGEST_EVIDENCE], None]
    return [answer.verdict, answer.evidence[:LONGEST_EVIDENCE], answer.action]


def _parse(question: Question, said: bytes) -> dict[str, Answer]:
    """Returns an answer for each check of the question, whatever its process said."""
    try:
        answers = json.loads(said.partition(b"\n")[0])
        return {check: _answer(answers.get(check)) for check in question.checks}
    except (ValueError, AttributeError):
        why = (
            f"the check's process said no answer: {said[:80]!r}"
            if said
            else "the check's process ended without an answer"
        )
        return dict.fromkeys(question.checks, Finding(Verdict.UNKNOWN, why))


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
