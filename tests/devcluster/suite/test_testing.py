"""Promises of `make test`: a file with a failed test is run once more by itself, and nothing hides that it failed."""

from __future__ import annotations

import contextlib
import threading
from pathlib import Path

import pytest

from devcluster.machine.progress import StepFailed
from devcluster.suite import memory_files, testing
from devcluster.suite.phases import E2E, PHASES, THE_GUEST_ITSELF, Phase
from devcluster.vm import memory, own_kernel
from devcluster.vm import tests as vm_tests

ONCE = """
import pathlib
import pytest

@pytest.fixture(scope="module")
def shared():
    return []

def test_before(shared):
    shared.append(1)

def test_that_fails_in_the_first_run(shared):
    been = pathlib.Path("been")
    first = not been.exists()
    been.touch()
    assert not first

def test_after(shared):
    assert len(shared) < 2, "the second run has fixtures of its own"
"""


TRIED = """
import pytest

def tried():
    with open("tries", "a") as log:
        log.write("x")
    raise ValueError
"""


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "tests").mkdir()
    monkeypatch.setattr(testing, "CHECKOUT", tmp_path)
    monkeypatch.setattr(testing, "_end_leftovers", lambda: None)
    # Each run of pytest would import Hypothesis, for a second of a core in each of its processes.
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    monkeypatch.setenv("PYTEST_PLUGINS", "xdist.plugin")
    (tmp_path / "tests" / "test_well.py").write_text("def test_well():\n    open('runs', 'a').write('x')\n")
    return tmp_path


def run(checkout: Path, workers: int = 1, retries: int = 1) -> tuple[int, testing.Tally]:
    tally = testing.Tally()
    phase = Phase("played", 1, ("tests",), workers=workers, retries=retries)
    return testing._phase(tally, phase, checkout), tally


@pytest.mark.parametrize("workers", [1, 2])
def test_a_file_with_a_failed_test_passes_in_a_run_of_its_own_and_the_test_is_named(
    checkout: Path, workers: int
) -> None:
    (checkout / "tests" / "test_once.py").write_text(ONCE)

    status, tally = run(checkout, workers)

    assert status == 0
    assert (tally.count("passed"), tally.count("failed")) == (4, 0)
    assert tally.flaky() == ["tests.test_once::test_that_fails_in_the_first_run"]
    assert (checkout / "runs").read_text() == "x", "files without a failed test are run once"


def test_without_retries_a_failed_test_fails_the_phase(checkout: Path) -> None:
    (checkout / "tests" / "test_once.py").write_text(ONCE)

    status, tally = run(checkout, retries=0)

    assert status == testing.PYTEST_FAILED
    assert (tally.count("passed"), tally.count("failed"), tally.flaky()) == (3, 1, [])


MADE_ELSEWHERE = """
import unittest
def made():
    class Made(unittest.TestCase):
        def runTest(self):
            import test_bad
            test_bad.tried()
    return Made
"""
"""A test's class that another file makes, as hypothesis does for a state machine."""


def test_a_test_that_no_second_run_has_fails_the_phase(checkout: Path) -> None:
    gone = "from pathlib import Path\nif not Path('tries').exists():\n    def test_gone():\n        tried()\n"
    (checkout / "tests" / "test_bad.py").write_text(f"{TRIED}{gone}")

    status, tally = run(checkout)

    assert status == testing.PYTEST_FAILED
    assert (tally.count("passed"), tally.count("failed")) == (1, 1)


@pytest.mark.parametrize(
    "text",
    [
        "def test_bad():\n    tried()\n",
        "import made\nTestBad = made.made()\n",
        "@pytest.fixture\ndef bad():\n    tried()\ndef test_bad(bad):\n    pass\n",
        "@pytest.fixture\ndef bad():\n    yield\n    tried()\ndef test_bad(bad):\n    pass\n",
    ],
    ids=["test", "made elsewhere", "before it", "after it"],
)
def test_what_always_fails_fails_the_phase_after_its_second_run(checkout: Path, text: str) -> None:
    (checkout / "tests" / "made.py").write_text(MADE_ELSEWHERE)
    (checkout / "tests" / "test_bad.py").write_text(TRIED + text)

    status, tally = run(checkout)

    assert status == testing.PYTEST_FAILED
    assert (tally.count("passed"), tally.count("failed"), tally.flaky()) == (1, 1, [])
    assert (checkout / "tries").read_text() == "xx"


def test_a_file_that_cannot_be_read_is_no_case_for_a_second_run(checkout: Path) -> None:
    (checkout / "tests" / "test_bad.py").write_text(f"{TRIED}tried()\n")

    status, tally = run(checkout)

    assert status not in (0, testing.PYTEST_NO_TESTS)
    assert tally.count("failed") == 1
    assert (checkout / "tries").read_text() == "x"


def test_a_skipped_test_is_counted_as_such(checkout: Path) -> None:
    # The skipped test is the played one: nothing of ours is skipped here.
    (checkout / "tests" / "test_skipped.py").write_text("import pytest\ndef test_not():\n    pytest.skip('no')\n")

    status, tally = run(checkout)

    assert (status, tally.count("passed"), tally.count("skipped")) == (0, 1, 1)


def test_a_phases_folders_run_as_in_the_whole_and_other_paths_one_by_one() -> None:
    assert testing._chosen(["tests/e2e"]) is E2E
    assert testing._chosen(["tests/e2e/jail/test_doors.py"]).workers == 1


def test_a_file_of_another_phase_is_run_there_alone(checkout: Path) -> None:
    tally = testing.Tally()
    (checkout / "tests" / "test_bad.py").write_text(f"{TRIED}def test_bad():\n    tried()\n")
    phase = Phase("played", 1, ("tests",), without=("tests/test_bad.py",))
    assert testing._phase(tally, phase, checkout) == 0
    assert tally.count("passed") == 1
    (left_out,) = (each.without for each in PHASES if each.without)
    assert left_out == THE_GUEST_ITSELF.folders


@pytest.mark.parametrize("status", [0, 1])
def test_on_a_bare_machine_images_are_built_beside_the_toolchain_and_a_failure_ends_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, status: int
) -> None:
    both = threading.Barrier(2, timeout=60)

    def run_program(command: list[str], *_: object) -> int:
        assert command[-2:] == ["devcluster", "images"]
        both.wait()
        return status

    def build() -> Path:
        both.wait()
        return tmp_path

    monkeypatch.setattr(testing._PROGRAMS, "run", run_program)
    monkeypatch.setattr(testing.toolchain, "is_built", lambda: False)
    monkeypatch.setattr(testing.toolchain, "build", build)
    tally = testing.Tally()
    with pytest.raises(StepFailed, match="images could not be built") if status else contextlib.nullcontext():
        assert testing._built(tally) == tmp_path
    assert sorted(tally.parts) == ["images", "toolchain"]


WHERE = """
import os, pathlib, tempfile

def test_where():
    folder = tempfile.gettempdir()
    pathlib.Path("where").write_text(folder if os.path.ismount(folder) else "")
"""


@pytest.mark.parametrize("free", [memory_files.MOST_BYTES, memory_files.MOST_BYTES - 1], ids=["enough", "too little"])
def test_a_phase_has_its_temporary_files_in_memory_if_there_is_enough(
    checkout: Path, monkeypatch: pytest.MonkeyPatch, free: int
) -> None:
    monkeypatch.setattr(memory, "bounds", lambda: [memory.Bound("here", free, "")])
    (checkout / "tests" / "test_where.py").write_text(WHERE)
    phase = Phase("played", 1, ("tests",), is_in_memory=True)
    assert testing._phase(testing.Tally(), phase, checkout) == 0
    place = (checkout / "where").read_text()
    assert ("/suite-" in place) is (free == memory_files.MOST_BYTES)
    assert not place or not Path(place).exists(), "the mount and its folder go with the tests"


@pytest.mark.parametrize(("lacking", "place"), [([], "on this machine's own kernel"), (["nfs"], "in a guest")])
@pytest.mark.parametrize("paths", [[], ["tests/vm/test_v2_jobs.py"]], ids=["all", "chosen"])
def test_a_phase_on_cgroup_v2_says_on_which_kernel_it_runs(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    lacking: list[str],
    place: str,
    paths: list[str],
) -> None:
    monkeypatch.setattr(testing, "REPORTS", str(tmp_path))
    monkeypatch.setattr(testing.images, "build_all", lambda _: None)
    monkeypatch.setattr(own_kernel, "lacking", lambda: lacking)
    monkeypatch.setattr(vm_tests.guest, "has_room", lambda _: False)
    monkeypatch.setattr(vm_tests, "prepare", lambda _: None)
    monkeypatch.setattr(vm_tests, "run", lambda *_: 0)
    assert testing.run_on_v2(paths, None) == 0
    told = capsys.readouterr().err
    (phase,) = (line for line in told.splitlines() if line.startswith("▸ tests:"))
    assert f" {place} (tests/vm" in phase
    assert lacking or "guest" not in told


REPORT = '<testsuites><testsuite name="pytest"><testcase classname="c" name="{}">{}</testcase></testsuite></testsuites>'


def test_the_two_guests_have_each_file_once() -> None:
    first, second = vm_tests.halves()
    files = (testing.CHECKOUT / vm_tests.FOLDER).glob("**/test_*.py")
    names = [str(path.relative_to(testing.CHECKOUT)) for path in files]
    assert sorted([*first, *second]) == sorted(name for name in names if not name.startswith(vm_tests.KUBELET))
    assert first
    assert second


@pytest.mark.parametrize("failing", [None, "first", "second"])
def test_two_guests_give_one_result_and_one_report(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], failing: str | None
) -> None:
    def played(guest: str, report: Path) -> int:
        report.write_text(REPORT.format(guest, "<failure/>" if guest == failing else ""))
        return int(guest == failing)

    def run_program(command: list[str], *_: object) -> int:
        assert command[command.index("--junit") + 2 :] == ["tests/vm/test_nfs.py"]
        return played("first", Path(command[command.index("--junit") + 1]))

    def run_here(paths: list[str], report: Path) -> int:
        assert paths == ["tests/vm"]
        return played("second", report)

    monkeypatch.setattr(testing, "REPORTS", str(tmp_path))
    monkeypatch.setattr(testing.images, "build_all", lambda _: None)
    monkeypatch.setattr(testing._PROGRAMS, "run", run_program)
    for name, value in (
        ("prepare", None),
        ("take_two_guests", True),
        ("halves", (["tests/vm/test_nfs.py"], ["tests/vm"])),
    ):
        monkeypatch.setattr(vm_tests, name, lambda *_, value=value: value)
    monkeypatch.setattr(vm_tests, "run", run_here)
    assert bool(testing.run_on_v2([], tmp_path / "junit.xml")) is (failing is not None)
    joined = testing.Tally()
    joined.add_report(tmp_path / "junit.xml")
    assert {name for _, name in joined.outcomes} == {"c::first", "c::second"}
    told = capsys.readouterr().out
    assert ("tests: 2 passed, 0 failed" if failing is None else "tests: 1 passed, 1 failed") in told


def test_a_joined_report_has_the_last_result_of_each_test(tmp_path: Path) -> None:
    first, second = tmp_path / "1.xml", tmp_path / "2.xml"
    first.write_text(
        REPORT.format("a", "<failure/>").replace("</testsuite>", '<testcase classname="c" name="b"/></testsuite>')
    )
    second.write_text(REPORT.format("a", ""))
    testing.join_reports([first, second], tmp_path / "joined.xml")
    tally = testing.Tally()
    assert tally.add_report(tmp_path / "joined.xml") == set()
    assert tally.count("passed") == 2
