"""Things to say about a cluster or a node set, and the conditions that they make."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

_SHOWN = 5
MAX_MESSAGE = 1024


@dataclasses.dataclass(frozen=True, slots=True)
class Finding:
    """One thing to say, with a reason for machines, and the node that it is about if it is about one."""

    reason: str
    message: str
    node: str = ""


@dataclasses.dataclass(frozen=True, slots=True)
class Condition:
    """A Kubernetes condition without its times."""

    type: str
    status: str
    reason: str
    message: str


@dataclasses.dataclass(slots=True)
class Findings:
    """What blocks Available, what still moves, what is wrong, and what cannot be known."""

    blocking: list[Finding] = dataclasses.field(default_factory=list)
    moving: list[Finding] = dataclasses.field(default_factory=list)
    wrong: list[Finding] = dataclasses.field(default_factory=list)
    unknown: list[Finding] = dataclasses.field(default_factory=list)

    def tell(self, reason: str, message: str, *lists: list[Finding]) -> None:
        """Say one thing in several of the lists."""
        for each in lists:
            each.append(Finding(reason, message))

    def add(self, other: Findings) -> None:
        """Take over what another has found."""
        self.blocking += other.blocking
        self.moving += other.moving
        self.wrong += other.wrong
        self.unknown += other.unknown

    def conditions(self, all_well: str) -> tuple[Condition, ...]:
        """Conclude; `all_well` is the message when nothing blocks."""
        if self.blocking:
            available = _condition("Available", "False", self.blocking)
        elif self.unknown:
            available = _condition("Available", "Unknown", self.unknown)
        else:
            available = Condition("Available", "True", "Ready", all_well)
        steady = Condition("Progressing", "False", "Steady", "nothing moves")
        well = Condition("Degraded", "False", "AsWanted", "nothing is wrong")
        progressing = _condition("Progressing", "True", self.moving) if self.moving else steady
        degraded = _condition("Degraded", "True", self.wrong) if self.wrong else well
        return available, progressing, degraded


def lasting(
    found: Sequence[Finding], reason: str, before: Mapping[str, int], told_from: int
) -> tuple[list[Finding], dict[str, int]]:
    """What is to be told, without what has that reason and may be over with the next pass.

    Args:
        found: what a pass found.
        reason: of findings that are told only if they last.
        before: by message, in how many passes in a row such findings stood until now.
        told_from: the number of passes from which on one is told.

    Returns:
        The findings to tell, and what `before` is for the next pass.
    """
    counts = {each.message: before.get(each.message, 0) + 1 for each in found if each.reason == reason}
    return [each for each in found if counts.get(each.message, told_from) >= told_from or each.reason != reason], counts


def shown(words: Sequence[str], most: int = 10) -> str:
    """Return the first of some words, and how many more there are."""
    more = f" and {len(words) - most} more" if len(words) > most else ""
    return ", ".join(words[:most]) + more


def _condition(kind: str, status: str, findings: Sequence[Finding]) -> Condition:
    said = "; ".join(finding.message for finding in findings[:_SHOWN])
    more = f"; and {len(findings) - _SHOWN} more" if len(findings) > _SHOWN else ""
    return Condition(kind, status, findings[0].reason, (said + more)[:MAX_MESSAGE])
