"""Two runs of `make test` of one checkout: the second refuses, since their instances have the same names."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from devcluster.machine import lock
from devcluster.machine.bootstrap import CHECKOUT
from devcluster.machine.progress import StepFailed
from devcluster.suite import testing
from devcluster.suite.tally import KEPT, Tally

HOLDS = """
import pathlib, signal, sys
from devcluster.machine import lock
with lock.held_alone(pathlib.Path(sys.argv[1])):
    print("held", flush=True)
    signal.pause()
"""


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(testing, "CHECKOUT", tmp_path)
    monkeypatch.setattr(testing, "clean_up_when_killed", lambda: None)
    monkeypatch.setattr(testing, "_end_leftovers", lambda: None)
    monkeypatch.setattr(testing.toolchain, "is_built", lambda: True)
    monkeypatch.setattr(testing.toolchain, "build", lambda: tmp_path)
    monkeypatch.setattr(testing.images, "build_all", lambda _: None)
    return tmp_path


def test_a_second_run_refuses_at_once_and_touches_nothing(checkout: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(testing, "_end_leftovers", lambda: pytest.fail("it ends the first run's instances"))
    report = checkout / testing.REPORTS / "unit-1.xml"
    report.parent.mkdir(parents=True)
    report.touch()
    told = f"process {os.getpid()} runs tests of this checkout, .* end it by `kill {os.getpid()}`"
    with lock.held_alone(checkout / testing.LOCK), pytest.raises(StepFailed, match=told):
        testing.run([])
    assert report.exists()


def test_a_run_whose_owner_died_holds_up_no_other(checkout: Path) -> None:
    file = checkout / testing.LOCK
    with subprocess.Popen([sys.executable, "-c", HOLDS, file], cwd=CHECKOUT, stdout=subprocess.PIPE) as owner:
        assert owner.stdout
        assert owner.stdout.readline() == b"held\n"
        with pytest.raises(lock.HeldError, match=f"^{owner.pid}$"), lock.held_alone(file):
            pass
        owner.kill()
    assert testing.run(["tests/none"]) == 0
    assert file.read_text() == f"{os.getpid()}\n"


def test_a_run_leaves_a_report_of_its_slowest_tests_and_prints_the_first(
    checkout: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def phase(tally: Tally, *_: object) -> int:
        tally.seconds |= {("tests/test_a.py", f"test_{number}"): number for number in range(KEPT + 20)}
        return 0

    monkeypatch.setattr(testing, "_phase", phase)
    assert testing.run(["tests/unit"]) == 0
    lines = (checkout / testing.REPORTS / testing.SLOWEST).read_text().splitlines()
    tests = [line.split()[-1] for line in lines if " s  " in line]
    assert tests == [f"test_{number}" for number in range(KEPT + 19, 19, -1)]
    assert lines[0].startswith("toolchain "), "parts come first"
    told = capsys.readouterr().err
    assert "test_60" in told
    assert "test_59" not in told
