"""Results of the last run, for the pod's entry, which drains, and for the prolog, which refuses jobs."""

import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from contract import reasons
from node_health import node
from node_health.verdict import Action, Finding, Result, Verdict, worst

ENTRYS_OWN = reasons.Check.JAIL
"""The entry itself drains while this check fails, and sees its recovery before the next run."""
VERSION = 1
"""Version of the JSON; docs/health-verdict.schema.json describes it."""


@dataclass(frozen=True, slots=True)
class Report:
    """The findings of a run.

    Attributes:
        results: findings, in the order of the catalogue.
        skipped: checks that do not apply here or are switched off → why.
        at: when, in seconds since the epoch.
        seconds: how long the run took.
    """

    results: tuple[Result, ...] = ()
    skipped: Mapping[str, str] = field(default_factory=dict)
    at: float = 0.0
    seconds: float = 0.0

    @property
    def verdict(self) -> Verdict:
        """The worst verdict of all."""
        return worst(result.finding.verdict for result in self.results)

    @property
    def slowest(self) -> str:
        """The check that took longest; empty without any."""
        return max(self.results, key=lambda result: result.seconds).check if self.results else ""

    def upholding(self, before: "Report") -> "Report":
        """Returns this report with the failures of an earlier one whose checks could not look now: they stand.

        Else a driver that hangs after it lost a GPU takes that back before slurmctld has heard of it.
        """
        failed = {result.check: result for result in before.results if result.finding.verdict is Verdict.FAIL}
        failed.pop(ENTRYS_OWN, None)

        def upheld(result: Result) -> Result:
            stands = result.finding.verdict is Verdict.UNKNOWN and result.check in failed
            return replace(failed[result.check], seconds=result.seconds) if stands else result

        return replace(self, results=tuple(map(upheld, self.results)))

    def after(self, before: "Report", refreshed: Collection[str]) -> "Report":
        """Returns this report with what an earlier one says of further checks: a run may make only some.

        Args:
            before: the earlier report.
            refreshed: checks that a later run makes again. Others would stay for ever as they were once found.
        """
        made = {result.check for result in self.results} | {*self.skipped}
        kept = [result for result in before.results if result.check in refreshed and result.check not in made]
        order: dict[str, int] = {name: rank for rank, name in enumerate(reasons.Check)}
        results = sorted([*kept, *self.results], key=lambda result: order.get(result.check, len(order)))
        skipped = {check: why for check, why in before.skipped.items() if check in refreshed and check not in made}
        return replace(self, results=tuple(results), skipped={**skipped, **self.skipped})


def as_json(report: Report) -> str:
    """The report as one JSON object, as docs/health-verdict.schema.json says."""
    checks = [
        {
            "check": result.check,
            "verdict": result.finding.verdict,
            "evidence": result.finding.evidence,
            "remedy": result.remedy,
            "action": result.action,
            "seconds": round(result.seconds, 3),
        }
        for result in report.results
    ]
    skipped = [{"check": check, "why": why} for check, why in report.skipped.items()]
    return json.dumps(
        {
            "version": VERSION,
            "time": round(report.at, 3),
            "seconds": round(report.seconds, 3),
            "verdict": report.verdict,
            "checks": checks,
            "skipped": skipped,
        }
    )


def from_json(text: str) -> Report:
    """Reads what `as_json` wrote."""
    said = json.loads(text)
    results = tuple(
        Result(
            row["check"],
            Finding(Verdict(row["verdict"]), row["evidence"]),
            row["remedy"],
            Action(row["action"]),
            row["seconds"],
        )
        for row in said["checks"]
    )
    skipped = {row["check"]: row["why"] for row in said["skipped"]}
    return Report(results, skipped, said["time"], said["seconds"])


def read(file: Path) -> Report | None:
    """Reads the results of the last run; None if there are none, or what is there are none."""
    try:
        return from_json(file.read_text())
    except (OSError, ValueError, KeyError, TypeError):
        return None


def write(report: Report, unknown_drains: bool = False, file: Path = node.RESULTS, unfit: Path = node.UNFIT) -> None:
    """Writes the results, and why the node must take no job, if so; beside it, what of its hardware is bad."""
    causes = drain_causes(report, unknown_drains)
    why = [f"{cause}: {evidence}" for cause, evidence in causes.items() if evidence is not None]
    failed = (result for result in report.results if result.finding.verdict is Verdict.FAIL)
    faults = [line for result in failed if (line := _line(result)).startswith(reasons.HARDWARE)]
    for reason, lines in ((unfit, why), (unfit.with_name(node.FAULTY.name), faults)):
        if lines:
            node.put(reason, "; ".join(lines) + "\n")
        else:
            reason.unlink(missing_ok=True)
    node.put(file, as_json(report))


def _line(result: Result) -> str:
    return f"{reasons.HEALTH} {result.check}: {result.finding.evidence}"


def warnings(report: Report, unknown_drains: bool = False) -> Mapping[str, str]:
    """Evidence that is noted and never drains, by check: of warnings, and of UNKNOWN where the policy notes it."""
    warned = {
        result.check: result.finding.evidence for result in report.results if result.finding.verdict is Verdict.WARNING
    }
    if unknown_drains:
        return warned
    unknown = {
        result.check: f"{reasons.UNCHECKED}{result.finding.evidence}"
        for result in report.results
        if result.finding.verdict is Verdict.UNKNOWN and result.check != ENTRYS_OWN
    }
    return unknown | warned  # The note has room for a few: the worse ones come first.


def not_passed(report: Report) -> Mapping[str, Verdict]:
    """Check → verdict, of checks that did not pass, without the entry's own, which is not known at first."""
    return {
        result.check: result.finding.verdict
        for result in report.results
        if result.finding.verdict is not Verdict.PASS and result.check != ENTRYS_OWN
    }


def drain_causes(report: Report, unknown_drains: bool = False) -> Mapping[str, str | None]:
    """Causes of a drain: start of its reason → evidence, or None for a check that passed or is no longer made.

    A check with an unknown result is missing, unless the policy drains for it. It neither drains nor lifts a drain. A
    check that a run does not name is made no longer: the configuration may have lost the node's adapters or GPUs.
    """
    causes: dict[str, str | None] = {}
    if report.at:
        named = {result.check for result in report.results}
        causes |= {f"{reasons.HEALTH} {check}": None for check in reasons.Check if check not in named}
    for result in report.results:
        cause, finding = f"{reasons.HEALTH} {result.check}", result.finding
        match finding.verdict:
            case Verdict.FAIL:
                causes[cause] = finding.evidence
            case Verdict.UNKNOWN if unknown_drains:
                causes[cause] = f"{reasons.UNCHECKED}{finding.evidence}"
            case Verdict.PASS | Verdict.WARNING:
                causes[cause] = None
    causes |= {f"{reasons.HEALTH} {check}": None for check in report.skipped}
    causes.pop(f"{reasons.HEALTH} {ENTRYS_OWN}", None)
    return causes
