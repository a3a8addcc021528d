"""Asks questions with a time box, and looks whether processes have ended."""

import time
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

from node_health import time_box
from node_health.answering import Question
from node_health.verdict import Answer, Finding, Verdict

WELL = Finding(Verdict.PASS, "well")


def _answer(name: str, look: Callable[[], Answer]) -> dict[str, Answer]:
    return {name: look()}


def ask(questions: Mapping[str, Callable[[], Answer]], seconds: float, hanging: Path) -> dict[str, Answer]:
    """Asks a question for each check."""
    each = [Question((name,), partial(_answer, name, look)) for name, look in questions.items()]
    return {name: timed.answer for name, timed in time_box.ask(each, seconds, hanging).items()}


def wait_until(condition) -> None:
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)  # Between looks at another process, which has no event to wait for.


def has_ended(process: str) -> bool:
    try:
        return ") Z" in Path("/proc", process, "stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return True


def answer_of(say: Callable[[], Mapping[str, Answer]], tmp_path: Path, seconds: float = 60) -> dict[str, Answer]:
    """Answers of one question about two checks."""
    timed = time_box.ask([Question(("a", "b"), say)], seconds, tmp_path)
    return {name: each.answer for name, each in timed.items()}
