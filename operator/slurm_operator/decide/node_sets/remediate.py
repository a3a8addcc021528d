"""Remediation of unfit nodes: wait, restart the idle pod, move it to another Kubernetes node, give up loudly.

A node drains itself, checks itself again and again, and lifts its own drain (docs/health.md). It can't restart itself,
which would give it new mounts, devices and a new slurmd, and it can't move. A node whose Kubernetes node is not ready,
tainted, or fails by a condition (decide/node_sets/k8s_nodes.py) begins at the last step.

The operator notes each repair in the NodeSet's status first and does it in a later pass. So an operator that dies
between the two neither forgets nor repeats it. The node may lift its own drain at any moment, so the operator first
takes that drain over (contract's REPAIR). It deletes the pod in a later pass, after listings made since that drain was
seen. A note is done when the pod is younger than it. It is void when the drain is another by then, or when the policy
has no such repairs any more. The operator undrains the new pod's node when the pod is ready. Otherwise the node's drain
says what it lacks.
"""

from __future__ import annotations

import dataclasses
import datetime
import enum
from collections.abc import Iterable, Sequence

from contract import commands, names
from contract.conditions import Reason
from slurm_operator import drains
from slurm_operator.actions import DeletePod, Drain, Purpose
from slurm_operator.decide.nodes import slurm_nodes, waits
from slurm_operator.decide.nodes.k8s_case import Case, case_of
from slurm_operator.decide.nodes.workers import NodeSetState, Worker
from slurm_operator.drains import Owner
from slurm_operator.findings import Finding, under_way
from slurm_operator.state.resources import Restart
from slurm_operator.state.slurm import SlurmNode

_HOUR = datetime.timedelta(hours=1)
REMEMBERED = datetime.timedelta(days=1)
"""A restart counts as an attempt for its node during this time."""
MOST_REMEMBERED = 500
"""Repairs that a day can have: the policy allows at most 20 an hour."""
_READINESS_PATIENCE = datetime.timedelta(minutes=1)
"""A pod that has just found itself unfit is Ready to Kubernetes for a moment more."""
SETTLING = datetime.timedelta(minutes=10)
"""A restarted node that is still unfit counts as being repaired during this time."""


class RemediationStep(enum.Enum):
    """A step of remediation; the value completes "it would …"."""

    RESTART = "start anew"
    REPLACE = "leave its Kubernetes node, which would be cordoned and tainted"
    GIVE_UP = "be left to you"


@dataclasses.dataclass(frozen=True, slots=True)
class Plan:
    """The actions of now, the repairs to note for the next pass, and the findings."""

    actions: tuple[DeletePod | Drain, ...] = ()
    restarts: tuple[Restart, ...] = ()
    findings: tuple[Finding, ...] = ()


def approval(worker: Worker) -> str:
    """Return the word by which an administrator approves a node's repair; another failure needs another word."""
    since = worker.node.reason_set if worker.node else None
    return f"{worker.name}.{int(since.timestamp()) if since else 0}"


def needs_full_listing(state: NodeSetState) -> bool:
    """Return whether a repair that was decided waits only for a full listing to show its node without jobs."""
    there = [worker.node for worker in state.workers.values() if worker.repair and worker.node]
    return any(drains.is_held_for_repair(node) and slurm_nodes.may_restart(node) for node in there)


def plan(state: NodeSetState) -> Plan:
    """Return the plan for the unfit nodes of a set."""
    # A clock that ran ahead has noted times that are still to come, and would hold budgets until then.
    state = state.with_restarts(
        dataclasses.replace(repair, at=min(repair.at, state.now)) for repair in state.node_set.restarts
    )
    kept = [
        repair
        for repair in state.node_set.restarts
        if repair.at > state.now - REMEMBERED and not _is_moot(state, repair)
    ]
    state = state.with_restarts(kept[-MOST_REMEMBERED:])
    policy = state.node_set.reactions
    if not (policy.restart or policy.replace) or state.hold:
        return Plan(restarts=state.node_set.restarts)
    unfit = _unfit(state)
    if unfit and _breaker_is_open(state):
        return Plan(restarts=state.node_set.restarts, findings=(_open_breaker(state, unfit[0]),))
    due = [worker for worker in unfit if _is_due(state, worker) and not worker.repair]
    steps = {worker.name: _next_step(state, worker) for worker in due}
    findings = [_given_up(state, worker) for worker in due if steps[worker.name] is RemediationStep.GIVE_UP]
    ready = [worker for worker in due if steps[worker.name] is not RemediationStep.GIVE_UP]
    if policy.approval:
        waiting = [worker for worker in ready if approval(worker) not in state.node_set.approved]
        ready = [worker for worker in ready if worker not in waiting]
        findings += [_awaits(state, worker, steps[worker.name], ready) for worker in waiting]
    room = _room(state)
    chosen, later = ready[:room], ready[room:]
    if policy.dry_run:
        findings += [_would(worker, steps[worker.name]) for worker in chosen]
        chosen, later = [], []
    noted = (
        Restart(worker.name, state.now, steps[worker.name] is RemediationStep.REPLACE, worker.uid) for worker in chosen
    )
    after = state.with_restarts((*state.node_set.restarts, *noted))
    findings += [_waits(after, later)] if later else []
    return Plan((*_drains(state), *_deletions(state)), after.node_set.restarts, tuple(findings))


def waiting_for_jobs(state: NodeSetState) -> list[Worker]:
    """Return the nodes whose repair waits for their jobs."""
    policy = state.node_set.reactions
    if not (policy.restart or policy.replace) or policy.dry_run or state.hold or _breaker_is_open(state):
        return []
    unfit = [worker for worker in state.members() if worker.drain in (Owner.UNFIT, Owner.REPAIR)]
    there = [worker for worker in unfit if worker.has_work and worker.pod and not worker.pod.terminating]
    return [worker for worker in there if worker.repair or _next_step(state, worker) is not RemediationStep.GIVE_UP]


def findings(state: NodeSetState) -> list[Finding]:
    """Return findings about repairs that wait for jobs, with the jobs that are known."""
    told = []
    for worker in waiting_for_jobs(state):
        ends = f"it is repaired when its jobs have ended{waits.for_jobs([worker.name], state.jobs)}"
        told.append(under_way(Reason.REPAIR_WAITS, f"{worker.name} is unfit ({worker.fault}); {ends}"))
    return told


def is_over(state: NodeSetState, worker: Worker) -> bool:
    """Return whether the drain for a node's repair, or for its Kubernetes node, has no more cause."""
    if worker.node is None or worker.pod is None:
        return False
    if worker.drain is Owner.K8S_NODE:
        # While nobody knows whether the condition still holds, the drain stays.
        kept = worker.conditions.keep(worker.node.reason, worker.pod.k8s_node)
        return case_of(worker)[0] is Case.WELL and not kept
    if worker.repair or worker.drain is not Owner.REPAIR:
        return False
    # The pod is new, or no repair is noted any more.
    made_anew = any(repair.node == worker.name for repair in state.node_set.restarts)
    return made_anew or (worker.node.reason_set or state.now) <= state.now - _READINESS_PATIENCE


def _is_moot(state: NodeSetState, noted: Restart) -> bool:
    """Return whether a noted repair has not begun, and its policy or its drain is gone.

    A listing without the node shows neither, so the note stays.
    """
    worker, policy = state.workers.get(noted.node), state.node_set.reactions
    if worker is None or worker.node is None or worker.repair != noted or _ends(worker):
        return False
    # The operator's own drain for this note is newer than the note. Any other newer drain is another fault.
    since = worker.node.reason_set
    newer = since is not None and since > noted.at and worker.drain is not Owner.REPAIR
    wanted = not policy.dry_run and (policy.replace if noted.replace else policy.restart)
    return newer or not wanted or worker.drain not in (Owner.UNFIT, Owner.REPAIR, Owner.K8S_NODE)


def _is_unfit(state: NodeSetState, worker: Worker, node: SlurmNode | None) -> bool:
    """Return whether a node is to be repaired: it drained itself, or it may leave its Kubernetes node."""
    whose = drains.owner(node) if node else None
    if whose is not Owner.K8S_NODE:
        return whose in (Owner.UNFIT, Owner.REPAIR)
    if not state.node_set.reactions.replace or worker.pod is None:
        return False
    stands = case_of(worker)[0]
    # A repair in progress has cordoned the Kubernetes node, and has not deleted the pod yet.
    begun = worker.repair is not None and stands is Case.CORDONED
    return begun or stands in (Case.AWAY, Case.TAINTED, Case.FAILED)


def _unfit(state: NodeSetState) -> list[Worker]:
    return [worker for worker in state.members() if _is_unfit(state, worker, worker.node)]


def _failed(state: NodeSetState) -> set[str]:
    """Return nodes that are unfit, or that a repair has taken."""
    return {worker.name for worker in (*_unfit(state), *_taken(state))}


def _breaker_is_open(state: NodeSetState) -> bool:
    return state.have_one_cause(len(_failed(state)), len(state.members()))


def _ends(worker: Worker) -> bool:
    return worker.pod is not None and worker.pod.terminating


def _next_step(state: NodeSetState, worker: Worker) -> RemediationStep:
    """Return the next step for a node, after its repairs of the last day."""
    policy, own = state.node_set.reactions, _tried(state, worker)
    if policy.restart and worker.drain is not Owner.K8S_NODE and not any(own) and len(own) < policy.attempts:
        return RemediationStep.RESTART
    return RemediationStep.REPLACE if _may_be_replaced(state, worker) and not any(own) else RemediationStep.GIVE_UP


def _tried(state: NodeSetState, worker: Worker) -> list[bool]:
    """The repairs of a node within the last day: false for a restart, true for a replacement."""
    return [repair.replace for repair in state.node_set.restarts if repair.node == worker.name]


def _may_be_replaced(state: NodeSetState, worker: Worker) -> bool:
    """Return whether another Kubernetes node would help, and the pod's own is known."""
    at_fault = worker.drain is Owner.K8S_NODE or (worker.node is not None and drains.is_at_fault(worker.node))
    return state.node_set.reactions.replace and at_fault and worker.k8s_node is not None


def _drains(state: NodeSetState) -> list[Drain]:
    """Drains that take nodes' own over, so that these do not return to work while they are repaired."""
    own = [worker.node for worker in _to_repair(state) if worker.node and worker.drain is Owner.UNFIT]
    return [Drain(node.name, drains.repair_reason(node)) for node in own if slurm_nodes.may_restart(node)]


def _to_repair(state: NodeSetState) -> list[Worker]:
    """Nodes whose repair was noted and is still wanted."""
    there = [
        worker
        for worker in state.members()
        if worker.repair and not _ends(worker) and _is_unfit(state, worker, worker.node)
    ]
    return [
        worker for worker in there if worker.repair and (not worker.repair.replace or _may_be_replaced(state, worker))
    ]


def _deletions(state: NodeSetState) -> list[DeletePod]:
    there = [worker for worker in _to_repair(state) if worker.is_free and _is_unfit(state, worker, worker.full)]
    return [_deletion(worker) for worker in there if all(map(drains.is_held_for_repair, worker.records))]


def _deletion(worker: Worker) -> DeletePod:
    elsewhere = worker.repair is not None and worker.repair.replace
    # Whoever tainted the Kubernetes node removes that taint; a cordon of ours would stay.
    cordon = elsewhere and case_of(worker)[0] is not Case.TAINTED
    purpose = Purpose.ELSEWHERE if elsewhere else Purpose.ANEW
    k8s_node = worker.pod.k8s_node if worker.pod and cordon else ""
    return DeletePod(worker.name, worker.uid, purpose, worker.fault, k8s_node)


def _is_due(state: NodeSetState, worker: Worker) -> bool:
    """Return whether a node had its time to recover by itself, has a pod, and has no work."""
    pod, node = worker.pod, worker.node
    # A pod that does not run yet has not checked its hardware.
    if pod is None or pod.terminating or not pod.running or pod.created is None:
        return False
    if node is None or not slurm_nodes.may_restart(node):
        return False
    # A new pod under an old drain gets the whole time as well.
    since = max(node.reason_set or pod.created, pod.created)
    return (state.now - since).total_seconds() >= state.node_set.reactions.after_seconds


def _room(state: NodeSetState) -> int:
    """Return how many more repairs the budgets allow now."""
    at_once = state.node_set.reactions.at_once - len(_taken(state))
    return max(0, min(at_once, state.node_set.reactions.per_hour - len(_within_the_hour(state))))


def _taken(state: NodeSetState) -> list[Worker]:
    """Nodes that a repair has taken and that do not work yet; a node that it did not help counts for a while."""
    lately = {repair.node for repair in state.node_set.restarts if repair.at > state.now - SETTLING}
    there = [worker for worker in state.members() if worker.name in lately]
    return [worker for worker in there if worker.standing is not slurm_nodes.Standing.USABLE]


def _within_the_hour(state: NodeSetState) -> list[datetime.datetime]:
    return sorted(repair.at for repair in state.node_set.restarts if repair.at > state.now - _HOUR)


def _waits(state: NodeSetState, later: Sequence[Worker]) -> Finding:
    """Return a finding about the budget that keeps unfit nodes from their repair, and until when."""
    policy, lately = state.node_set.reactions, _within_the_hour(state)
    kept = f"unfit and not repaired yet: {_listed(later)}; node set {state.stateful_set} has"
    if len(lately) >= policy.per_hour:
        when = f"the next repair may be at {lately[-policy.per_hour] + _HOUR:%H:%M:%S} UTC"
        return Finding(Reason.BUDGET_SPENT, f"{kept} reactions.perHour {policy.per_hour}, and {when}")
    taken = f"{_listed(_taken(state))} taken; a repair that does not help counts for {SETTLING.seconds // 60} minutes"
    return Finding(Reason.REPAIR_WAITS, f"{kept} reactions.atOnce {policy.at_once}, and {taken}")


def _listed(workers: Sequence[Worker]) -> str:
    return ", ".join(worker.name for worker in workers)


def _open_breaker(state: NodeSetState, worker: Worker) -> Finding:
    share = f"{len(_failed(state))} of {len(state.members())} nodes are unfit at once"
    shared = "nothing is restarted: look for what they share"
    return Finding(Reason.BREAKER_OPEN, f"node set {state.stateful_set}: {share}; {shared} ({worker.fault})")


def _given_up(state: NodeSetState, worker: Worker) -> Finding:
    own = _tried(state, worker)
    tried = f"{own.count(False)} restarts" + (" and on another Kubernetes node" if any(own) else "")
    told = f"{worker.name} is unfit after {tried}: {worker.fault}; repair or replace its Kubernetes node"
    return Finding(Reason.GAVE_UP, told, node=worker.name)


def _awaits(state: NodeSetState, worker: Worker, step: RemediationStep, approved: Iterable[Worker]) -> Finding:
    """Return a finding with the command that approves a repair, and takes back no approval that still waits."""
    annotation = f"{names.ANNOTATION_APPROVE}={','.join(map(approval, (*approved, worker)))}"
    annotate = f"annotate --overwrite nodeset {state.stateful_set} {annotation}"
    way = commands.kubectl(state.node_set.namespace, annotate)
    told = f"{worker.name} would {step.value} ({worker.fault}); to let it: {way}"
    return Finding(Reason.AWAITS_APPROVAL, told, node=worker.name)


def _would(worker: Worker, step: RemediationStep) -> Finding:
    reason = Reason.WOULD_REPLACE if step is RemediationStep.REPLACE else Reason.WOULD_RESTART
    return Finding(reason, f"{worker.name} would {step.value}: {worker.fault}", node=worker.name)
