"""Checks that the jail exists and answers, by the probes that the pod's entry makes every few seconds.

A probe makes a job's namespaces as a job would, so it is the best evidence. This check only reads the last results.
While probes fail, the entry itself drains the node, with a reason of its own.
"""

import time
from dataclasses import dataclass
from pathlib import Path

from contract import reasons
from node_health import node
from node_health.verdict import Finding, Verdict

OLD_SECONDS = 60.0
"""Probes are 5 s apart and give up after 20 s."""


@dataclass(frozen=True, slots=True)
class Probes:
    """Results of the entry's probes: why they fail, and how many seconds ago one succeeded."""

    broken: str | None
    worked_seconds_ago: float | None


def look(broken: Path = node.JAIL_BROKEN, worked: Path = node.JAIL_WORKED) -> Probes:
    """Reads the probes' results."""
    why = broken.read_text() if broken.exists() else None
    return Probes(why, time.time() - worked.stat().st_mtime if worked.exists() else None)


def judge(probes: Probes) -> Finding:
    """FAIL while probes fail, UNKNOWN after a long time without one."""
    if probes.broken is not None:
        return Finding(Verdict.FAIL, probes.broken)
    if probes.worked_seconds_ago is None:
        return Finding(Verdict.UNKNOWN, reasons.NO_PROBE_YET)
    if probes.worked_seconds_ago > OLD_SECONDS:
        return Finding(Verdict.UNKNOWN, f"the last jail probe was {probes.worked_seconds_ago:.0f} s ago")
    return Finding(Verdict.PASS, "a job's view of the jail can be made")
