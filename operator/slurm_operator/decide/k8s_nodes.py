"""What a Kubernetes node means for the Slurm node on it: a cordon becomes a drain and back, an eviction waits for jobs.

A PodDisruptionBudget refuses to evict a worker, unless the pod carries a label that is set here: when its machine is to
be emptied and its Slurm node is drained and strictly idle. So `kubectl drain` ends when the jobs have ended.
"""

from __future__ import annotations

import datetime
import enum
from collections.abc import Iterable

from contract import reasons
from slurm_operator import drains
from slurm_operator.actions import Action, Comment, Drain, SetEvictable, Undrain
from slurm_operator.decide import nodes as slurm_nodes
from slurm_operator.decide import scale, update, waits
from slurm_operator.decide.scale import NodeSetState, safe_to_remove
from slurm_operator.findings import Finding, under_way
from slurm_operator.reasons import Reason
from slurm_operator.state import Evidence, Nodes, Pod, SlurmJob, Taint, Unknown

_LIFECYCLE = "node.kubernetes.io/"
"""Kubernetes' own taints begin so; but for one they repeat what the node's fields tell."""
FENCED = "node.kubernetes.io/out-of-service"


class Case(enum.Enum):
    """How a pod stands with its machine."""

    WELL = "well"
    UNKNOWN = "unknown"
    ENDING = "ending"
    CORDONED = "cordoned"
    TAINTED = "tainted"
    AWAY = "away"
    GONE = "gone"


_KNOWN = (Case.WELL, Case.CORDONED, Case.TAINTED)
_LEAVING = (Case.CORDONED, Case.TAINTED, Case.AWAY, Case.GONE)


def case(state: NodeSetState, name: str) -> tuple[Case, str]:
    """How a pod stands with its machine, and that in words."""
    pod = state.pods[name]
    k8s_node = state.k8s_node(name)
    if pod.terminating:
        return Case.ENDING, f"pod {name} is ending"
    if not pod.k8s_node:
        return Case.WELL, ""
    if k8s_node is None:
        return (Case.GONE, f"{pod.k8s_node} is gone") if state.is_lost(name) else (Case.UNKNOWN, "")
    if k8s_node.cordoned:
        return Case.CORDONED, f"{pod.k8s_node} is cordoned"
    if hostile := [taint.key for taint in k8s_node.taints if _empties(taint) and not _is_tolerated(taint, pod)]:
        return Case.TAINTED, f"{pod.k8s_node} is tainted {hostile[0]}"
    return (Case.AWAY, f"{pod.k8s_node} is not ready") if k8s_node.away_since else (Case.WELL, "")


def needs_evidence(state: NodeSetState, nodes: Nodes) -> bool:
    """Whether full listings could let a pod be evicted."""
    return any(
        not pod.evictable and _is_leaving(state, name) and (name not in nodes or slurm_nodes.may_leave(nodes[name]))
        for name, pod in state.pods.items()
    )


def moves(state: NodeSetState, nodes: Nodes, evidence: Evidence | None) -> list[Action]:
    """What to do on account of the machines of one node set's pods.

    Args:
        state: the pods of the set, and their machines.
        nodes: the listing with which this pass began.
        evidence: full listings of nodes and jobs made after `nodes`; None if none were made.
    """
    said: list[Comment | Drain] = [*_comments(state, nodes)]
    said += [Drain(name, reason) for name, reason in _drains(state, nodes)]
    dry = state.reactions.dry_run
    found: list[Action] = [each for each in said if not (dry and case(state, each.node)[0] is Case.AWAY)]
    staying, going = state.members(), safe_to_remove(state, nodes, evidence)
    for name, pod in state.pods.items():
        node, stands = nodes.get(name), case(state, name)[0]
        # One that leaves may be idle, and on its way already: it must not serve again.
        is_back = node and stands is Case.WELL and name in staying and drains.is_for_k8s_node(node)
        if node and is_back and scale.is_record_of(node, pod):
            found.append(scale.give_back(name, pod))
        if pod.evictable:
            if stands is Case.WELL or (node and not slurm_nodes.may_leave(node)):
                found.append(SetEvictable(name, pod.uid, evictable=False))
        elif stands in _LEAVING and name in going:
            found.append(SetEvictable(name, pod.uid, evictable=True))
    return found


def without_early_undrains(state: NodeSetState, moves: Iterable[Action]) -> list[Action]:
    """Leave the drains of nodes that may be evicted, or whose machine is to be emptied: jobs would come in between."""
    return [
        move
        for move in moves
        if not (isinstance(move, Undrain) or (isinstance(move, Drain) and move.reason == reasons.NEW))
        or _may_serve(state, move.node)
    ]


def findings(state: NodeSetState, nodes: Nodes, jobs: Iterable[SlurmJob] | Unknown = ()) -> list[Finding]:
    """Machines that wait for jobs, which are named as far as they are known."""
    working = [name for name in state.pods if name in nodes and slurm_nodes.has_work(nodes[name])]
    leaving = [
        f"{case(state, name)[1]}: {name} may leave when its jobs have ended{waits.for_jobs([name], jobs)}"
        for name in working
        if _is_leaving(state, name)
    ]
    return [under_way(Reason.WAITING_FOR_JOBS, each) for each in leaving]


def _comments(state: NodeSetState, nodes: Nodes) -> list[Comment]:
    """Notes on nodes whose machines are away, before they are drained for it."""
    found, breaker = [], _breaker(state)
    for name in state.pods:
        stands, words = case(state, name)
        if name not in nodes:
            continue
        if stands is Case.AWAY and not nodes[name].comment and not breaker:
            found.append(Comment(name, reasons.NODE + words))
        if stands in _KNOWN and nodes[name].comment.startswith(reasons.NODE):
            found.append(Comment(name, ""))
    return found


def _drains(state: NodeSetState, nodes: Nodes) -> list[tuple[str, str]]:
    """Nodes that should get no new jobs, and why."""
    open_breaker = _breaker(state)
    # A drain of ours without a cause would hide the one for the Kubernetes node, and with it a repair.
    back = {*scale.to_give_back(state, nodes), *update.to_give_back(state, nodes)}
    found = []
    for name in state.pods:
        stands, words = case(state, name)
        if name not in nodes or stands in (Case.WELL, Case.UNKNOWN):
            continue
        replaceable = name in back or drains.is_new(nodes[name]) or _may_return_meanwhile(state, name, nodes)
        if drains.is_drained(nodes[name]) and not replaceable:
            continue
        if drains.is_anothers(nodes[name]):
            continue
        if stands is Case.ENDING and not slurm_nodes.has_work(nodes[name]):
            continue  # It is gone in a moment.
        if stands is Case.AWAY and (open_breaker or not _is_due(state, name)):
            continue
        found.append((name, reasons.NODE + words))
    return found


def _may_return_meanwhile(state: NodeSetState, name: str, nodes: Nodes) -> bool:
    """Whether an unfit node might lift its own drain while its machine is emptied; a repair goes by that drain."""
    emptied = case(state, name)[0] in (Case.CORDONED, Case.TAINTED)
    return emptied and drains.is_unfit(nodes[name]) and name not in state.under_repair()


def held(state: NodeSetState, nodes: Nodes) -> list[Finding]:
    """What is not done on account of machines, and what is asked of somebody."""
    if breaker := _breaker(state):
        return [Finding(Reason.BREAKER_OPEN, breaker)]
    ending = [
        _awaits_fencing(state, name) for name, pod in state.pods.items() if pod.terminating and _is_due(state, name)
    ]
    away = [(name, reason) for name, reason in _drains(state, nodes) if case(state, name)[0] is Case.AWAY]
    would = [Finding(Reason.WOULD_DRAIN, f"would drain {name}: {reason}") for name, reason in away]
    return ending + would * state.reactions.dry_run


def fence_command(k8s_node: str) -> str:
    """What tells Kubernetes that a machine is off, so that its pods and volumes may go elsewhere.

    Source: Kubernetes' documentation, "Non-graceful node shutdown handling".
    """
    return f"kubectl taint node {k8s_node} {FENCED}=nodeshutdown:NoExecute"


def _awaits_fencing(state: NodeSetState, name: str) -> Finding:
    """A pod was told to end on a node whose kubelet is away: nobody knows whether it has ended."""
    k8s_node = state.pods[name].k8s_node
    ways = f"delete the Kubernetes node, or taint it: {fence_command(k8s_node)}"
    told = f"{name} may still run on {k8s_node}, which is not ready; power that off, then {ways}"
    return Finding(Reason.AWAITS_FENCING, told, node=name)


def _breaker(state: NodeSetState) -> str:
    """Why no node is drained for a machine that is not ready: what goes away together has one cause."""
    away = [name for name in state.pods if _away_since(state, name)]
    if not state.have_one_cause(len(away), len(state.pods)):
        return ""
    share = f"the machines of {len(away)} of {len(state.pods)} pods are not ready at once"
    return f"node set {state.stateful_set}: {share}; nothing is done: look for what they share"


def _is_due(state: NodeSetState, name: str) -> bool:
    """Whether a machine had its time to come back."""
    since = _away_since(state, name)
    return since is not None and (state.now - since).total_seconds() >= state.reactions.after_seconds


def _away_since(state: NodeSetState, name: str) -> datetime.datetime | None:
    """Since when a pod's machine is not ready, whatever else is to be said of it."""
    k8s_node = state.k8s_node(name)
    return k8s_node.away_since if k8s_node else None


def _is_leaving(state: NodeSetState, name: str) -> bool:
    return case(state, name)[0] in _LEAVING


def _may_serve(state: NodeSetState, name: str) -> bool:
    return not state.pods[name].evictable and case(state, name)[0] in (Case.WELL, Case.UNKNOWN)


def _empties(taint: Taint) -> bool:
    """Whether a taint says that a machine is to be emptied, and not how Kubernetes sees it."""
    return taint.effect != "PreferNoSchedule" and (taint.key == FENCED or not taint.key.startswith(_LIFECYCLE))


def _is_tolerated(taint: Taint, pod: Pod) -> bool:
    """As Kubernetes decides (concepts/scheduling-eviction/taint-and-toleration)."""
    return any(
        each.key in ("", taint.key)
        and each.effect in ("", taint.effect)
        and (each.any_value or each.value == taint.value)
        for each in pod.tolerations
    )
