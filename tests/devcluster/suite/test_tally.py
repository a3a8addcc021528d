"""`make test` names its slowest tests, the load of the cores, and the phases over their budgets."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from devcluster.suite.tally import Spent, Tally, Watch

REPORT = "<testsuites><testsuite>{}</testsuite></testsuites>"
CASE = '<testcase file="tests/test_a.py" classname="tests.test_a" name="test_{0}" time="{0}.5"/>'


def test_the_slowest_tests_come_last_in_a_report_with_the_slowest_first(tmp_path: Path) -> None:
    report = tmp_path / "report.xml"
    report.write_text(REPORT.format("".join(CASE.format(number) for number in range(20))))
    tally = Tally(parts={"images": Spent(3.2, 5)})
    tally.add_report(report)
    part, *tests = tally.lines(10)
    assert part == "images             3.2 min of 5"
    assert len(tests) == 10
    assert tests[0] == "  19.5 s  tests.test_a::test_19"
    assert tests[-1] == "  10.5 s  tests.test_a::test_10"


def test_the_seconds_of_a_files_tests_are_added_up() -> None:
    tally = Tally(seconds={("tests/test_b.py", "b"): 1.0, ("tests/test_a.py", "a"): 2.0, ("tests/test_a.py", "c"): 3.5})
    assert tally.by_file() == {"tests/test_a.py": 5.5, "tests/test_b.py": 1.0}


def test_what_the_cores_did_not_do_is_a_share_of_all_of_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    now, ticks = [100.0], os.sysconf("SC_CLK_TCK")
    monkeypatch.setattr("devcluster.suite.tally.time.monotonic", lambda: now[0])
    monkeypatch.setattr("devcluster.suite.tally.os.cpu_count", lambda: 4)
    stat = tmp_path / "stat"
    stat.write_text("cpu  1 2 3 1000 50 6 7 8 9 10\ncpu0 0 0 0 0 0\n")
    watch = Watch(stat)
    now[0] += 60
    # 100 s without work and 20 s waiting for a disk, of 4 times 60 s.
    stat.write_text(f"cpu  1 2 3 {1000 + 100 * ticks} {50 + 20 * ticks} 6 7 8 9 10\n")
    spent = watch.spent(budget=2)
    assert spent.idle == pytest.approx(0.5)
    assert spent.line == "  1.0 min of 2, cores idle  50%"


def test_a_part_over_its_budget_says_so_and_fails_nothing() -> None:
    assert Spent(3.2, 3).line == "  3.2 min of 3  over its budget"


def test_a_kernel_that_does_not_tell_leaves_the_share_out(tmp_path: Path) -> None:
    assert Watch(tmp_path / "none").spent(1).idle is None
