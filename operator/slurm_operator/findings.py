"""Findings about a cluster or a node set, and the conditions that follow from them."""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Mapping, Sequence

from contract.conditions import NO_USE_TO_WAIT, ConditionType, Reason

_SHOWN = 5
MAX_MESSAGE = 1024
_SHOWN_OF_A_DEFECT = 200


class Severity(enum.Flag):
    """The consequences of a finding, as flags: it may have several."""

    INFORMATION = 0
    """No consequence: the finding only informs."""
    PROGRESSING = enum.auto()
    """Something is under way: Progressing."""
    WRONG = enum.auto()
    """Somebody should look: Degraded."""
    UNKNOWN = enum.auto()
    """Nobody knows if jobs can run."""
    BLOCKING = enum.auto()
    """Jobs can't run as declared: not Available."""


@dataclasses.dataclass(frozen=True, slots=True)
class Finding:
    """One message, with a reason for programs; `node` is the node that it is about, if there is one."""

    reason: Reason
    message: str
    severity: Severity = Severity.WRONG
    node: str = ""


@dataclasses.dataclass(frozen=True, slots=True)
class Condition:
    """A Kubernetes condition without its times."""

    type: str
    status: str
    reason: Reason
    message: str


def under_way(reason: Reason, message: str) -> Finding:
    """Return a finding about what is under way."""
    return Finding(reason, message, Severity.PROGRESSING)


@dataclasses.dataclass(frozen=True, slots=True)
class Defect:
    """An exception that nobody expected, and the part of a pass that it ended."""

    part: str
    error: Exception

    @property
    def words(self) -> str:
        """The exception in words."""
        return f"{type(self.error).__name__}: {self.error}"[:_SHOWN_OF_A_DEFECT]


def of_defects(defects: Sequence[Defect], of: str = "", severity: Severity = Severity.WRONG) -> list[Finding]:
    """Return findings about parts that ended with a defect, those with the same one together; `of` says of what."""
    parts: dict[str, list[str]] = {}
    for defect in defects:
        parts.setdefault(defect.words, []).append(defect.part)
    listed = {words: ", ".join(dict.fromkeys(names)) for words, names in parts.items()}
    stops = "a defect of the operator stops"
    told = [f"{stops} {names}{of} ({words}); its log has more" for words, names in listed.items()]
    return [Finding(Reason.OPERATOR_DEFECT, words, severity) for words in told]


class Findings(list[Finding]):
    """The findings about a cluster or a node set, the most important first."""

    def of(self, severity: Severity) -> list[Finding]:
        """Return the findings with that consequence."""
        return [finding for finding in self if severity in finding.severity]

    @property
    def blocking(self) -> list[Finding]:
        """The findings that say why jobs can't run as declared, first those that only a person ends."""
        return sorted(self.of(Severity.BLOCKING), key=lambda finding: finding.reason not in NO_USE_TO_WAIT)

    @property
    def unknown(self) -> list[Finding]:
        """The findings that say why nobody knows if jobs can run."""
        return self.of(Severity.UNKNOWN)

    @property
    def wrong(self) -> list[Finding]:
        """The findings that somebody should look at."""
        return self.of(Severity.WRONG)

    @property
    def progressing(self) -> list[Finding]:
        """The findings about what is under way."""
        return self.of(Severity.PROGRESSING)

    def conditions(self, all_well: str) -> tuple[Condition, ...]:
        """Return the conditions; `all_well` is the message when nothing blocks."""
        if self.blocking:
            available = _condition(ConditionType.AVAILABLE, "False", self.blocking)
        elif self.unknown:
            available = _condition(ConditionType.AVAILABLE, "Unknown", self.unknown)
        else:
            available = Condition(ConditionType.AVAILABLE, "True", Reason.READY, all_well)
        steady = Condition(ConditionType.PROGRESSING, "False", Reason.STEADY, "nothing is under way")
        well = Condition(ConditionType.DEGRADED, "False", Reason.AS_WANTED, "nothing is wrong")
        progressing = _condition(ConditionType.PROGRESSING, "True", self.progressing) if self.progressing else steady
        degraded = _condition(ConditionType.DEGRADED, "True", self.wrong) if self.wrong else well
        return available, progressing, degraded, *self._by_people(), *self._for_kstatus(available, progressing)

    def _by_people(self) -> tuple[Condition, ...]:
        """Return the condition about nodes that people took out of service; none while nodes can't be seen."""
        kind = ConditionType.DRAINED_BY_PEOPLE
        told = [finding for finding in self if finding.severity is Severity.INFORMATION]
        nobody = Condition(kind, "False", Reason.NOBODY_DRAINED, "nobody took a node out of service")
        return (_condition(kind, "True", told) if told else nobody,) if told or not self.unknown else ()

    def _for_kstatus(self, available: Condition, progressing: Condition) -> tuple[Condition, ...]:
        """The same in the words of tools that read kstatus (kubectl, Argo CD, Flux).

        A node that waits a week for its job while all others serve delays no such tool: the cluster counts as current.
        """
        ready = dataclasses.replace(available, type=ConditionType.READY)
        stalled = [finding for finding in self.blocking if finding.reason in NO_USE_TO_WAIT]
        waits = available.status != "True" and progressing.status == "True" and not stalled
        at_rest = Condition(ConditionType.RECONCILING, "False", Reason.STEADY, "nothing is waited for")
        reconciling = dataclasses.replace(progressing, type=ConditionType.RECONCILING) if waits else at_rest
        going = Condition(ConditionType.STALLED, "False", Reason.NOT_STALLED, "nothing waits for another declaration")
        return ready, reconciling, _condition(ConditionType.STALLED, "True", stalled) if stalled else going


def lasting(
    findings: Sequence[Finding], reason: Reason, before: Mapping[str, int], told_from: int
) -> tuple[Findings, dict[str, int]]:
    """Return the findings to tell, without those of `reason` that may be over with the next pass.

    Args:
        findings: those of this pass.
        reason: of findings that are told only if they last.
        before: by message, in how many passes in a row such findings stood until now.
        told_from: the number of passes from which on one is told.

    Returns:
        The findings to tell, and what `before` is for the next pass.
    """
    counts = {finding.message: before.get(finding.message, 0) + 1 for finding in findings if finding.reason == reason}
    told = (
        finding
        for finding in findings
        if counts.get(finding.message, told_from) >= told_from or finding.reason != reason
    )
    return Findings(told), counts


def shown(words: Sequence[str], most: int = 10) -> str:
    """Return the first of some texts, and how many more there are."""
    more = f" and {len(words) - most} more" if len(words) > most else ""
    return ", ".join(words[:most]) + more


def _condition(kind: str, status: str, findings: Sequence[Finding]) -> Condition:
    said = "; ".join(finding.message for finding in findings[:_SHOWN])
    more = f"; and {len(findings) - _SHOWN} more" if len(findings) > _SHOWN else ""
    return Condition(kind, status, findings[0].reason, (said + more)[:MAX_MESSAGE])
