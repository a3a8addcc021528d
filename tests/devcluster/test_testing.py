"""Promises of `make test`: a file with a failed test is run once more by itself, and nothing hides that it failed."""

from __future__ import annotations

from pathlib import Path

import pytest

from devcluster import testing

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
    (tmp_path / "tests" / "test_well.py").write_text("def test_well():\n    open('runs', 'a').write('x')\n")
    return tmp_path


def run(checkout: Path, workers: int = 1, retries: int = 1) -> tuple[int, testing.Tally]:
    tally = testing.Tally()
    phase = testing.Phase("played", 1, ("tests",), workers=workers, retries=retries)
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


@pytest.mark.parametrize(
    "text",
    [
        "def test_bad():\n    tried()\n",
        "@pytest.fixture\ndef bad():\n    tried()\ndef test_bad(bad):\n    pass\n",
        "@pytest.fixture\ndef bad():\n    yield\n    tried()\ndef test_bad(bad):\n    pass\n",
    ],
    ids=["test", "before it", "after it"],
)
def test_what_always_fails_fails_the_phase_after_its_second_run(checkout: Path, text: str) -> None:
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
