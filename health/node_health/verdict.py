"""Results of checks."""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum


class Verdict(StrEnum):
    """From good to bad. UNKNOWN means that the check could not look. It never counts as PASS."""

    PASS = "PASS"  # noqa: S105 - no password
    WARNING = "WARNING"
    UNKNOWN = "UNKNOWN"
    FAIL = "FAIL"


_ORDER = tuple(Verdict)


@dataclass(frozen=True, slots=True)
class Finding:
    """A verdict and its evidence, one sentence with the measured numbers."""

    verdict: Verdict
    evidence: str


@dataclass(frozen=True, slots=True)
class Result:
    """Result of one check."""

    check: str
    finding: Finding

    @property
    def line(self) -> str:
        """One line for people."""
        return f"{self.finding.verdict:8}{self.check}: {self.finding.evidence}"


def worst(verdicts: Iterable[Verdict]) -> Verdict:
    """The verdict of several results; UNKNOWN without any."""
    return max(verdicts, key=_ORDER.index, default=Verdict.UNKNOWN)


def worst_of(findings: Iterable[Finding]) -> Finding:
    """The worst of several findings of one check, with the evidence of all that are as bad."""
    listed = list(findings)
    verdict = worst(finding.verdict for finding in listed)
    return Finding(verdict, "; ".join(finding.evidence for finding in listed if finding.verdict is verdict))
