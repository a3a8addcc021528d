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


class Action(StrEnum):
    """Remedies, in the words of NVIDIA's Xid catalog ("Resolution Bucket, Immediate Action")."""

    NONE = "NONE"
    IGNORE = "IGNORE"
    RESTART_APP = "RESTART_APP"
    RESET_GPU = "RESET_GPU"
    DRAIN_AND_RESET = "DRAIN_AND_RESET"
    RESTART_VM = "RESTART_VM"
    RESTART_BM = "RESTART_BM"
    CHECK_MECHANICALS = "CHECK_MECHANICALS"
    UPDATE_SWFW = "UPDATE_SWFW"
    CONTACT_SUPPORT = "CONTACT_SUPPORT"


_ORDER = tuple(Verdict)


@dataclass(frozen=True, slots=True)
class Finding:
    """A verdict and its evidence, one sentence with the measured numbers.

    Attributes:
        verdict: the verdict.
        evidence: without numbers that change with each run where it drains: another reason begins a drain anew.
        action: what NVIDIA says to do about this very fault; None: the check's own action.
    """

    verdict: Verdict
    evidence: str
    action: Action | None = None


@dataclass(frozen=True, slots=True)
class Skipped:
    """The check does not apply to this machine, or was switched off."""

    why: str


Answer = Finding | Skipped


@dataclass(frozen=True, slots=True)
class Result:
    """Result of one check.

    Attributes:
        check: its name.
        finding: verdict and evidence.
        remedy: what a person does about it; empty for PASS.
        action: the same in NVIDIA's words.
        seconds: how long the check took, with those that share its source.
    """

    check: str
    finding: Finding
    remedy: str = ""
    action: Action = Action.NONE
    seconds: float = 0.0

    @property
    def line(self) -> str:
        """One line for people."""
        return f"{self.finding.verdict:8}{self.check}: {self.finding.evidence}"


def worst(verdicts: Iterable[Verdict]) -> Verdict:
    """The verdict of several results; UNKNOWN without any."""
    return max(verdicts, key=_ORDER.index, default=Verdict.UNKNOWN)


def worst_of(findings: Iterable[Finding]) -> Finding:
    """The worst of several findings of one check, with the evidence of all that are as bad; each sentence once."""
    listed = list(findings)
    verdict = worst(finding.verdict for finding in listed)
    bad = [finding for finding in listed if finding.verdict is verdict]
    action = next((finding.action for finding in bad if finding.action), None)
    return Finding(verdict, "; ".join(dict.fromkeys(finding.evidence for finding in bad)), action)


def passes(evidence: str) -> Finding:
    """Return a finding with the verdict PASS."""
    return Finding(Verdict.PASS, evidence)


def warns(evidence: str, action: Action | None = None) -> Finding:
    """Return a finding with the verdict WARNING; `action` takes the place of the check's own."""
    return Finding(Verdict.WARNING, evidence, action)


def fails(evidence: str, action: Action | None = None) -> Finding:
    """Return a finding with the verdict FAIL; `action` takes the place of the check's own."""
    return Finding(Verdict.FAIL, evidence, action)


def unknown(evidence: str) -> Finding:
    """Return a finding with the verdict UNKNOWN: the check could not look."""
    return Finding(Verdict.UNKNOWN, evidence)
