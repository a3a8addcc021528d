"""Changes of verdicts: since when a check says what it says, and which run still said otherwise."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from node_health import node
from node_health.report import Report
from node_health.verdict import Verdict

MOST = 100
"""The most changes that are kept, the latest ones."""


@dataclass(frozen=True, slots=True)
class Change:
    """A check's verdict became another one.

    Attributes:
        check: its name.
        verdict: what it says since then.
        evidence: of the latest run that said so.
        at: time of the first run that said so, in seconds since the epoch.
        before: time of the run before, which still said otherwise; 0 if there was none.
    """

    check: str
    verdict: Verdict
    evidence: str
    at: float
    before: float = 0.0


@dataclass(frozen=True, slots=True)
class History:
    """The verdicts of runs in this pod.

    Attributes:
        looked: check → when it was made last, in seconds since the epoch.
        latest: check → the change to the verdict that it has now.
        changes: all that are kept, the latest last. A first verdict PASS is none.
    """

    looked: Mapping[str, float] = field(default_factory=dict)
    latest: Mapping[str, Change] = field(default_factory=dict)
    changes: tuple[Change, ...] = ()


def followed(history: History, run: Report) -> History:
    """Returns the history after a run.

    Args:
        history: before the run.
        run: what the run made itself, without results that it kept.
    """
    latest, changes = dict(history.latest), [*history.changes]
    for result in run.results:
        check, verdict, evidence = result.check, result.finding.verdict, result.finding.evidence
        known = latest.get(check)
        if known and known.verdict is verdict:
            latest[check] = replace(known, evidence=evidence)
            continue
        latest[check] = Change(check, verdict, evidence, run.at, history.looked.get(check, 0.0))
        if known or verdict is not Verdict.PASS:
            changes.append(latest[check])
    for check in run.skipped:
        latest.pop(check, None)
    looked = {**history.looked, **{result.check: run.at for result in run.results}}
    return History(looked, latest, tuple(changes[-MOST:]))


def read(file: Path) -> History:
    """Reads what `write` wrote; a file that can't be read is an empty history."""
    try:
        said = json.loads(file.read_text())
        return History(
            {str(check): float(at) for check, at in said["looked"].items()},
            {row[0]: _change(row) for row in said["latest"]},
            tuple(_change(row) for row in said["changes"]),
        )
    except (OSError, ValueError, KeyError, TypeError, IndexError, AttributeError):
        return History()


def write(history: History, file: Path) -> None:
    """Writes the history."""
    latest = [_row(change) for change in history.latest.values()]
    changes = [_row(change) for change in history.changes]
    node.put(file, json.dumps({"looked": dict(history.looked), "latest": latest, "changes": changes}))


def _row(change: Change) -> list[str | float]:
    return [change.check, change.verdict, change.evidence, change.at, change.before]


def _change(row: list[object]) -> Change:
    check, verdict, evidence, at, before = row
    return Change(str(check), Verdict(str(verdict)), str(evidence), float(str(at)), float(str(before)))
