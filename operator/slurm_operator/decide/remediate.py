"""What is done about unfit nodes: wait, start the idle pod anew, take it to another machine, give up loudly.

A node drains itself, looks again all the time, and lifts its own drain (docs/health.md). It cannot start anew, with
mounts, devices and a slurmd that are made once, or elsewhere. A node whose Kubernetes node is not ready or tainted
(decide/k8s_nodes.py) begins at the last step.

The operator notes each repair in the NodeSet's status first and does it in a later pass. So an operator that dies
between the two neither forgets nor repeats it. The node may lift its own drain at any moment, so that first becomes
the operator's (contract's REPAIR). The pod goes in a later pass, after listings made since that drain was seen. A note
has done its work when the pod is younger than it. It is void when the drain is another by then, or when the policy has
no such repairs any more. The new pod is undrained when it is ready. Otherwise it says what it lacks.
"""

from __future__ import annotations

import dataclasses
import datetime
import enum
from collections.abc import Sequence

from contract import names
from slurm_operator import drains
from slurm_operator.actions import DeletePod, Drain, Purpose
from slurm_operator.decide import k8s_nodes
from slurm_operator.decide import nodes as slurm_nodes
from slurm_operator.decide.scale import NodeSetState, safe_to_delete
from slurm_operator.drains import Owner
from slurm_operator.findings import Finding
from slurm_operator.reasons import Reason
from slurm_operator.state import Evidence, Nodes, Pod, Restart, SlurmNode

_HOUR = datetime.timedelta(hours=1)
REMEMBERED = datetime.timedelta(days=1)
"""For so long a restart counts as an attempt for its node."""
MOST_REMEMBERED = 500
"""All that a day can hold: an hour has at most 20 of them."""
SETTLING = datetime.timedelta(minutes=10)
"""For so long a restarted node that is still unfit counts as being repaired."""


class RemediationStep(enum.Enum):
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


def approval(node: SlurmNode) -> str:
    """What an administrator writes to let an unfit node be repaired; another failure needs another one."""
    return f"{node.name}.{int(node.reason_set.timestamp()) if node.reason_set else 0}"


def needs_evidence(state: NodeSetState, nodes: Nodes) -> bool:
    """Whether full listings could lead to the repair of an unfit node."""
    there = [nodes[name] for name in state.under_repair() if name in nodes]
    return any(drains.is_held_for_repair(node) and slurm_nodes.may_restart(node) for node in there)


def plan(state: NodeSetState, nodes: Nodes, evidence: Evidence | None, hold: str = "") -> Plan:
    """What to do about the unfit nodes of a set now.

    Args:
        state: the sizes, pods, policy and earlier restarts of the node set.
        nodes: the listing with which this pass began.
        evidence: full listings of nodes and jobs made after `nodes`; None if none were made.
        hold: why nothing may be restarted; empty if nothing keeps it.
    """
    kept = [each for each in state.restarts if each.at > state.now - REMEMBERED and not _is_moot(state, each, nodes)]
    state = dataclasses.replace(state, restarts=tuple(kept[-MOST_REMEMBERED:]))
    policy = state.reactions
    if not (policy.restart or policy.replace) or hold:
        return Plan(restarts=state.restarts)
    unfit = [name for name in state.members() if _is_unfit(state, name, nodes)]
    failed = {*unfit, *_taken(state, nodes)}
    if unfit and state.have_one_cause(len(failed), len(state.members())):
        return Plan(restarts=state.restarts, findings=(_open_breaker(state, len(failed), nodes[unfit[0]]),))
    due = [name for name in unfit if _is_due(state, nodes[name]) and name not in state.under_repair()]
    steps = {name: _next_step(state, nodes[name]) for name in due}
    findings = [_given_up(state, nodes[name]) for name in due if steps[name] is RemediationStep.GIVE_UP]
    ready = [name for name in due if steps[name] is not RemediationStep.GIVE_UP]
    if policy.approval:
        waiting = [name for name in ready if approval(nodes[name]) not in state.approved]
        findings += [_awaits(state, nodes[name], steps[name]) for name in waiting]
        ready = [name for name in ready if name not in waiting]
    room = _room(state, nodes)
    chosen, later = ready[:room], ready[room:]
    if policy.dry_run:
        findings += [_would(nodes[name], steps[name]) for name in chosen]
        chosen, later = [], []
    noted = (Restart(name, state.now, replace=steps[name] is RemediationStep.REPLACE) for name in chosen)
    after = dataclasses.replace(state, restarts=(*state.restarts, *noted))
    findings += [_waits(after, later, sorted(_taken(after, nodes)))] if later else []
    moves: list[DeletePod | Drain] = [*_drains(state, nodes), *_moves(state, nodes, evidence)]
    return Plan(tuple(moves), after.restarts, tuple(findings))


def _is_moot(state: NodeSetState, noted: Restart, nodes: Nodes) -> bool:
    """Whether a repair that did not begin is no longer wanted, or its drain is gone. Half a listing shows neither."""
    node, policy = nodes.get(noted.node), state.reactions
    if node is None or state.under_repair().get(noted.node) != noted or state.pods[noted.node].terminating:
        return False
    # The operator's drain is for this note, and comes after it.
    newer = node.reason_set is not None and node.reason_set > noted.at and not drains.is_repair(node)
    wanted = not policy.dry_run and (policy.replace if noted.replace else policy.restart)
    return newer or not wanted or drains.owner(node) not in (Owner.UNFIT, Owner.REPAIR, Owner.K8S_NODE)


def _is_unfit(state: NodeSetState, name: str, nodes: Nodes) -> bool:
    """Whether a node is on the ladder: by its own word, or by its machine's, if that may be left."""
    node = nodes.get(name)
    if node is None or not drains.is_for_k8s_node(node):
        return node is not None and drains.owner(node) in (Owner.UNFIT, Owner.REPAIR)
    if not state.reactions.replace or name not in state.pods:
        return False
    # Our own cordon comes before the deletion of the pod.
    begun = name in state.under_repair() and k8s_nodes.case(state, name)[0] is k8s_nodes.Case.CORDONED
    return begun or k8s_nodes.case(state, name)[0] in (k8s_nodes.Case.AWAY, k8s_nodes.Case.TAINTED)


def _next_step(state: NodeSetState, node: SlurmNode) -> RemediationStep:
    """What is to be tried next for a node, after its repairs of the last day."""
    policy, own = state.reactions, _tried(state, node)
    if policy.restart and not drains.is_for_k8s_node(node) and not any(own) and len(own) < policy.attempts:
        return RemediationStep.RESTART
    return RemediationStep.REPLACE if _may_be_replaced(state, node) and not any(own) else RemediationStep.GIVE_UP


def _tried(state: NodeSetState, node: SlurmNode) -> list[bool]:
    """The repairs of a node within the last day: false for a restart, true for a replacement."""
    return [each.replace for each in state.restarts if each.node == node.name]


def _may_be_replaced(state: NodeSetState, node: SlurmNode) -> bool:
    """Whether another machine would help, and the one that the pod is on is known."""
    at_fault = drains.is_for_k8s_node(node) or drains.is_at_fault(node)
    return state.reactions.replace and at_fault and state.k8s_node(node.name) is not None


def _drains(state: NodeSetState, nodes: Nodes) -> list[Drain]:
    """Drains that take nodes' own over, so that these do not return to work while they are repaired."""
    own = [nodes[name] for name in _to_repair(state, nodes) if drains.is_unfit(nodes[name])]
    return [Drain(node.name, drains.repair_reason(node)) for node in own if slurm_nodes.may_restart(node)]


def _to_repair(state: NodeSetState, nodes: Nodes) -> list[str]:
    """Nodes whose repair was noted and is still wanted."""
    return [
        name
        for name, noted in state.under_repair().items()
        if name in state.members() and name in nodes and not state.pods[name].terminating
        if _is_unfit(state, name, nodes) and (not noted.replace or _may_be_replaced(state, nodes[name]))
    ]


def _moves(state: NodeSetState, nodes: Nodes, evidence: Evidence | None) -> list[DeletePod]:
    if evidence is None:
        return []
    going = safe_to_delete(state, nodes, evidence)
    return [
        _move(state, nodes[name], state.under_repair()[name])
        for name in _to_repair(state, nodes)
        if name in going and _is_unfit(state, name, evidence.nodes)
        if all(drains.is_held_for_repair(listing[name]) for listing in (nodes, evidence.nodes))
    ]


def _move(state: NodeSetState, node: SlurmNode, noted: Restart) -> DeletePod:
    pod = state.pods[node.name]
    # Who tainted the machine takes that back himself; a cordon of ours would stay.
    cordon = noted.replace and k8s_nodes.case(state, node.name)[0] is not k8s_nodes.Case.TAINTED
    purpose = Purpose.ELSEWHERE if noted.replace else Purpose.ANEW
    return DeletePod(node.name, pod.uid, purpose, drains.fault(node), pod.k8s_node if cordon else "")


def _is_due(state: NodeSetState, node: SlurmNode) -> bool:
    """Whether a node had its time to recover by itself, has a pod, and no work."""
    pod = state.pods.get(node.name)
    # One that does not run yet has not looked at its machine.
    if pod is None or pod.terminating or not pod.running or pod.created is None or not slurm_nodes.may_restart(node):
        return False
    # A new pod under the old drain has its time, too.
    since = max(node.reason_set or pod.created, pod.created)
    return (state.now - since).total_seconds() >= state.reactions.after_seconds


def _room(state: NodeSetState, nodes: Nodes) -> int:
    """How many more repairs the budgets allow now."""
    at_once = state.reactions.at_once - len(_taken(state, nodes))
    return max(0, min(at_once, state.reactions.per_hour - len(_within_the_hour(state))))


def _taken(state: NodeSetState, nodes: Nodes) -> frozenset[str]:
    """Nodes that a repair has taken and that do not work yet; one that it did not mend counts for a while."""
    lately = {each.node for each in state.restarts if each.at > state.now - SETTLING} & {*state.members()}
    return frozenset(name for name in lately if not _works(state.pods.get(name), nodes.get(name)))


def _works(pod: Pod | None, node: SlurmNode | None) -> bool:
    ready = pod is not None and pod.ready and not pod.terminating
    return slurm_nodes.standing(node, pod_ready=ready) is slurm_nodes.Standing.USABLE


def _within_the_hour(state: NodeSetState) -> list[datetime.datetime]:
    return sorted(each.at for each in state.restarts if each.at > state.now - _HOUR)


def _waits(state: NodeSetState, later: Sequence[str], out: Sequence[str]) -> Finding:
    """Which budget keeps unfit nodes from their repair, and until when."""
    policy, lately = state.reactions, _within_the_hour(state)
    kept = f"unfit and not repaired yet: {', '.join(later)}; node set {state.stateful_set} has"
    if len(lately) >= policy.per_hour:
        when = f"the next repair may be at {lately[-policy.per_hour] + _HOUR:%H:%M:%S} UTC"
        return Finding(Reason.BUDGET_SPENT, f"{kept} reactions.perHour {policy.per_hour}, and {when}")
    taken = f"{', '.join(out)} taken; a repair that does not help counts for {SETTLING.seconds // 60} minutes"
    return Finding(Reason.REPAIR_WAITS, f"{kept} reactions.atOnce {policy.at_once}, and {taken}")


def _open_breaker(state: NodeSetState, failed: int, node: SlurmNode) -> Finding:
    share = f"{failed} of {len(state.members())} nodes are unfit at once"
    shared = "nothing is restarted: look for what they share"
    return Finding(Reason.BREAKER_OPEN, f"node set {state.stateful_set}: {share}; {shared} ({drains.fault(node)})")


def _given_up(state: NodeSetState, node: SlurmNode) -> Finding:
    own = _tried(state, node)
    tried = f"{own.count(False)} restarts" + (" and on another machine" if any(own) else "")
    told = f"{node.name} is unfit after {tried}: {drains.fault(node)}; repair or replace its machine"
    return Finding(Reason.GAVE_UP, told, node=node.name)


def _awaits(state: NodeSetState, node: SlurmNode, step: RemediationStep) -> Finding:
    annotate = f"kubectl annotate --overwrite nodeset {state.stateful_set} {names.ANNOTATION_APPROVE}={approval(node)}"
    told = f"{node.name} would {step.value} ({drains.fault(node)}); to let it: {annotate}"
    return Finding(Reason.AWAITS_APPROVAL, told, node=node.name)


def _would(node: SlurmNode, step: RemediationStep) -> Finding:
    reason = Reason.WOULD_REPLACE if step is RemediationStep.REPLACE else Reason.WOULD_RESTART
    return Finding(reason, f"{node.name} would {step.value}: {drains.fault(node)}", node=node.name)
