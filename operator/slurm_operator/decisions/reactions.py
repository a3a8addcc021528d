"""What is done about unfit nodes: wait, start the idle pod anew, take it to another machine, give up loudly.

A node drains itself, looks again all the time, and lifts its own drain (docs/health.md). What it can't do is start
anew, with mounts, devices and a slurmd that are made once, or elsewhere. A node that was drained since its machine is
not ready or tainted (decisions/machines.py) begins at the last rung. Each repair is noted in the NodeSet's status first
and done in a later pass on the ground of that note, so an operator that dies between the two neither forgets nor
repeats it. The node's own drain, which it may lift at any moment, first becomes the operator's (contract's REPAIR).
The pod goes in a later pass, on the ground of listings made after one that showed that drain. A note is done with when
the pod is younger than it, and void when the drain is no longer that of the note, or the policy no longer has such
repairs. The new pod is undrained when it is ready; else it says what it lacks.
"""

from __future__ import annotations

import dataclasses
import datetime
import enum
from collections.abc import Sequence

from contract import names, reasons
from slurm_operator.decisions import machines
from slurm_operator.decisions import nodes as slurm_nodes
from slurm_operator.decisions.findings import Finding
from slurm_operator.decisions.moves import DeletePod, Drain, Purpose
from slurm_operator.decisions.reasons import Reason
from slurm_operator.decisions.replicas import Scale, free
from slurm_operator.seen import Evidence, Nodes, Pod, Restart, SlurmNode

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
    MACHINE = "machine"
    OPERATOR = "operator"
    FOREIGN = "foreign"


class Rung(enum.Enum):
    """What is done about an unfit node; the value completes "it would …"."""

    RESTART = "start anew"
    REPLACE = "leave its machine, which would be cordoned and tainted"
    GIVE_UP = "be left to you"


@dataclasses.dataclass(frozen=True, slots=True)
class Plan:
    """What to do now, what to note for the next pass, and what to say."""

    moves: tuple[DeletePod | Drain, ...] = ()
    restarts: tuple[Restart, ...] = ()
    findings: tuple[Finding, ...] = ()


def cause(node: SlurmNode) -> Cause | None:
    """Whose drain a node carries; None if it carries none."""
    if not slurm_nodes.is_drained(node):
        return None
    if slurm_nodes.is_unfit(node) or slurm_nodes.is_repair(node):
        return Cause.UNFIT
    if slurm_nodes.is_machine_drain(node):
        return Cause.MACHINE
    return Cause.OPERATOR if node.reason.startswith(reasons.PREFIX) else Cause.FOREIGN


def approval(node: SlurmNode) -> str:
    """What an administrator writes to let an unfit node be repaired; another failure needs another one."""
    return f"{node.name}.{int(node.reason_set.timestamp()) if node.reason_set else 0}"


def needs_evidence(scale: Scale, nodes: Nodes) -> bool:
    """Whether full listings could lead to the repair of an unfit node."""
    there = [nodes[name] for name in scale.under_repair() if name in nodes]
    return any(slurm_nodes.is_held_for_repair(node) and slurm_nodes.may_restart(node) for node in there)


def plan(scale: Scale, nodes: Nodes, evidence: Evidence | None, hold: str = "") -> Plan:
    """What to do about the unfit nodes of a set now.

    Args:
        scale: the sizes, pods, policy and earlier restarts of the node set.
        nodes: the listing with which this pass began.
        evidence: full listings of nodes and jobs made after `nodes`; None if none were made.
        hold: why nothing may be restarted; empty if nothing keeps it.
    """
    kept = [each for each in scale.restarts if each.at > scale.now - REMEMBERED and not _is_moot(scale, each, nodes)]
    scale = dataclasses.replace(scale, restarts=tuple(kept[-MOST_REMEMBERED:]))
    policy = scale.reactions
    if not (policy.restart or policy.replace) or hold:
        return Plan(restarts=scale.restarts)
    unfit = [name for name in scale.members() if _is_unfit(scale, name, nodes)]
    failed = {*unfit, *_taken(scale, nodes)}
    if unfit and scale.have_one_cause(len(failed), len(scale.members())):
        return Plan(restarts=scale.restarts, findings=(_open_breaker(scale, len(failed), nodes[unfit[0]]),))
    due = [name for name in unfit if _is_due(scale, nodes[name]) and name not in scale.under_repair()]
    rungs = {name: _rung(scale, nodes[name]) for name in due}
    findings = [_given_up(scale, nodes[name]) for name in due if rungs[name] is Rung.GIVE_UP]
    ready = [name for name in due if rungs[name] is not Rung.GIVE_UP]
    if policy.approval:
        waiting = [name for name in ready if approval(nodes[name]) not in scale.approved]
        findings += [_awaits(scale, nodes[name], rungs[name]) for name in waiting]
        ready = [name for name in ready if name not in waiting]
    room = _room(scale, nodes)
    chosen, later = ready[:room], ready[room:]
    if policy.dry_run:
        findings += [_would(nodes[name], rungs[name]) for name in chosen]
        chosen, later = [], []
    noted = (Restart(name, scale.now, replace=rungs[name] is Rung.REPLACE) for name in chosen)
    after = dataclasses.replace(scale, restarts=(*scale.restarts, *noted))
    findings += [_waits(after, later, sorted(_taken(after, nodes)))] if later else []
    moves: list[DeletePod | Drain] = [*_drains(scale, nodes), *_moves(scale, nodes, evidence)]
    return Plan(tuple(moves), after.restarts, tuple(findings))


def _is_moot(scale: Scale, noted: Restart, nodes: Nodes) -> bool:
    """Whether a repair did not begin and is no longer for that drain, which half a listing does not show, or wanted."""
    node, policy = nodes.get(noted.node), scale.reactions
    if node is None or scale.under_repair().get(noted.node) != noted or scale.pods[noted.node].terminating:
        return False
    # The operator's drain is for this note, and comes after it.
    newer = node.reason_set is not None and node.reason_set > noted.at and not slurm_nodes.is_repair(node)
    wanted = not policy.dry_run and (policy.replace if noted.replace else policy.restart)
    return newer or not wanted or cause(node) not in (Cause.UNFIT, Cause.MACHINE)


def _is_unfit(scale: Scale, name: str, nodes: Nodes) -> bool:
    """Whether a node is on the ladder: by its own word, or by its machine's, if that may be left."""
    whose = cause(nodes[name]) if name in nodes else None
    if whose is not Cause.MACHINE:
        return whose is Cause.UNFIT
    if not scale.reactions.replace or name not in scale.pods:
        return False
    # Our own cordon comes before the deletion of the pod.
    begun = name in scale.under_repair() and machines.case(scale, name)[0] is machines.Case.CORDONED
    return begun or machines.case(scale, name)[0] in (machines.Case.AWAY, machines.Case.TAINTED)


def _rung(scale: Scale, node: SlurmNode) -> Rung:
    """What is to be tried next for a node, after its repairs of the last day."""
    policy, own = scale.reactions, _tried(scale, node)
    if policy.restart and cause(node) is Cause.UNFIT and not any(own) and len(own) < policy.attempts:
        return Rung.RESTART
    return Rung.REPLACE if _may_be_replaced(scale, node) and not any(own) else Rung.GIVE_UP


def _tried(scale: Scale, node: SlurmNode) -> list[bool]:
    """The repairs of a node within the last day: false for a restart, true for a replacement."""
    return [each.replace for each in scale.restarts if each.node == node.name]


def _may_be_replaced(scale: Scale, node: SlurmNode) -> bool:
    """Whether another machine would help, and the one that the pod is on is known."""
    at_fault = cause(node) is Cause.MACHINE or slurm_nodes.is_at_fault(node)
    return scale.reactions.replace and at_fault and scale.machine(node.name) is not None


def _drains(scale: Scale, nodes: Nodes) -> list[Drain]:
    """Drains that take nodes' own over, so that these do not return to work while they are repaired."""
    own = [nodes[name] for name in _to_repair(scale, nodes) if slurm_nodes.is_unfit(nodes[name])]
    return [Drain(node.name, slurm_nodes.repair_reason(node)) for node in own if slurm_nodes.may_restart(node)]


def _to_repair(scale: Scale, nodes: Nodes) -> list[str]:
    """Nodes whose repair was noted and is still wanted."""
    return [
        name
        for name, noted in scale.under_repair().items()
        if name in scale.members() and name in nodes and not scale.pods[name].terminating
        if _is_unfit(scale, name, nodes) and (not noted.replace or _may_be_replaced(scale, nodes[name]))
    ]


def _moves(scale: Scale, nodes: Nodes, evidence: Evidence | None) -> list[DeletePod]:
    if evidence is None:
        return []
    going = free(scale, nodes, evidence)
    return [
        _move(scale, nodes[name], scale.under_repair()[name])
        for name in _to_repair(scale, nodes)
        if name in going and _is_unfit(scale, name, evidence.nodes)
        if all(slurm_nodes.is_held_for_repair(listing[name]) for listing in (nodes, evidence.nodes))
    ]


def _move(scale: Scale, node: SlurmNode, noted: Restart) -> DeletePod:
    pod = scale.pods[node.name]
    # Who tainted the machine takes that back himself; a cordon of ours would stay.
    cordon = noted.replace and machines.case(scale, node.name)[0] is not machines.Case.TAINTED
    purpose = Purpose.ELSEWHERE if noted.replace else Purpose.ANEW
    return DeletePod(node.name, pod.uid, purpose, slurm_nodes.fault(node), pod.machine if cordon else "")


def _is_due(scale: Scale, node: SlurmNode) -> bool:
    """Whether a node had its time to recover by itself, has a pod, and no work."""
    pod = scale.pods.get(node.name)
    # One that does not run yet has not looked at its machine.
    if pod is None or pod.terminating or not pod.running or pod.created is None or not slurm_nodes.may_restart(node):
        return False
    # A new pod under the old drain has its time, too.
    since = max(node.reason_set or pod.created, pod.created)
    return (scale.now - since).total_seconds() >= scale.reactions.after_seconds


def _room(scale: Scale, nodes: Nodes) -> int:
    """How many more repairs the budgets allow now."""
    at_once = scale.reactions.at_once - len(_taken(scale, nodes))
    return max(0, min(at_once, scale.reactions.per_hour - len(_within_the_hour(scale))))


def _taken(scale: Scale, nodes: Nodes) -> frozenset[str]:
    """Nodes that a repair has taken and that do not work yet; one that it did not mend counts for a while."""
    lately = {each.node for each in scale.restarts if each.at > scale.now - SETTLING} & {*scale.members()}
    return frozenset(name for name in lately if not _works(scale.pods.get(name), nodes.get(name)))


def _works(pod: Pod | None, node: SlurmNode | None) -> bool:
    ready = pod is not None and pod.ready and not pod.terminating
    return slurm_nodes.standing(node, pod_ready=ready) is slurm_nodes.Standing.USABLE


def _within_the_hour(scale: Scale) -> list[datetime.datetime]:
    return sorted(each.at for each in scale.restarts if each.at > scale.now - _HOUR)


def _waits(scale: Scale, later: Sequence[str], out: Sequence[str]) -> Finding:
    """Which budget keeps unfit nodes from their repair, and until when."""
    policy, lately = scale.reactions, _within_the_hour(scale)
    kept = f"unfit and not repaired yet: {', '.join(later)}; node set {scale.stateful_set} has"
    if len(lately) >= policy.per_hour:
        when = f"the next repair may be at {lately[-policy.per_hour] + _HOUR:%H:%M:%S} UTC"
        return Finding(Reason.BUDGET_SPENT, f"{kept} reactions.perHour {policy.per_hour}, and {when}")
    taken = f"{', '.join(out)} taken; a repair that does not help counts for {SETTLING.seconds // 60} minutes"
    return Finding(Reason.REPAIR_WAITS, f"{kept} reactions.atOnce {policy.at_once}, and {taken}")


def _open_breaker(scale: Scale, failed: int, node: SlurmNode) -> Finding:
    share = f"{failed} of {len(scale.members())} nodes are unfit at once"
    shared = "nothing is restarted: look for what they share"
    return Finding(Reason.BREAKER_OPEN, f"node set {scale.stateful_set}: {share}; {shared} ({slurm_nodes.fault(node)})")


def _given_up(scale: Scale, node: SlurmNode) -> Finding:
    own = _tried(scale, node)
    tried = f"{own.count(False)} restarts" + (" and on another machine" if any(own) else "")
    told = f"{node.name} is unfit after {tried}: {slurm_nodes.fault(node)}; repair or replace its machine"
    return Finding(Reason.GAVE_UP, told, node=node.name)


def _awaits(scale: Scale, node: SlurmNode, rung: Rung) -> Finding:
    annotate = f"kubectl annotate --overwrite nodeset {scale.stateful_set} {names.ANNOTATION_APPROVE}={approval(node)}"
    told = f"{node.name} would {rung.value} ({slurm_nodes.fault(node)}); to let it: {annotate}"
    return Finding(Reason.AWAITS_APPROVAL, told, node=node.name)


def _would(node: SlurmNode, rung: Rung) -> Finding:
    reason = Reason.WOULD_REPLACE if rung is Rung.REPLACE else Reason.WOULD_RESTART
    return Finding(reason, f"{node.name} would {rung.value}: {slurm_nodes.fault(node)}", node=node.name)
