"""Is the jail present and does it answer? Asked of the trials that the pod's entry makes every few seconds.

A trial makes a job's namespaces as a job would, so nothing says it better; this check only reads what the last ones
found. The entry drains for it by itself, under a reason of its own.
"""

import time
from dataclasses import dataclass
from pathlib import Path

from node_health import node
from node_health.verdict import Finding, Verdict

OLD_SECONDS = 60.0
"""Trials are 5 s apart and give up after 20 s."""


@dataclass(frozen=True, slots=True)
class Trials:
    """What the entry's trials left: why they fail, and how many seconds ago one worked."""

    broken: str | None
    worked_seconds_ago: float | None


def look(broken: Path = node.JAIL_BROKEN, worked: Path = node.JAIL_WORKED) -> Trials:
    """Reads what the trials left."""
    why = broken.read_text() if broken.exists() else None
    return Trials(why, time.time() - worked.stat().st_mtime if worked.exists() else None)


def judge(trials: Trials) -> Finding:
    """FAIL while trials fail, UNKNOWN when there was none for long."""
    if trials.broken is not None:
        return Finding(Verdict.FAIL, trials.broken)
    if trials.worked_seconds_ago is None:
        return Finding(Verdict.UNKNOWN, "no trial of the jail is done yet")
    if trials.worked_seconds_ago > OLD_SECONDS:
        return Finding(Verdict.UNKNOWN, f"the last trial of the jail was {trials.worked_seconds_ago:.0f} s ago")
    return Finding(Verdict.PASS, "a job's view of the jail can be made")
