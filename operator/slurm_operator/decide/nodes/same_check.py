"""Tells that one check drains many nodes of a set at once: what fails together probably has one cause.

It may be a fault that they share, such as a file server, or a check that is wrong. The operator lifts and holds no such
drain: docs/adr/0050 says why.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence

from contract import reasons
from contract.conditions import Reason
from slurm_operator.decide.nodes.workers import NodeSetState, Worker
from slurm_operator.drains import Owner
from slurm_operator.findings import Finding

MANY_PERCENT = 10
"""More than this share of a set's nodes, and more than one node, are many. So few of a large set fail by chance."""
_SWITCHES = frozenset(reasons.Check) - {reasons.Check.JAIL}
"""Checks that `health.checks.disabled` takes."""


def findings(state: NodeSetState) -> list[Finding]:
    """Return a finding for each check that drains many nodes of a set, the one with the most first."""
    members = len(state.members())
    many = [
        (check, workers)
        for check, workers in _by_check(state).items()
        if len(workers) > 1 and len(workers) * 100 > MANY_PERCENT * members
    ]
    return [_told(state, check, workers) for check, workers in sorted(many, key=lambda row: -len(row[1]))]


def _by_check(state: NodeSetState) -> Mapping[str, list[Worker]]:
    """Return the nodes that drained themselves, by the check that did it."""
    drained = defaultdict(list)
    for worker in state.members():
        if worker.drain in (Owner.UNFIT, Owner.REPAIR):
            cause = worker.fault.partition(": ")[0]
            check = cause.removeprefix(f"{reasons.HEALTH} ").removeprefix(reasons.PREFIX)
            drained[check].append(worker)
    return drained


def _told(state: NodeSetState, check: str, workers: Sequence[Worker]) -> Finding:
    share = f"the check {check} drains {len(workers)} of {len(state.members())} nodes at once"
    such = f"such as {workers[0].name} ({workers[0].fault})"
    off = f"; if the check is wrong, name it in health.checks.disabled: {check}" if check in _SWITCHES else ""
    shared = "look for what they share: the nodes lift these drains when the check passes"
    message = f"node set {state.stateful_set}: {share}, {such}; {shared}{off}"
    return Finding(Reason.SAME_CHECK_ON_MANY_NODES, message)
