"""Checks that the jail exists and answers, by the probes that the pod's entry makes every few seconds.

A probe makes a job's namespaces as a job would, so it is the best evidence. This check only reads the last results.
While probes fail, the entry itself drains the node, with a reason of its own.
"""

import time
from dataclasses import dataclass

from contract import reasons
from node_health import node
from node_health.check import Check, Machine
from node_health.verdict import Finding, fails, passes, unknown

OLD_SECONDS = 60.0
"""Probes are 5 s apart and give up after 20 s."""


@dataclass(frozen=True, slots=True)
class Probes:
    """Results of the jail probes: why they fail (None while they succeed), and how many seconds ago one succeeded."""

    broken: str | None
    worked_seconds_ago: float | None


def look(machine: Machine) -> Probes:
    """Reads the probes' results."""
    broken, worked = machine.path(node.JAIL_BROKEN), machine.path(node.JAIL_WORKED)
    why = broken.read_text() if broken.exists() else None
    return Probes(why, time.time() - worked.stat().st_mtime if worked.exists() else None)


def judge(probes: Probes, machine: Machine) -> Finding:
    """FAIL while probes fail, UNKNOWN after a long time without one."""
    if probes.broken is not None:
        return fails(probes.broken)
    if probes.worked_seconds_ago is None:
        return unknown(reasons.NO_PROBE_YET)
    if probes.worked_seconds_ago > OLD_SECONDS:
        return unknown(f"the last jail probe was {probes.worked_seconds_ago:.0f} s ago")
    return passes("a job's view of the jail can be made")


CHECK = Check(
    reasons.Check.JAIL,
    look,
    judge,
    fails="[test steps](#the-test-step) in the jail fail",
    warns="",
    remedy="read the pod's log; see docs/jail.md",
)
