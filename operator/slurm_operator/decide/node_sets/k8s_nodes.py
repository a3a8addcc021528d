"""Effects of a Kubernetes node on its Slurm node: a cordon becomes a drain and back, an eviction waits for jobs.

A PodDisruptionBudget refuses to evict a worker, unless the pod carries a label that is set here. It is set when the
Kubernetes node is to be emptied and the Slurm node is drained and strictly idle. So `kubectl drain` ends when the jobs
have ended.

A condition that counts as a check drains as a cordon does. One that nobody knows is a comment on the Slurm node.
"""

from __future__ import annotations

import datetime

from contract import reasons
from contract.conditions import Reason
from slurm_operator import drains
from slurm_operator.actions import Action, Comment, Drain, SetEvictable
from slurm_operator.decide.node_sets import undrain
from slurm_operator.decide.nodes import slurm_nodes, waits
from slurm_operator.decide.nodes.k8s_case import Case, case_of, fence_command
from slurm_operator.decide.nodes.workers import NodeSetState, Worker
from slurm_operator.drains import Owner
from slurm_operator.findings import Finding, under_way
from slurm_operator.state.kubernetes import Pod

_KNOWN = (Case.WELL, Case.CORDONED, Case.TAINTED, Case.FAILED)
_SERVES_NOBODY = (Owner.NEW, Owner.UNTESTED)
_LEAVING = (Case.CORDONED, Case.TAINTED, Case.AWAY, Case.GONE, Case.FAILED)


def needs_full_listing(state: NodeSetState) -> bool:
    """Return whether full listings could let a pod be evicted."""
    protected = [worker for worker in state.with_pods() if not worker.is_evictable]
    return any(
        _is_leaving(worker) and (worker.node is None or slurm_nodes.may_leave(worker.node)) for worker in protected
    )


def actions(state: NodeSetState) -> list[Action]:
    """Return the actions for the Kubernetes nodes of one node set's pods."""
    said: list[Comment | Drain] = [*_comments(state), *_drains(state)]
    decided: list[Action] = [action for action in said if not _is_only_told(state, action.node)]
    for worker in state.with_pods():
        stands = case_of(worker)[0]
        if worker.is_evictable:
            if stands is Case.WELL or (worker.node and not slurm_nodes.may_leave(worker.node)):
                decided.append(SetEvictable(worker.name, worker.uid, evictable=False))
        elif stands in _LEAVING and worker.may_leave:
            decided.append(SetEvictable(worker.name, worker.uid, evictable=True))
    return decided


def findings(state: NodeSetState) -> list[Finding]:
    """Return findings about Kubernetes nodes that wait for jobs, with the jobs that are known."""
    told = []
    for worker in state.with_pods():
        if worker.has_work and _is_leaving(worker):
            ends = f"{worker.name} may leave when its jobs have ended{waits.for_jobs([worker.name], state.jobs)}"
            told.append(under_way(Reason.WAITING_FOR_JOBS, f"{case_of(worker)[1]}: {ends}"))
    return told


def _comments(state: NodeSetState) -> list[Comment]:
    """Return comments on nodes whose Kubernetes nodes are not ready, or have conditions that nobody knows."""
    comments, breaker = [], _breaker(state)
    for worker in state.with_pods():
        stands, words = case_of(worker)
        if worker.node is None or worker.pod is None:
            continue
        if stands is Case.WELL:
            words = worker.conditions.words(worker.pod.k8s_node)
        is_told = stands is Case.WELL or (stands is Case.AWAY and not breaker)
        note, comment = f"{reasons.NODE}{words}" if is_told and words else "", worker.node.comment
        is_over = comment.startswith(reasons.NODE) and comment != note and stands in _KNOWN
        if (note and not comment) or is_over:
            comments.append(Comment(worker.name, note))
    return comments


def _drains(state: NodeSetState) -> list[Drain]:
    """Drains of nodes that should get no new jobs."""
    open_breaker = _breaker(state)
    # A drain of ours without a cause must not hide the one for the Kubernetes node: a repair needs that.
    back = {worker.name for worker in undrain.without_cause(state)}
    decided = []
    for worker in state.with_pods():
        stands, words = case_of(worker)
        if worker.node is None or stands in (Case.WELL, Case.UNKNOWN):
            continue
        replaceable = worker.name in back or worker.drain in _SERVES_NOBODY or _may_return_meanwhile(worker)
        if (worker.drain and not replaceable) or drains.is_anothers(worker.node):
            continue
        if stands is Case.ENDING and not worker.has_work:
            continue  # Its pod ends in a moment.
        if stands is Case.AWAY and (open_breaker or not _is_due(state, worker)):
            continue
        decided.append(Drain(worker.name, reasons.NODE + words))
    return decided


def _may_return_meanwhile(worker: Worker) -> bool:
    """Return whether an unfit node might lift its own drain while its Kubernetes node is emptied or fails.

    While a repair is noted that drain stays, since the repair needs it.
    """
    emptied = case_of(worker)[0] in (Case.CORDONED, Case.TAINTED, Case.FAILED)
    return emptied and worker.drain is Owner.UNFIT and not worker.repair


def held(state: NodeSetState) -> list[Finding]:
    """Return findings about what the policy keeps the operator from, and about what an administrator has to do."""
    if breaker := _breaker(state):
        return [Finding(Reason.BREAKER_OPEN, breaker)]
    ending = [
        worker.pod for worker in state.with_pods() if worker.pod and worker.pod.terminating and _is_due(state, worker)
    ]
    would = [action for action in _drains(state) if _is_only_told(state, action.node)]
    told = [Finding(Reason.WOULD_DRAIN, f"would drain {action.node}: {action.reason}") for action in would]
    return [*map(_awaits_fencing, ending), *told]


def _awaits_fencing(pod: Pod) -> Finding:
    """Return a finding about a terminating pod whose kubelet is away: nobody knows if it has ended."""
    ways = f"delete the Kubernetes node, or taint it: {fence_command(pod.k8s_node)}"
    told = f"{pod.name} may still run on {pod.k8s_node}, which is not ready; power that off, then {ways}"
    return Finding(Reason.AWAITS_FENCING, told, node=pod.name)


def _breaker(state: NodeSetState) -> str:
    """Return why the operator drains no node for a Kubernetes node that is not ready; empty if it may."""
    away = [worker for worker in state.with_pods() if _away_since(worker)]
    if not state.have_one_cause(len(away), len(state.pods)):
        return ""
    share = f"the Kubernetes nodes of {len(away)} of {len(state.pods)} pods are not ready at once"
    return f"node set {state.stateful_set}: {share}; nothing is done: look for what they share"


def _is_due(state: NodeSetState, worker: Worker) -> bool:
    """Return whether a Kubernetes node has been not ready for as long as the policy waits."""
    since = _away_since(worker)
    return since is not None and (state.now - since).total_seconds() >= state.node_set.reactions.after_seconds


def _away_since(worker: Worker) -> datetime.datetime | None:
    """Return the time since which a pod's Kubernetes node is not ready; None if it is ready or unknown."""
    return worker.k8s_node.away_since if worker.k8s_node else None


def _is_only_told(state: NodeSetState, name: str) -> bool:
    """Return whether the policy is a dry run and the node's Kubernetes node is not ready."""
    return state.node_set.reactions.dry_run and case_of(state.workers[name])[0] is Case.AWAY


def _is_leaving(worker: Worker) -> bool:
    return case_of(worker)[0] in _LEAVING
