"""Reads the results of the last run of node-health. Slurm starts that: HealthCheckProgram, and after each job."""

import time
from collections.abc import Callable, Mapping
from pathlib import Path

from node_health import history, node, notes, report
from node_health.checks.slurm import quiet_jobs
from node_health.report import Report
from node_health.verdict import Result, Verdict, unknown

from contract import reasons
from slurm_node.conditions.drains import Causes
from slurm_node.pod.log import say

FIRST_SECONDS = 60.0
"""Time for the first run, which slurmd makes before it registers, and for a second one."""
FIRST = "first run"
"""Stands for a check's name while no run has ended."""
LAST = "last run"
"""Stands for a check's name when runs have stopped."""
OLD_SECONDS = 600.0
"""Age at which a note of quiet jobs goes where runs may be rare: a job may work again, and would be queued anew."""
SLOW_SECONDS = 3600.0
"""For so long a slow run is told of."""

QUIET = reasons.Check.QUIET_JOBS
"""Warns of jobs and not of the node: its note stands for itself."""


def _never() -> float | None:
    return None


class HealthWatch:
    """Results of the last run, as causes of drains.

    Args:
        results: the file that node-health writes.
        unfit: the file by which the prolog refuses jobs.
        unknown_drains: whether a check that could not look drains the node; else it is noted.
        told: the file with the changes of verdicts.
    """

    def __init__(
        self,
        results: Path = node.RESULTS,
        unfit: Path = node.UNFIT,
        unknown_drains: bool = False,
        told: Path = node.HISTORY,
    ) -> None:
        # Files of an earlier container.
        results.unlink(missing_ok=True)
        unfit.unlink(missing_ok=True)
        unfit.with_name(node.FAULTY.name).unlink(missing_ok=True)
        self._results = results
        self._history = told
        self._unknown_drains = unknown_drains
        self._read_at = 0
        self._since: float | None = None
        self._heard = 0.0
        self._ended: float | None = None
        self._runs: list[tuple[float, float, str]] = []
        self._not_passed: Mapping[str, str] = {}
        self._failed_note, self._quiet_note = "", ""
        self.causes: Causes = {}
        self.quiet: frozenset[int] = frozenset()
        """Jobs that are noted as quiet."""
        self.warnings: Mapping[str, str] | None = None

    @property
    def facts(self) -> str:
        """Notes for programs: of the first check that fails, of quiet jobs, and of checks that did not pass."""
        _, seconds, slowest = max(self._runs, key=lambda run: run[1], default=(0.0, 0.0, ""))
        checks = notes.checks(self._not_passed, seconds, slowest)
        return notes.joined((self._failed_note, self._quiet_note, checks))

    @property
    def sentence(self) -> str | None:
        """The reason why the node is not fit; None while it is fit, or nothing is known."""
        return next((f"{cause}: {why}" for cause, why in self.causes.items() if why is not None), None)

    def tick(self, now: float, silence: Callable[[], float | None] = _never) -> None:
        """Reads the file if it changed. A node of which no run ever ended is UNKNOWN, and not taken for fit.

        Args:
            now: seconds of a clock that only goes forward.
            silence: returns after how many seconds without a run they have stopped; None if they may be rarer.
        """
        latest = self._news()
        if latest is None and self._ended is None:
            self._since = now if self._since is None else self._since
            if self.warnings is None and now - self._since >= FIRST_SECONDS:
                self._learn(Report((Result(FIRST, unknown("no run of node-health has ended yet")),)))
            return
        if latest is None:
            self._heed_silence(now, silence)
            return
        self._heard, self._ended = now, latest.at
        latest_runs = [run for run in self._runs if now - run[0] < SLOW_SECONDS]
        self._runs = [*latest_runs, (now, latest.seconds, latest.slowest)]
        self._learn(latest)

    def _news(self) -> Report | None:
        """Returns the results of a run that has ended since the last look; None also for a file that is none."""
        try:
            written = self._results.stat().st_mtime_ns
        except FileNotFoundError:
            return None
        if written == self._read_at:
            return None
        self._read_at = written
        return report.read(self._results)

    def _heed_silence(self, now: float, silence: Callable[[], float | None]) -> None:
        """Warns that runs of node-health have stopped, since old results say little of the node and its jobs now.

        The node stays undrained: slurmctld starts the runs, so a silence may be its own.
        """
        silent = now - self._heard
        if silent < FIRST_SECONDS or self.warnings is None or self._ended is None or LAST in self.warnings:
            return
        longest = silence()
        if silent >= (OLD_SECONDS if longest is None else longest):
            self.quiet, self._quiet_note = frozenset(), ""
        if longest is not None and silent >= longest:
            why = f"{reasons.UNCHECKED}no run of node-health has ended since {_utc(self._ended)}"
            say(f"{LAST}: {why}")
            self.warnings = {LAST: why, **self.warnings}
            self._not_passed = {LAST: Verdict.UNKNOWN, **self._not_passed}

    def _learn(self, latest: Report) -> None:
        before = self.causes
        first = f"{reasons.HEALTH} {FIRST}"
        ended: Causes = {first: None} if self._read_at and first in before else {}
        self.causes = {**ended, **report.drain_causes(latest, self._unknown_drains)}
        warnings = report.warnings(latest, self._unknown_drains)
        jobs = quiet_jobs.read(next((result for result in latest.results if result.check == QUIET), None))
        self.warnings = {check: why for check, why in warnings.items() if check != QUIET or not jobs}
        self.quiet = frozenset(jobs)
        for cause, why in self.causes.items():
            if bool(why) != bool(before.get(cause)):
                say(f"{cause}: {why or 'passes again'}")
        self._not_passed = report.not_passed(latest)
        self._failed_note, self._quiet_note = self._failed(latest), notes.quiet(jobs)

    def _failed(self, latest: Report) -> str:
        """Returns the note of the first check that fails, as the reason of the drain names it."""
        failing = (result.check for result in latest.results if result.finding.verdict is Verdict.FAIL)
        failed = next((check for check in failing if check != report.ENTRYS_OWN), None)
        change = history.read(self._history).latest.get(failed) if failed else None
        if change is None or change.verdict is not Verdict.FAIL:
            return ""
        return notes.failed(change.check, _utc(change.before) if change.before else "", _utc(change.at))


def _utc(at: float) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(at))
