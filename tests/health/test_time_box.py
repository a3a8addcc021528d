"""A question without an answer ends at its deadline, and is not asked again while its process hangs."""

import contextlib
import math
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest
from node_health import answering, catalogue, run, time_box
from node_health.answering import Question
from node_health.check import Applies
from node_health.verdict import Action, Answer, Finding, Skipped, Verdict

from tests.health.asking import WELL, answer_of, ask, has_ended, wait_until
from tests.health.fakes import fake_machine

MUTE = Path(__file__).parents[1] / "native/mute_file_system.py"


def test_answers_come_in_the_order_of_the_questions(tmp_path: Path) -> None:
    def slow() -> Finding:
        time.sleep(0.1)  # The other question is answered first.
        return Finding(Verdict.FAIL, "slow")

    answers = ask({"a": slow, "b": lambda: WELL}, 60, tmp_path)
    assert list(answers.items()) == [("a", Finding(Verdict.FAIL, "slow")), ("b", WELL)]


def test_a_question_that_fails_by_itself_is_unknown(tmp_path: Path) -> None:
    def raises() -> Finding:
        raise ValueError("surprise")

    def dies() -> Finding:
        os.kill(os.getpid(), signal.SIGKILL)
        return WELL

    answers = ask({"raises": raises, "dies": dies, "other": lambda: WELL}, 60, tmp_path)
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

    answers = ask({"q": waits_for_a_program, "other": lambda: WELL}, 2, tmp_path / "hanging")
    assert answers == {"q": Finding(Verdict.UNKNOWN, "no answer within 2 s"), "other": WELL}
    wait_until(lambda: has_ended(program.read_text()))
    wait_until(lambda: time_box.still_hanging(tmp_path / "hanging/q") is None)
    assert ask({"q": lambda: WELL}, 60, tmp_path / "hanging") == {"q": WELL}


def test_what_hangs_and_can_not_be_noted_harms_no_other_answer(tmp_path: Path) -> None:
    """The folder is full; a folder in the file's place stands for that."""
    (tmp_path / "q").mkdir()

    def hangs() -> Finding:
        time.sleep(1000)  # Stands for a check that hangs: the time box ends it.
        return WELL

    assert ask({"q": hangs, "other": lambda: WELL}, 1, tmp_path) == {
        "q": Finding(Verdict.UNKNOWN, "no answer within 1 s"), "other": WELL,
    }  # fmt: skip


def test_a_process_with_a_name_of_any_bytes_ends_no_run(tmp_path: Path) -> None:
    """A user gives it to his process (prctl(2), PR_SET_NAME)."""
    for number, parent in ((5, 1), (6, os.getpid())):
        (tmp_path / str(number)).mkdir()
        fields = f"{parent} {number} 5 {'0 ' * 15}0".encode()
        (tmp_path / str(number) / "stat").write_bytes(b"%d (\xff) x) S %b\n" % (number, fields))
    (tmp_path / "q").write_text("5 1000.0")
    assert answering.below((), tmp_path) == {6}
    assert time_box.still_hanging(tmp_path / "q", tmp_path) is not None


def test_a_lock_of_the_asker_is_not_held_by_what_hangs(tmp_path: Path) -> None:
    held = (tmp_path / "lock").open("w")

    def files() -> Finding:
        files = [each for each in Path("/proc/self/fd").iterdir() if each.is_symlink()]
        return Finding(Verdict.PASS, " ".join(str(each.readlink()) for each in files))

    assert str(tmp_path / "lock") not in str(ask({"q": files}, 60, tmp_path)["q"])
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
    first = ask(questions, 2, hanging)
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
        found = ask({"q": lambda: WELL}, 60, tmp_path)["q"]
        assert isinstance(found, Finding)
        assert found.verdict is Verdict.UNKNOWN
        assert "can't be ended: not asked again" in found.evidence
        # Another process that got the number later is none of ours.
        (tmp_path / "q").write_text(f"{asleep.pid} {since - 3600:.2f}")
        assert ask({"q": lambda: WELL}, 60, tmp_path) == {"q": WELL}
    finally:
        asleep.kill()
        asleep.wait()


@pytest.mark.parametrize(("seconds", "verdict"), [(119, Verdict.UNKNOWN), (121, Verdict.FAIL)])
def test_a_driver_that_hangs_for_long_is_a_fault_of_the_machine(seconds: float, verdict: Verdict) -> None:
    question = Question(("driver", "other"), dict, fails_after={"driver": 120.0})
    assert time_box.of_hanging(question, "driver", seconds).verdict is verdict
    assert time_box.of_hanging(question, "other", seconds).verdict is Verdict.UNKNOWN


def test_of_all_checks_the_gpus_driver_alone_fails_by_a_hang(tmp_path: Path) -> None:
    asked = run.questions(fake_machine.build(tmp_path), catalogue.load(*Applies))
    finite = {str(check) for each in asked for check, longest in each.fails_after.items() if longest < math.inf}
    assert finite == {"gpu driver"}


def test_checks_that_share_a_source_are_answered_together(tmp_path: Path) -> None:
    said: dict[str, Answer] = {"a": Finding(Verdict.FAIL, "bad", Action.RESET_GPU), "b": Skipped("none here")}
    assert answer_of(lambda: said, tmp_path) == said


def test_a_check_without_an_answer_of_its_own_is_unknown(tmp_path: Path) -> None:
    assert answer_of(lambda: {"a": WELL}, tmp_path) == {
        "a": WELL, "b": Finding(Verdict.UNKNOWN, "the check gave no verdict: None"),
    }  # fmt: skip


def own_pipe() -> int:
    """The pipe into which a check's process answers: the only one that it has."""
    for file in [*Path("/proc/self/fd").iterdir()]:
        with contextlib.suppress(OSError):  # the folder's own number
            if str(file.readlink()).startswith("pipe:"):
                return int(file.name)
    raise AssertionError("no pipe")


def written(text: bytes) -> Callable[[], Mapping[str, Answer]]:
    """A check that writes into its own pipe, whose number it finds, and leaves."""

    def say() -> Mapping[str, Answer]:
        os.write(own_pipe(), text)
        os._exit(0)

    return say


@pytest.mark.parametrize(
    ("text", "evidence"),
    [
        (b"garbage\n", "the check's process said no answer: b'garbage'"),
        (b'["PASS"]\n', "the check's process said no answer"),
        (b'{"a": "PASS", "b": ["PASS"]}\n', "the check gave no verdict"),
        (b'{"a": ["GOOD", "x", null], "b": ["PASS", "x", "DANCE"]}\n', "the check gave no verdict"),
        (b'{"a": ["PASS", "x", null]', "the check's process said no answer"),
    ],
)
def test_garbage_is_unknown_and_never_a_pass(text: bytes, evidence: str, tmp_path: Path) -> None:
    for answer in answer_of(written(text), tmp_path).values():
        assert isinstance(answer, Finding)
        assert answer.verdict is Verdict.UNKNOWN
        assert evidence in answer.evidence


def test_a_check_that_fills_its_pipe_is_given_up(tmp_path: Path) -> None:
    def fills() -> Mapping[str, Answer]:
        pipe = own_pipe()
        while True:
            os.write(pipe, b"x" * 65536)

    for answer in answer_of(fills, tmp_path).values():
        assert isinstance(answer, Finding)
        assert answer.verdict is Verdict.UNKNOWN
        assert len(answer.evidence) < 200


def test_a_question_has_a_time_of_its_own(tmp_path: Path) -> None:
    def never() -> Mapping[str, Answer]:
        time.sleep(1000)  # Stands for a check that hangs: the time box ends it.
        return {}

    quick = Question(("quick",), lambda: {"quick": WELL})
    slow = Question(("slow",), never, seconds=0.2)
    found = time_box.ask([quick, slow], 60, tmp_path)
    assert found["quick"].answer == WELL
    assert found["slow"].answer == Finding(Verdict.UNKNOWN, "no answer within 0.2 s")


def processes(questions: list[Question], folder: Path, together: float = 60) -> dict[str, str]:
    """Asks; returns the evidence of each check, which is the process that answered."""
    found = time_box.ask(questions, 60, folder, together)
    return {name: timed.answer.evidence for name, timed in found.items() if isinstance(timed.answer, Finding)}


def own_process(name: str, group: str = "") -> Question:
    return Question((name,), lambda: {name: Finding(Verdict.PASS, str(os.getpid()))}, group=group)


def test_questions_of_a_group_share_a_process_and_no_other_does(tmp_path: Path) -> None:
    asked = [own_process("a"), own_process("b"), own_process("gpu", "drivers"), own_process("c")]
    found = processes(asked, tmp_path)
    assert found["a"] == found["b"] == found["c"]
    assert len({*found.values(), str(os.getpid())}) == 3


def test_what_is_behind_one_that_takes_long_is_soon_asked_by_itself(tmp_path: Path) -> None:
    """The long one ends when the last has answered, which it never would behind it."""
    asked = tmp_path / "asked"

    def waits() -> Mapping[str, Answer]:
        wait_until(asked.exists)
        return {"waits": WELL}

    def last() -> Mapping[str, Answer]:
        asked.touch()
        return {"last": Finding(Verdict.PASS, str(os.getpid()))}

    long = Question(("waits",), waits, seconds=20)
    questions = [own_process("first"), long, own_process("next"), Question(("last",), last)]
    found = processes(questions, tmp_path / "hanging", 0.1)
    assert found.pop("waits") == "well"
    assert len({*found.values()}) == 3


@pytest.mark.parametrize("text", [b"garbage\n", b'{"next": ["FAIL", "forged", null]}\n', b"half a line"])
def test_what_follows_a_process_that_said_garbage_or_died_is_asked_by_itself(text: bytes, tmp_path: Path) -> None:
    bad = Question(("bad",), written(text))
    found = time_box.ask([own_process("first"), bad, own_process("next")], 60, tmp_path, 60)
    answers = {name: timed.answer for name, timed in found.items()}
    assert isinstance(answers["bad"], Finding)
    assert answers["bad"].verdict is Verdict.UNKNOWN
    first, after = answers["first"], answers["next"]
    assert isinstance(first, Finding)
    assert isinstance(after, Finding)
    assert after.verdict is Verdict.PASS
    assert after.evidence != first.evidence
