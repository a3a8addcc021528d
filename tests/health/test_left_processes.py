"""Whatever a check leaves behind ends: children, daemons, processes in sessions of their own."""

import os
import signal
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path

import pytest
from node_health.verdict import Answer, Finding, Verdict

from tests.health.asking import WELL, answer_of, ask, has_ended, wait_until


def test_a_process_that_a_check_leaves_behind_delays_nothing_and_ends(tmp_path: Path) -> None:
    """It holds the pipe, which never comes to its end."""
    left = tmp_path / "left"

    def forks() -> Mapping[str, Answer]:
        child = os.fork()
        if not child:
            time.sleep(1000)  # Stands for a child that stays: the time box ends it.
        left.write_text(str(child))
        return {"a": WELL, "b": WELL}

    begun = time.monotonic()
    assert answer_of(forks, tmp_path / "hanging") == {"a": WELL, "b": WELL}
    assert time.monotonic() - begun < 30
    wait_until(lambda: has_ended(left.read_text()))


def leaves_a_daemon(told: Path) -> None:
    """Leaves a process in a session of its own, without a living parent, that ignores SIGTERM."""
    if not (child := os.fork()):
        os.setsid()
        if not os.fork():
            os.setsid()
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
            told.with_suffix(".new").write_text(str(os.getpid()))
            told.with_suffix(".new").rename(told)
            while True:
                signal.pause()
        os._exit(0)
    os.waitpid(child, 0)
    wait_until(told.exists)


@pytest.mark.parametrize("answers", [True, False], ids=["a check that answers", "a check that hangs"])
def test_a_daemon_that_a_check_leaves_ends_with_the_run(answers: bool, tmp_path: Path) -> None:
    daemon = tmp_path / "daemon"

    def starts() -> Answer:
        leaves_a_daemon(daemon)
        while not answers:
            signal.pause()
        return WELL

    with subprocess.Popen(["sleep", "1000"]) as other:
        found = ask({"q": starts}, 60 if answers else 5, tmp_path / "hanging")["q"]
        assert other.poll() is None
        other.kill()
    assert found == (WELL if answers else Finding(Verdict.UNKNOWN, "no answer within 5 s"))
    wait_until(lambda: has_ended(daemon.read_text()))


def test_a_child_in_a_session_of_its_own_ends_with_its_check(tmp_path: Path) -> None:
    program = tmp_path / "program"

    def hangs() -> Answer:
        child = subprocess.Popen(["sleep", "1000"], start_new_session=True)
        program.write_text(str(child.pid))
        child.wait()
        return WELL

    assert ask({"q": hangs}, 5, tmp_path / "hanging") == {"q": Finding(Verdict.UNKNOWN, "no answer within 5 s")}
    wait_until(lambda: has_ended(program.read_text()))
