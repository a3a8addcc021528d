"""Reads the results of the last run of node-health. Slurm starts that: HealthCheckProgram, and after each job."""

from collections.abc import Mapping
from pathlib import Path

from node_health import node, report
from node_health.report import Report
from node_health.verdict import Result, unknown

from contract import reasons
from slurm_node.conditions.drains import Causes
from slurm_node.pod.log import say

FIRST_SECONDS = 60.0
"""Time for the first run, which slurmd makes before it registers, and for a second one."""
FIRST = "first run"
"""Stands for a check's name while no run has ended."""


class HealthWatch:
    """Results of the last run, as causes of drains.

    Args:
        results: the file that node-health writes.
        unfit: the file by which the prolog refuses jobs.
        unknown_drains: whether a check that could not look drains the node; else it is noted.
    """

    def __init__(self, results: Path = node.RESULTS, unfit: Path = node.UNFIT, unknown_drains: bool = False) -> None:
        # Files of an earlier container.
        results.unlink(missing_ok=True)
        unfit.unlink(missing_ok=True)
        self._results = results
        self._unknown_drains = unknown_drains
        self._read_at = 0
        self._since: float | None = None
        self.causes: Causes = {}
        self.warnings: Mapping[str, str] | None = None

    @property
    def sentence(self) -> str | None:
        """The reason why the node is not fit; None while it is fit, or nothing is known."""
        return next((f"{cause}: {why}" for cause, why in self.causes.items() if why is not None), None)

    def tick(self, now: float) -> None:
        """Reads the file if it changed. A node of which no run ever ended is UNKNOWN, and not taken for fit.

        Args:
            now: seconds of a clock that only goes forward.
        """
        try:
            written = self._results.stat().st_mtime_ns
        except FileNotFoundError:
            self._since = now if self._since is None else self._since
            if self.warnings is None and now - self._since >= FIRST_SECONDS:
                self._learn(Report((Result(FIRST, unknown("no run of node-health has ended yet")),)))
            return
        if written == self._read_at:
            return
        self._read_at = written
        self._learn(report.from_json(self._results.read_text()))

    def _learn(self, found: Report) -> None:
        before = self.causes
        first = f"{reasons.HEALTH} {FIRST}"
        ended: Causes = {first: None} if self._read_at and first in before else {}
        self.causes = {**ended, **report.drain_causes(found, self._unknown_drains)}
        self.warnings = report.warnings(found, self._unknown_drains)
        for cause, why in self.causes.items():
            if bool(why) != bool(before.get(cause)):
                say(f"{cause}: {why or 'passes again'}")
