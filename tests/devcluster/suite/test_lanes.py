"""Promises of lanes: side by side, each one's output whole, and an interrupt ends what all of them run."""

from __future__ import annotations

import sys
import time
from pathlib import Path

import pytest

from devcluster.machine.bootstrap import CHECKOUT
from devcluster.suite.lanes import INTERRUPTED, Programs, side_by_side
from devcluster.suite.phases import PHASES

SPEAKS = """
import pathlib, time
print("{name} begins", flush=True)
pathlib.Path("{name}").touch()
while not pathlib.Path("{other}").exists():
    time.sleep(0.02)  # Between two looks for a file.
print("{name} ends", flush=True)
raise SystemExit({status})
"""
IS_ENDED = """
import pathlib, signal, time
# What a shell runs in the background ignores SIGINT, and so would its programs.
signal.signal(signal.SIGINT, signal.default_int_handler)
try:
    pathlib.Path("began").touch()
    time.sleep(600)  # Until it is interrupted.
finally:
    pathlib.Path("ended").touch()
"""


def program(text: str) -> list[str]:
    return [sys.executable, "-c", text]


def test_lanes_run_side_by_side_and_each_ones_output_is_whole(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    programs = Programs()
    # Each waits for the other: one after the other they would never end.
    texts = [SPEAKS.format(name="a", other="b", status=1), SPEAKS.format(name="b", other="a", status=4)]
    lanes = [lambda text=text: programs.run(program(text), tmp_path, {}) for text in texts]
    assert side_by_side(lanes, lambda: 0, programs) == 5
    assert sorted(capsys.readouterr().out.split("\n", 3)[:2]) in (["a begins", "a ends"], ["b begins", "b ends"])


def test_an_interrupt_ends_every_lane_with_its_fixtures_and_begins_nothing_more(tmp_path: Path) -> None:
    programs, later = Programs(), tmp_path / "later"
    statuses: list[int] = []

    def lane() -> int:
        statuses.append(programs.run(program(IS_ENDED), tmp_path, {}))
        statuses.append(programs.run(program(f"open({str(later)!r}, 'w')"), tmp_path, {}))
        return 0

    def here() -> int:
        deadline = time.monotonic() + 60
        while not (tmp_path / "began").exists():
            assert time.monotonic() < deadline
            time.sleep(0.02)  # Between two looks for a file.
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        side_by_side([lane], here, programs)
    assert (tmp_path / "ended").exists()
    assert statuses[1] == INTERRUPTED
    assert not later.exists()


def test_every_folder_of_tests_is_in_a_phase_or_asked_for_by_name() -> None:
    folders = {f"tests/{file.relative_to(CHECKOUT).parts[1]}" for file in CHECKOUT.glob("tests/*/**/test_*.py")}
    in_phases = {folder for phase in PHASES for folder in phase.folders}
    assert folders - in_phases == {"tests/gpu", "tests/vm"}
    assert len(PHASES) == len({phase.name for phase in PHASES})
