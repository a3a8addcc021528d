"""Tells what a pass does without, since the API server refuses to show it: a lost right stops no more than it must."""

from __future__ import annotations

from contract.conditions import Reason
from slurm_operator.findings import Finding
from slurm_operator.state.kubernetes import Kubernetes, Unread

_EFFECTS = {
    Unread.REST: "nobody is told whether slurmrestd's pods are ready",
    Unread.DRY_RUN: "slurmctld gets no changed template",
    Unread.CONFIGURATION: "slurmctld gets no changed configuration, and no node another template",
    Unread.LEDGER: "nothing is updated or restored",
    Unread.EVENTS: "nobody is told why Kubernetes makes no pod",
}


def findings(seen: Kubernetes) -> list[Finding]:
    """Return a finding about each part that can't be read."""
    return [
        Finding(Reason.NOT_READABLE, f"{part} can't be read, so that {_EFFECTS[part]}: {words}")
        for part, words in sorted(seen.unread.items())
    ]
