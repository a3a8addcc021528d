"""A question without an answer ends at its deadline, and is not asked again while its process hangs."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from node_health import time_box
from node_health.verdict import Finding, Verdict

MUTE = Path(__file__).parents[1] / "native/mute_file_system.py"
WELL = Finding(Verdict.PASS, "well")


def test_answers_come_in_the_order_of_the_questions(tmp_path: Path) -> None:
    def slow() -> Finding:
        time.sleep(0.1)
        return Finding(Verdict.FAIL, "slow")

    answers = time_box.ask({"a": slow, "b": lambda: WELL}, 60, tmp_path)
    assert list(answers.items()) == [("a", Finding(Verdict.FAIL, "slow")), ("b", WELL)]


def test_a_question_that_fails_by_itself_is_unknown(tmp_path: Path) -> None:
    def raises() -> Finding:
        raise ValueError("surprise")

    def dies() -> Finding:
        os.kill(os.getpid(), signal.SIGKILL)
        return WELL

    answers = time_box.ask({"raises": raises, "dies": dies, "other": lambda: WELL}, 60, tmp_path)
    assert answers["raises"] == Finding(Verdict.UNKNOWN, "ValueError: surprise")
    assert answers["dies"] == Finding(Verdict.UNKNOWN, "the check's process ended without an answer")
    assert answers["other"] == WELL


def test_all_of_a_question_ends_with_its_time(tmp_path: Path) -> None:
    program = tmp_path / "program"

    def waits_for_a_program() -> Finding:
        with program.open("w") as file:
            child = subprocess.Popen(["sleep", "1000"])
            file.write(str(child.pid))
        child.wait()
        return WELL

    answers = time_box.ask({"q": waits_for_a_program, "other": lambda: WELL}, 2, tmp_path / "hanging")
    assert answers == {"q": Finding(Verdict.UNKNOWN, "no answer within 2 s"), "other": WELL}
    process = Path("/proc") / program.read_text()

    def has_ended() -> bool:
        try:
            return ") Z" in (process / "stat").read_text()
        except (FileNotFoundError, ProcessLookupError):
            return True

    wait_until(has_ended)
    wait_until(lambda: time_box.still_hanging(tmp_path / "hanging/q") is None)
    assert time_box.ask({"q": lambda: WELL}, 60, tmp_path / "hanging") == {"q": WELL}


def test_a_lock_of_the_asker_is_not_held_by_what_hangs(tmp_path: Path) -> None:
    held = (tmp_path / "lock").open("w")

    def files() -> Finding:
        files = [each for each in Path("/proc/self/fd").iterdir() if each.is_symlink()]
        return Finding(Verdict.PASS, " ".join(str(each.readlink()) for each in files))

    assert str(tmp_path / "lock") not in time_box.ask({"q": files}, 60, tmp_path)["q"].evidence
    held.close()


@pytest.fixture
def storage(tmp_path: Path) -> Iterator[tuple[Path, subprocess.Popen[str]]]:
    """A mounted file system that does not answer any more."""
    folder = tmp_path / "storage"
    folder.mkdir()
    server = subprocess.Popen(
        [sys.executable, MUTE, folder, "mute"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    try:
        assert server.stdout
        assert server.stdout.readline() == "mounted\n"
        yield folder, server
    finally:
        server.kill()
        server.wait()
        subprocess.run(["umount", "-l", folder], check=False, capture_output=True)


@pytest.mark.skipif(os.geteuid() != 0, reason="mounting takes root")
def test_hanging_storage_holds_up_nothing_and_is_asked_once(
    storage: tuple[Path, subprocess.Popen[str]], tmp_path: Path
) -> None:
    folder, server = storage
    hanging = tmp_path / "hanging"
    asked = tmp_path / "asked"

    def look() -> Finding:
        with asked.open("a") as file:
            file.write("x")
        os.statvfs(folder)
        return WELL

    questions = {"storage": look, "other": lambda: WELL}
    first = time_box.ask(questions, 2, hanging)
    assert first == {"storage": Finding(Verdict.UNKNOWN, "no answer within 2 s"), "other": WELL}
    assert asked.read_text() == "x"
    server.kill()
    server.wait()


def test_what_can_not_be_ended_is_not_asked_again(tmp_path: Path) -> None:
    """A process in the kernel survives SIGKILL; here a process stands for it that was never killed."""
    asleep = subprocess.Popen(["sleep", "1000"], start_new_session=True)
    try:
        since = time.clock_gettime(time.CLOCK_BOOTTIME)
        (tmp_path / "q").write_text(f"{asleep.pid} {since + 1:.2f}")
        found = time_box.ask({"q": lambda: WELL}, 60, tmp_path)["q"]
        assert found.verdict is Verdict.UNKNOWN
        assert "can't be ended: not asked again" in found.evidence
        # Another process that got the number later is none of ours.
        (tmp_path / "q").write_text(f"{asleep.pid} {since - 3600:.2f}")
        assert time_box.ask({"q": lambda: WELL}, 60, tmp_path) == {"q": WELL}
    finally:
        asleep.kill()
        asleep.wait()


def wait_until(condition) -> None:
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)
