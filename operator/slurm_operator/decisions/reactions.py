"""What is done about nodes that find themselves unfit: wait, start the idle pod anew, give up loudly.

A node drains itself, looks again all the time, and lifts its own drain (docs/health.md). What it can't do is start
anew, with mounts, devices and a slurmd that are made once. Each restart is noted in the NodeSet's status first and done
in a later pass on the ground of that note, so an operator that dies between the two neither forgets nor repeats it. A
note is done with when the pod is younger than it.
"""

from __future__ import annotations

import dataclasses
import datetime
import enum
from collections.abc import Mapping, Sequence

from slurm_operator import names
from slurm_operator.decisions import nodes as slurm_nodes
from slurm_operator.decisions.replicas import Scale, is_free
from slurm_operator.decisions.status import Finding
from slurm_operator.seen import Evidence, Nodes, Restart, SlurmNode

_HOUR = datetime.timedelta(hours=1)
REMEMBERED = datetime.timedelta(days=1)
"""For so long a restart counts as an attempt for its node."""
MOST_REMEMBERED = 500
"""All that a day can hold: an hour has at most 20 of them."""
SETTLING = datetime.timedelta(minutes=10)
"""For so long a restarted node that is still unfit counts as being repaired."""


class Cause(enum.Enum):
    """Whose drain it is, by how its reason begins."""

    UNFIT = "unfit"
    OPERATOR = "operator"
    FOREIGN = "foreign"


@dataclasses.dataclass(frozen=True, slots=True)
class RestartUnfit:
    """Delete the pod of an unfit node, provided that it is still as it was seen."""

    node: str
    resource_version: str
    reason: str


@dataclasses.dataclass(frozen=True, slots=True)
class Plan:
    """What to do now, what to note for the next pass, and what to say."""

    moves: tuple[RestartUnfit, ...] = ()
    restarts: tuple[Restart, ...] = ()
    findings: tuple[Finding, ...] = ()


def cause(node: SlurmNode) -> Cause | None:
    """Whose drain a node carries; None if it carries none."""
    if not slurm_nodes.is_drained(node):
        return None
    if node.reason.startswith(names.UNFIT_REASONS):
        return Cause.UNFIT
    return Cause.OPERATOR if node.reason.startswith(names.REASON_PREFIX) else Cause.FOREIGN


def approval(node: SlurmNode) -> str:
    """What an administrator writes to let an unfit node start anew; another failure needs another one."""
    return f"{node.name}.{int(node.reason_set.timestamp()) if node.reason_set else 0}"


def needs_evidence(scale: Scale, nodes: Nodes) -> bool:
    """Whether full listings could lead to the restart of an unfit node."""
    return any(name in nodes and slurm_nodes.looks_idle(nodes[name]) for name in _noted(scale))


def plan(scale: Scale, nodes: Nodes, evidence: Evidence | None, hold: str = "") -> Plan:
    """What to do about the unfit nodes of a set now.

    Args:
        scale: the sizes, pods, policy and earlier restarts of the node set.
        nodes: the listing with which this pass began.
        evidence: full listings of nodes and jobs made after `nodes`; None if none were made.
        hold: why nothing may be restarted; empty if nothing keeps it.
    """
    policy = scale.reactions
    kept = tuple(each for each in scale.restarts if each.at > scale.now - REMEMBERED)[-MOST_REMEMBERED:]
    if not policy.restart or hold:
        return Plan(restarts=kept)
    unfit = [name for name in scale.members() if name in nodes and cause(nodes[name]) is Cause.UNFIT]
    if len(unfit) > 1 and len(unfit) * 100 > policy.breaker_percent * len(scale.members()):
        return Plan(restarts=kept, findings=(_open_breaker(scale, unfit, nodes),))
    moves = _moves(scale, nodes, evidence)
    ready = [name for name in unfit if _is_due(scale, nodes[name]) and name not in _noted(scale)]
    tried = {name: sum(each.node == name for each in kept) for name in ready}
    given_up = [name for name in ready if tried[name] >= policy.attempts]
    ready = [name for name in ready if name not in given_up]
    findings = [_given_up(nodes[name], tried[name]) for name in given_up]
    if policy.approval:
        waiting = [name for name in ready if approval(nodes[name]) not in scale.approved]
        findings += [_awaits(scale, nodes[name]) for name in waiting]
        ready = [name for name in ready if name not in waiting]
    chosen = ready[: _room(scale, kept, unfit)]
    if policy.dry_run:
        findings += [Finding("WouldRestart", f"would start {name} anew: {nodes[name].reason}") for name in chosen]
        chosen = []
    return Plan(tuple(moves), (*kept, *(Restart(name, scale.now) for name in chosen)), tuple(findings))


def _noted(scale: Scale) -> list[str]:
    """Nodes whose restart was noted and is not done: their pods are older than the note."""
    noted = {each.node: each.at for each in scale.restarts}
    there = {name: scale.pods[name].created for name in noted if name in scale.pods}
    return [name for name, created in there.items() if created is not None and created <= noted[name]]


def _moves(scale: Scale, nodes: Nodes, evidence: Evidence | None) -> list[RestartUnfit]:
    if evidence is None or scale.reactions.dry_run:
        return []
    busy = slurm_nodes.busy_nodes(evidence.jobs)
    return [
        RestartUnfit(name, scale.pods[name].resource_version, nodes[name].reason)
        for name in _noted(scale)
        if name in scale.members()
        and not scale.pods[name].terminating
        and all(name in listing and cause(listing[name]) is Cause.UNFIT for listing in (nodes, evidence.nodes))
        and is_free(scale, name, nodes, evidence, busy)
    ]


def _is_due(scale: Scale, node: SlurmNode) -> bool:
    """Whether a node had its time to recover by itself, has a pod, and no work."""
    pod = scale.pods.get(node.name)
    if pod is None or pod.terminating or pod.created is None or not slurm_nodes.looks_idle(node):
        return False
    # A new pod under the old drain has its time, too.
    since = max(node.reason_set or pod.created, pod.created)
    return (scale.now - since).total_seconds() >= scale.reactions.after_seconds


def _room(scale: Scale, restarts: Sequence[Restart], unfit: Sequence[str]) -> int:
    """How many more restarts the budgets allow now."""
    latest = {each.node: each.at for each in restarts}
    under_way = sum(latest[name] > scale.now - SETTLING for name in unfit if name in latest)
    lately = sum(each.at > scale.now - _HOUR for each in restarts)
    return max(0, min(scale.reactions.at_once - under_way, scale.reactions.per_hour - lately))


def _open_breaker(scale: Scale, unfit: Sequence[str], nodes: Mapping[str, SlurmNode]) -> Finding:
    share = f"{len(unfit)} of {len(scale.members())} nodes are unfit at once"
    shared = "nothing is restarted: look for what they share"
    return Finding("BreakerOpen", f"node set {scale.stateful_set}: {share}; {shared} ({nodes[unfit[0]].reason})")


def _given_up(node: SlurmNode, tried: int) -> Finding:
    return Finding(
        "GaveUp", f"{node.name} is unfit after {tried} restarts: {node.reason}; repair or replace its machine"
    )


def _awaits(scale: Scale, node: SlurmNode) -> Finding:
    annotate = f"kubectl annotate --overwrite nodeset {scale.stateful_set} {names.APPROVE_ANNOTATION}={approval(node)}"
    return Finding("AwaitsApproval", f"{node.name} would start anew ({node.reason}); to let it: {annotate}")
