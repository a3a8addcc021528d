"""What the operator says about a cluster and its node sets.

Available means that jobs can run now, as declared: slurmctld lists its nodes through slurmrestd, the login nodes are
ready in their current generation, and every wanted node is registered and usable (IDLE, MIXED or ALLOCATED, answering,
its pod Ready). One exception: a node drained by somebody else (an administrator, a failed prolog) is that person's
decision and blocks nothing, as long as at least one node is usable; Degraded names it with its reason. A node that is
DOWN does block: drain it to say that it is known. Node sets of zero nodes are Available. While Slurm cannot be seen
although its pods are ready, Available is Unknown. Progressing means that something still moves, Degraded says what is
wrong; a worker that waits for a job before it leaves is Progressing and blocks nothing.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence

from contract import reasons
from slurm_operator.decisions import daemons, replicas, updates
from slurm_operator.decisions import nodes as slurm_nodes
from slurm_operator.decisions.findings import MAX_MESSAGE, Condition, Finding, Findings, shown
from slurm_operator.seen import Kubernetes, Nodes, NodeSet, Pod, SlurmNode, Unknown

_SHOWN = 5
_NONE_AT_ALL = {"ready": 0, "idle": 0, "allocated": 0, "drained": 0, "down": 0, "updated": 0}


@dataclasses.dataclass(frozen=True, slots=True)
class Counts:
    """Nodes of one or more node sets; all but `wanted` are None when Slurm cannot be seen."""

    wanted: int
    ready: int | None = None
    idle: int | None = None
    allocated: int | None = None
    drained: int | None = None
    down: int | None = None
    updated: int | None = None


def node_set(
    wanted: NodeSet, scale: replicas.Scale | None, nodes: Nodes | Unknown, hold: str = ""
) -> tuple[Counts, Findings]:
    """Judge one node set; `hold` says why its nodes may not move to a changed template now."""
    found = Findings()
    if scale is None:
        there = f"there is no StatefulSet {wanted.stateful_set}; declare it or correct spec.statefulSet"
        found.tell("StatefulSetMissing", f"node set {wanted.name}: {there}", found.blocking, found.wrong)
        missing = Counts(wanted.replicas or 0)
        return (missing if isinstance(nodes, Unknown) else dataclasses.replace(missing, **_NONE_AT_ALL)), found
    if scale.current != scale.wanted and not wanted.deleting:
        verb = "growing" if scale.wanted > scale.current else "shrinking"
        sizes = f"from {scale.current} to {scale.wanted} nodes"
        found.moving.append(Finding("Scaling", f"node set {wanted.name}: {verb} {sizes}"))
    if isinstance(nodes, Unknown):
        return Counts(scale.wanted), found
    members = [scale.node(ordinal) for ordinal in range(scale.wanted)]
    standings = {name: _standing(name, nodes, scale.pods) for name in members}
    for name in [] if wanted.deleting else scale.leaving():
        if name in nodes and slurm_nodes.has_work(nodes[name]):
            until = replicas.until(scale, nodes)
            found.moving.append(Finding("WaitingForJobs", f"{name} leaves when its jobs have ended{until}"))
    kept = slurm_nodes.kept(nodes[name] for name in [*members, *scale.leaving(), *scale.ghosts(nodes)] if name in nodes)
    if kept:
        waits = f"drained and without jobs, but kept by Slurm: {shown(kept, _SHOWN)}; see scontrol show reservation"
        found.moving.append(Finding("NodesKept", waits))
    outdated = updates.outdated(scale)
    if outdated and not wanted.deleting:
        found.moving += [_updating(wanted, scale, nodes, outdated, hold), *updates.findings(scale, nodes)]
    waiting = [
        name
        for name in members
        if standings[name] is slurm_nodes.Standing.WAITING and not _leaves_for_update(scale, nodes, name)
    ]
    if waiting:
        message = f"node set {wanted.name}: {shown(waiting, _SHOWN)} not yet registered and usable"
        message += _why(scale.pods[name] for name in waiting if name in scale.pods)
        if not outdated or len(waiting) > scale.update.room(scale.wanted):
            found.blocking.append(Finding("NodesNotReady", message))
        found.moving.append(Finding("NodesStarting", message))
    down = [nodes[name] for name in members if standings[name] is slurm_nodes.Standing.DOWN]
    if down:
        found.tell("NodesDown", f"down in Slurm: {_with_reasons(down)}", found.blocking, found.wrong)
    drained = [nodes[name] for name in members if standings[name] is slurm_nodes.Standing.DRAINED]
    if drained:
        found.wrong.append(Finding("NodesDrained", f"drained: {_with_reasons(drained)}"))
    usable = [nodes[name] for name in members if standings[name] is slurm_nodes.Standing.USABLE]
    present = [nodes[name] for name in [*members, *scale.leaving()] if name in nodes]
    counts = Counts(
        wanted=scale.wanted,
        ready=len(usable),
        idle=sum(not slurm_nodes.has_work(node) for node in usable),
        allocated=sum(slurm_nodes.has_work(node) for node in present),
        drained=len(drained),
        down=len(down),
        updated=updates.updated(scale),
    )
    return counts, found


def _leaves_for_update(scale: replicas.Scale, nodes: Nodes, name: str) -> bool:
    """Whether a node is out of service for its update, and not under a new pod that does not come up."""
    pod, drained = scale.pods.get(name), name in nodes and updates.is_updating(nodes[name])
    return drained and (pod is None or pod.ready or updates.is_outdated(scale, name))


def _updating(wanted: NodeSet, scale: replicas.Scale, nodes: Nodes, outdated: Sequence[str], hold: str) -> Finding:
    message = f"node set {wanted.name}: {updates.updated(scale)} of {scale.wanted} nodes have the current template"
    working = [*updates.waiting_for_jobs(scale, nodes)]
    if scale.update.paused:
        return Finding(reasons.UPDATE_PAUSED, f"{message}; update.paused keeps {shown(outdated, _SHOWN)} as they are")
    if hold:
        return Finding("UpdateHeld", f"{message}; the others wait: {hold}")
    if working:
        return Finding(reasons.UPDATE_WAITS_FOR_JOBS, f"{message}; {shown(working, _SHOWN)} when its jobs have ended")
    if stuck := updates.not_up(scale, nodes):
        slots = f"{shown(stuck, _SHOWN)} must work again first (update.maxUnavailable)"
        return Finding("Updating", f"{message}; {slots}")
    return Finding("Updating", message)


def scaled_outside(wanted: NodeSet) -> Condition:
    """Whether somebody else than the program says how many nodes there are to be, and how long that holds."""
    kind, declared, asked = "ScaledOutsidePulumi", wanted.declared, wanted.replicas
    if declared is None:
        return Condition(kind, "False", "NotDeclared", "the program declares no number of nodes")
    if asked in (None, declared):
        return Condition(kind, "False", "AsDeclared", f"the program declares {declared} nodes")
    who = " and ".join(wanted.scaled_by) or "somebody"
    words = f"{who} asked for {asked} nodes, the program declares {declared}, to which"
    until = "the next `pulumi up` that changes anything of this node set returns"
    keep = f"nodeSets[].replicas: {asked} in the stack's configuration keeps {asked}"
    return Condition(kind, "True", "ReplicasDiffer", f"{words} {until}; {keep}")


def watched_machines(trouble: str) -> Condition:
    """Whether a cordon of a Kubernetes node can become a drain; `trouble` is why not, empty if it can."""
    if trouble:
        no_more = "cordons, taints and lost Kubernetes nodes do not become drains, and no worker may be evicted"
        return Condition("NodesWatched", "False", "NodesUnreadable", f"{no_more}: {trouble}"[:MAX_MESSAGE])
    return Condition("NodesWatched", "True", "Watching", "a cordon of a Kubernetes node becomes a drain")


def total(counts: Iterable[Counts]) -> Counts:
    """Sum the node sets; what is unknown of one is unknown of all."""
    rows = list(counts)

    def column(name: str) -> int | None:
        values = [getattr(row, name) for row in rows]
        return None if None in values else sum(values)

    names = [field.name for field in dataclasses.fields(Counts) if field.name != "wanted"]
    return Counts(sum(row.wanted for row in rows), **{name: column(name) for name in names})


def cluster(kubernetes: Kubernetes, nodes: Nodes | Unknown, sets: Findings, counts: Counts) -> Findings:
    """Judge the whole cluster, given what was found about its node sets."""
    found = Findings()
    revision = kubernetes.cluster.revision
    if kubernetes.ledger_revision != revision:
        has = kubernetes.ledger_revision or "nothing"
        message = f"revision {revision} is not fully declared: the ledger says {has}"
        found.tell("LedgerMismatch", message, found.blocking, found.moving)
    if kubernetes.wanted_config is None and kubernetes.active_config is None:
        name = kubernetes.cluster.wanted_config
        found.blocking.append(Finding("ConfigurationMissing", f"there is no ConfigMap {name}"))
    _judge_daemons(found, kubernetes, nodes)
    if daemons.is_controller_old(kubernetes):
        why = daemons.holds_controller(kubernetes)
        message = f"slurmctld moves to its current template{why and f': {why}'}"
        found.tell("ControllerUpdating", message, found.moving, found.blocking)
    found.add(sets)
    if not found.blocking and not found.unknown and counts.wanted and not counts.ready:
        found.blocking.append(Finding("NoUsableNodes", f"none of {counts.wanted} nodes takes jobs"))
    found.wrong += [Finding(reason, message) for reason, message in _troubles(kubernetes.pods.values())]
    return found


def _judge_daemons(found: Findings, kubernetes: Kubernetes, nodes: Nodes | Unknown) -> None:
    names = kubernetes.cluster
    login = kubernetes.workloads.get(names.login)
    rows = [("LoginNotReady", f"StatefulSet {names.login}", "login", login)]
    if isinstance(nodes, Unknown):
        controller = kubernetes.workloads.get(names.controller)
        rows.insert(0, ("ControllerNotReady", f"StatefulSet {names.controller}", "controller", controller))
        rows.insert(1, ("RestNotReady", f"Deployment {names.rest}", "rest", kubernetes.rest))
    for reason, title, component, workload in rows:
        if workload is None:
            found.blocking.append(Finding(reason, f"there is no {title}"))
        elif not workload.is_ready:
            ready = f"{workload.ready} of {workload.replicas} ready in the current generation"
            pods = (pod for pod in kubernetes.pods.values() if pod.component == component)
            found.tell(reason, f"{title}: {ready}{_why(pods)}", found.blocking, found.moving)
    if isinstance(nodes, Unknown):
        found.unknown.append(Finding(nodes.reason, nodes.message))
        if not any(problem.reason in ("ControllerNotReady", "RestNotReady") for problem in found.blocking):
            # Daemons that are still starting are no fault.
            found.wrong.append(Finding(nodes.reason, nodes.message))


def _troubles(pods: Iterable[Pod]) -> list[tuple[str, str]]:
    """What keeps pods from starting; of populate pods only the newest speaks, the others are past attempts."""
    alive = [pod for pod in pods if not pod.terminating]
    attempts = sorted((pod for pod in alive if pod.component == "jail"), key=lambda pod: str(pod.created))
    speaking = [pod for pod in alive if pod.component != "jail"] + attempts[-1:]
    return [
        ("PopulateFailed" if pod.component == "jail" else "PodNotStarting", f"{pod.name}: {pod.trouble}")
        for pod in speaking
        if pod.trouble
    ]


def _standing(name: str, nodes: Nodes, pods: Mapping[str, Pod]) -> slurm_nodes.Standing:
    pod = pods.get(name)
    return slurm_nodes.standing(nodes.get(name), pod_ready=pod is not None and pod.ready and not pod.terminating)


def _why(pods: Iterable[Pod]) -> str:
    """The first trouble among pods, as the end of a sentence."""
    return next((f" ({pod.name}: {pod.trouble})" for pod in pods if pod.trouble and not pod.terminating), "")


def _with_reasons(nodes: Sequence[SlurmNode]) -> str:
    return shown([f"{node.name} ({node.reason or 'no reason given'})" for node in nodes], _SHOWN)
