"""Runs questions that may never get an answer, such as one to hanging storage or a lost GPU.

Each question has a process of its own, in a session of its own. One that does not answer in time is killed and left
alone. But a process that waits for storage in the kernel can't be killed. While any process of it lives, the question
is not asked again, so that they never pile up.
"""

import json
import os
import select
import signal
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from node_health import node
from node_health.verdict import Finding, Verdict

HIGHEST_FILE = 256
Question = Callable[[], Finding]


def ask(questions: Mapping[str, Question], seconds: float, hanging: Path = node.HANGING) -> dict[str, Finding]:
    """Returns the answer to each question, all asked at once.

    Args:
        questions: by name.
        seconds: how long all of them may take together.
        hanging: the folder that remembers which question still hangs.
    """
    hanging.mkdir(parents=True, exist_ok=True)
    findings: dict[str, Finding] = {}
    asked: dict[int, tuple[str, int]] = {}
    for name, question in questions.items():
        if sentence := still_hanging(hanging / name):
            findings[name] = Finding(Verdict.UNKNOWN, sentence)
        else:
            answers, child = _start(question)
            asked[answers] = (name, child)
    deadline = time.monotonic() + seconds
    while asked and (left := deadline - time.monotonic()) > 0:
        for answers in select.select(list(asked), [], [], left)[0]:
            name, child = asked.pop(answers)
            findings[name] = _answer(answers)
            os.waitpid(child, 0)
    for answers, (name, child) in asked.items():
        os.close(answers)
        (hanging / name).write_text(f"{child} {time.clock_gettime(time.CLOCK_BOOTTIME):.2f}")
        _end(child)
        findings[name] = Finding(Verdict.UNKNOWN, f"no answer within {seconds:g} s")
    return {name: findings[name] for name in questions}


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


def _start(question: Question) -> tuple[int, int]:
    answers, telling = os.pipe()
    child = os.fork()
    if child:
        os.close(telling)
        return answers, child
    try:
        os.setsid()
        _answer_as_child(question, telling)
    finally:
        os._exit(0)


def _end(child: int) -> None:
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
        finding = question()
    except Exception as error:  # A check with a defect gives UNKNOWN: never a pass, never a drain.
        finding = Finding(Verdict.UNKNOWN, f"{type(error).__name__}: {error}")
    os.write(telling, json.dumps([finding.verdict, finding.evidence[:1000]]).encode())


def _answer(answers: int) -> Finding:
    with os.fdopen(answers, "rb") as pipe:
        said = pipe.read()
    if not said:
        return Finding(Verdict.UNKNOWN, "the check's process ended without an answer")
    verdict, evidence = json.loads(said)
    return Finding(Verdict(verdict), evidence)
