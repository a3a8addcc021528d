"""What a Kubernetes node means for the Slurm node on it: a cordon becomes a drain and back, an eviction waits for jobs.

A PodDisruptionBudget refuses to evict a worker, unless the pod carries a label that is set here: when its machine is to
be emptied and its Slurm node is drained and strictly idle. So `kubectl drain` ends when the jobs have ended.
"""

from __future__ import annotations

import datetime

from contract import reasons
from slurm_operator import drains
from slurm_operator.actions import Action, Comment, Drain, SetEvictable
from slurm_operator.decide.node_sets import undrain
from slurm_operator.decide.nodes import slurm_nodes, waits
from slurm_operator.decide.nodes.k8s_case import Case, case_of, fence_command
from slurm_operator.decide.nodes.workers import NodeSetState, Worker
from slurm_operator.drains import Owner
from slurm_operator.findings import Finding, under_way
from slurm_operator.reasons import Reason
from slurm_operator.state import Pod

_KNOWN = (Case.WELL, Case.CORDONED, Case.TAINTED)
_LEAVING = (Case.CORDONED, Case.TAINTED, Case.AWAY, Case.GONE)


def needs_evidence(state: NodeSetState) -> bool:
    """Whether full listings could let a pod be evicted."""
    protected = [each for each in state.with_pods() if not each.is_evictable]
    return any(_is_leaving(each) and (each.node is None or slurm_nodes.may_leave(each.node)) for each in protected)


def moves(state: NodeSetState) -> list[Action]:
    """What to do on account of the machines of one node set's pods."""
    said: list[Comment | Drain] = [*_comments(state), *_drains(state)]
    found: list[Action] = [each for each in said if not _is_only_told(state, each.node)]
    for each in state.with_pods():
        stands = case_of(each)[0]
        if each.is_evictable:
            if stands is Case.WELL or (each.node and not slurm_nodes.may_leave(each.node)):
                found.append(SetEvictable(each.name, each.uid, evictable=False))
        elif stands in _LEAVING and each.may_leave:
            found.append(SetEvictable(each.name, each.uid, evictable=True))
    return found


def findings(state: NodeSetState) -> list[Finding]:
    """Machines that wait for jobs, which are named as far as they are known."""
    found = []
    for each in state.with_pods():
        if each.has_work and _is_leaving(each):
            ends = f"{each.name} may leave when its jobs have ended{waits.for_jobs([each.name], state.jobs)}"
            found.append(under_way(Reason.WAITING_FOR_JOBS, f"{case_of(each)[1]}: {ends}"))
    return found


def _comments(state: NodeSetState) -> list[Comment]:
    """Notes on nodes whose machines are away, before they are drained for it."""
    found, breaker = [], _breaker(state)
    for each in state.with_pods():
        stands, words = case_of(each)
        if each.node is None:
            continue
        if stands is Case.AWAY and not each.node.comment and not breaker:
            found.append(Comment(each.name, reasons.NODE + words))
        if stands in _KNOWN and each.node.comment.startswith(reasons.NODE):
            found.append(Comment(each.name, ""))
    return found


def _drains(state: NodeSetState) -> list[Drain]:
    """Drains of nodes that should get no new jobs."""
    open_breaker = _breaker(state)
    # A drain of ours without a cause would hide the one for the Kubernetes node, and with it a repair.
    back = {each.name for each in undrain.without_cause(state)}
    found = []
    for each in state.with_pods():
        stands, words = case_of(each)
        if each.node is None or stands in (Case.WELL, Case.UNKNOWN):
            continue
        replaceable = each.name in back or each.drain is Owner.NEW or _may_return_meanwhile(each)
        if (each.drain and not replaceable) or drains.is_anothers(each.node):
            continue
        if stands is Case.ENDING and not each.has_work:
            continue  # It is gone in a moment.
        if stands is Case.AWAY and (open_breaker or not _is_due(state, each)):
            continue
        found.append(Drain(each.name, reasons.NODE + words))
    return found


def _may_return_meanwhile(worker: Worker) -> bool:
    """Whether an unfit node might lift its own drain while its machine is emptied; a repair goes by that drain."""
    emptied = case_of(worker)[0] in (Case.CORDONED, Case.TAINTED)
    return emptied and worker.drain is Owner.UNFIT and not worker.repair


def held(state: NodeSetState) -> list[Finding]:
    """What is not done on account of machines, and what is asked of somebody."""
    if breaker := _breaker(state):
        return [Finding(Reason.BREAKER_OPEN, breaker)]
    ending = [each.pod for each in state.with_pods() if each.pod and each.pod.terminating and _is_due(state, each)]
    would = [each for each in _drains(state) if _is_only_told(state, each.node)]
    told = [Finding(Reason.WOULD_DRAIN, f"would drain {each.node}: {each.reason}") for each in would]
    return [*map(_awaits_fencing, ending), *told]


def _awaits_fencing(pod: Pod) -> Finding:
    """A pod was told to end on a node whose kubelet is away: nobody knows whether it has ended."""
    ways = f"delete the Kubernetes node, or taint it: {fence_command(pod.k8s_node)}"
    told = f"{pod.name} may still run on {pod.k8s_node}, which is not ready; power that off, then {ways}"
    return Finding(Reason.AWAITS_FENCING, told, node=pod.name)


def _breaker(state: NodeSetState) -> str:
    """Why no node is drained for a machine that is not ready: what goes away together has one cause."""
    away = [each for each in state.with_pods() if _away_since(each)]
    if not state.have_one_cause(len(away), len(state.pods)):
        return ""
    share = f"the machines of {len(away)} of {len(state.pods)} pods are not ready at once"
    return f"node set {state.stateful_set}: {share}; nothing is done: look for what they share"


def _is_due(state: NodeSetState, worker: Worker) -> bool:
    """Whether a machine had its time to come back."""
    since = _away_since(worker)
    return since is not None and (state.now - since).total_seconds() >= state.node_set.reactions.after_seconds


def _away_since(worker: Worker) -> datetime.datetime | None:
    """Since when a pod's machine is not ready, whatever else is to be said of it."""
    return worker.k8s_node.away_since if worker.k8s_node else None


def _is_only_told(state: NodeSetState, name: str) -> bool:
    """Whether a dry run keeps the operator from what it would do about a machine that is not ready."""
    return state.node_set.reactions.dry_run and case_of(state.workers[name])[0] is Case.AWAY


def _is_leaving(worker: Worker) -> bool:
    return case_of(worker)[0] in _LEAVING
