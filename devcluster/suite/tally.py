"""Results of a test run, its slowest tests, and the load of the cores."""

from __future__ import annotations

import itertools
import os
import time
import xml.etree.ElementTree as ElementTree
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

Test = tuple[str, str]
"""File and name of a test; no file if it could not even be collected."""

SHOWN, KEPT = 10, 50
"""Slowest tests that a run prints, and those that its report has."""


@dataclass(frozen=True, slots=True)
class Spent:
    """Time of a part of the run.

    Attributes:
        minutes: by the clock.
        budget: minutes that it may take on a cold machine with two cores.
        idle: share of the cores' time in which they had nothing to do, 0 to 1; None if the kernel does not tell.
    """

    minutes: float
    budget: int
    idle: float | None = None

    @property
    def line(self) -> str:
        """For a person: the time beside its budget."""
        idle = "" if self.idle is None else f", cores idle {self.idle:4.0%}"
        late = "  over its budget" if self.minutes > self.budget else ""
        return f"{self.minutes:5.1f} min of {self.budget}{idle}{late}"


class Watch:
    """Measures from its creation on.

    Args:
        stat: the kernel's counters (proc_stat(5)).
    """

    def __init__(self, stat: Path = Path("/proc/stat")) -> None:
        self._stat, self._began, self._idle = stat, time.monotonic(), _idle_seconds(stat)

    def spent(self, budget: int) -> Spent:
        """Return the time and idle share since then."""
        seconds, idle = time.monotonic() - self._began, _idle_seconds(self._stat)
        if self._idle is None or idle is None or seconds <= 0:
            return Spent(seconds / 60, budget, None)
        share = (idle - self._idle) / seconds / (os.cpu_count() or 1)
        return Spent(seconds / 60, budget, min(1.0, max(0.0, share)))


def _idle_seconds(stat: Path) -> float | None:
    try:
        words = stat.read_text().split(maxsplit=6)
        return (int(words[4]) + int(words[5])) / os.sysconf("SC_CLK_TCK")
    except (OSError, ValueError, IndexError):
        return None


@dataclass(slots=True)
class Tally:
    """Result and time of each test's last run, over all phases, and each phase's time."""

    outcomes: dict[Test, str] = field(default_factory=dict)
    failed_before: set[Test] = field(default_factory=set)
    seconds: dict[Test, float] = field(default_factory=dict)
    parts: dict[str, Spent] = field(default_factory=dict)
    began: float = field(default_factory=time.monotonic)

    def minutes(self) -> float:
        """Return the duration of the run until now; its parts may overlap."""
        return (time.monotonic() - self.began) / 60

    def add_report(self, report: Path) -> set[Test]:
        """Add the JUnit report of a run and return which of its tests failed."""
        outcomes: dict[Test, str] = {}
        for case in _parsed(report).iter("testcase"):
            test = _file(case), f"{case.get('classname')}::{case.get('name')}"
            self.seconds[test] = float(case.get("time", 0))
            if case.find("failure") is not None or case.find("error") is not None:
                outcomes[test] = "failed"
            else:  # A test whose end fails too has two rows.
                outcomes.setdefault(test, "passed" if case.find("skipped") is None else "skipped")
        self.outcomes |= outcomes
        failed = {test for test, outcome in outcomes.items() if outcome == "failed"}
        self.failed_before |= failed
        return failed

    def count(self, outcome: str) -> int:
        """Return the number of tests with that result."""
        return list(self.outcomes.values()).count(outcome)

    def flaky(self) -> list[str]:
        """Return the tests that passed only in a later run."""
        return sorted(test[1] for test in self.failed_before if self.outcomes[test] == "passed")

    def by_file(self) -> dict[str, float]:
        """Return how long the tests of each file took, with what their fixtures took for them."""
        seconds: dict[str, float] = {}
        for (path, _), lasts in self.seconds.items():
            seconds[path] = seconds.get(path, 0) + lasts
        return {path: lasts for path, lasts in sorted(seconds.items()) if path}

    def slowest(self, number: int) -> list[str]:
        """Return the slowest tests, with the setup and teardown of fixtures that ran for them."""
        last = sorted(self.seconds.items(), key=lambda item: -item[1])[:number]
        return [f"{seconds:6.1f} s  {test[1]}" for test, seconds in last]

    def lines(self, number: int) -> list[str]:
        """Return each part's time and load of the cores, and so many of the slowest tests."""
        return [*(f"{name:16} {part.line}" for name, part in self.parts.items()), *self.slowest(number)]


def _file(case: ElementTree.Element) -> str:
    """Return a test's file. The report's own is where its class was made: of a state machine that is hypothesis'."""
    module = itertools.takewhile(lambda word: not word[:1].isupper(), case.get("classname", "").split("."))
    return f"{'/'.join(module)}.py" if case.get("file") else ""


def _parsed(report: Path) -> ElementTree.Element:
    return ElementTree.parse(report).getroot()  # noqa: S314 - our own pytest wrote it


def join_reports(reports: Sequence[Path], joined: Path) -> None:
    """Write the suites of several JUnit reports into one, in which a test has its result of the last report."""
    root = ElementTree.Element("testsuites")
    later: set[tuple[str | None, ...]] = set()
    for report in reversed(reports):
        suites = [*_parsed(report).iter("testsuite")]
        rows = [(suite, case) for suite in suites for case in suite.findall("testcase")]
        named = {case: tuple(map(case.get, ("file", "classname", "name"))) for _, case in rows}
        for suite, case in rows:
            if named[case] in later:
                suite.remove(case)
        later |= {*named.values()}
        root[:0] = suites
    ElementTree.ElementTree(root).write(joined, encoding="utf-8", xml_declaration=True)
