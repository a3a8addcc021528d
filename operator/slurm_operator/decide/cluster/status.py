"""Findings and conditions about a cluster and its node sets.

Available means that jobs can run now, as declared. slurmctld lists its nodes through slurmrestd. The login nodes are
ready in their current generation. Every wanted node is registered and usable: IDLE, MIXED or ALLOCATED, answering, its
pod Ready. One exception: a node that somebody else drained (an administrator, a failed prolog) blocks nothing while at
least one node is usable. Degraded names it with its reason, unless a person drained it: DrainedByPeople then tells
others. A node that is DOWN does block: drain it to say that it is known. Node sets of zero nodes are Available. While
Slurm cannot be seen although its pods are ready, Available is Unknown.

Progressing means that something is under way, Degraded says what is wrong. A worker that waits for a job before it
leaves is Progressing and blocks nothing.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Sequence

from contract.conditions import ConditionType, Reason
from slurm_operator import drains
from slurm_operator.decide.cluster import daemons
from slurm_operator.decide.node_sets import features, reboot, records, scale, undrain, update
from slurm_operator.decide.nodes import refused_pods, same_check, slurm_nodes, waits
from slurm_operator.decide.nodes.slurm_nodes import Standing
from slurm_operator.decide.nodes.workers import NodeSetState, Worker
from slurm_operator.drains import Owner
from slurm_operator.findings import (
    MAX_MESSAGE,
    Condition,
    Finding,
    Findings,
    Severity,
    shown,
    under_way,
)
from slurm_operator.state.kubernetes import Kubernetes, Pod, Unread
from slurm_operator.state.resources import NodeSet
from slurm_operator.state.slurm import Nodes, SlurmNode, Unknown

_SHOWN = 5


@dataclasses.dataclass(frozen=True, slots=True)
class Counts:
    """Nodes of one or more node sets; all but `wanted` are None when Slurm cannot be seen.

    `by_people` are those of `drained` that people took out of service.
    """

    wanted: int
    ready: int | None = None
    idle: int | None = None
    allocated: int | None = None
    drained: int | None = None
    down: int | None = None
    draining: int | None = None
    updated: int | None = None
    by_people: int | None = None


_KNOWN = [field.name for field in dataclasses.fields(Counts) if field.name != "wanted"]
_NONE_AT_ALL = dict.fromkeys(_KNOWN, 0)


def node_set(state: NodeSetState) -> tuple[Counts, Findings]:
    """Judge one node set."""
    if state.is_missing:
        return _without_stateful_set(state)
    wanted = state.node_set
    findings = Findings()
    if state.current != state.wanted and not wanted.deleting:
        verb = "growing" if state.wanted > state.current else "shrinking"
        sizes = f"from {state.current} to {state.wanted} nodes{_drained(state.leaving())}"
        findings.append(under_way(Reason.SCALING, f"node set {wanted.name}: {verb} {sizes}"))
    if isinstance(state.nodes, Unknown):
        return Counts(state.wanted), findings
    members, leaving = state.expected(), state.leaving()
    for worker in [] if wanted.deleting else leaving:
        if worker.has_work:
            until, running = scale.until(state), waits.for_jobs([worker.name], state.jobs)
            words = f"{worker.name} leaves when its jobs have ended{running}{until}"
            findings.append(under_way(Reason.WAITING_FOR_JOBS, words))
    present = [worker.node for worker in (*members, *leaving) if worker.node]
    if kept := slurm_nodes.kept([*present, *records.orphans(state)], wanted.namespace):
        findings.append(under_way(Reason.NODES_KEPT, f"drained and without jobs, but kept by Slurm: {kept}"))
    if (update.outdated(state) or update.coming_back(state)) and not wanted.deleting:
        findings += [_updating(state), *update.findings(state)]
    findings += reboot.findings(state)
    findings += features.unplaced(state)
    findings += _not_ready(state)
    findings += refused_pods.findings("StatefulSet", state.workload)
    findings += undrain.untested(state)
    standing = {
        kind: [worker.node for worker in members if worker.node and worker.standing is kind] for kind in Standing
    }
    down, drained, usable = (standing[kind] for kind in (Standing.DOWN, Standing.DRAINED, Standing.USABLE))
    if down:
        words, severity = f"down in Slurm: {_with_reasons(down)}", Severity.BLOCKING | Severity.WRONG
        findings.append(Finding(Reason.NODES_DOWN, words, severity))
    by_people = [node for node in drained if drains.is_by_person(node)]
    findings += same_check.findings(state)
    if others := [node for node in drained if node not in by_people]:
        findings.append(Finding(Reason.NODES_DRAINED, f"drained: {_with_reasons(others)}"))
    if by_people:
        words = f"drained by {_with_authors(by_people)}"
        findings.append(Finding(Reason.DRAINED_BY_PEOPLE, words, Severity.INFORMATION))
    counts = Counts(
        wanted=state.wanted,
        ready=len(usable),
        idle=sum(not slurm_nodes.has_work(node) for node in usable),
        allocated=sum(map(slurm_nodes.has_work, present)),
        drained=len(drained),
        down=len(down),
        draining=sum(map(slurm_nodes.is_draining, present)),
        updated=update.updated(state),
        by_people=len(by_people),
    )
    return counts, findings


def _drained(leaving: Sequence[Worker]) -> str:
    """Return how many of the nodes that leave are drained, as the end of a sentence."""
    there = [worker.node for worker in leaving if worker.node]
    return f", {sum(map(drains.is_drained, there))} of {len(there)} that leave are drained" if there else ""


def _without_stateful_set(state: NodeSetState) -> tuple[Counts, Findings]:
    wanted = state.node_set
    there = f"there is no StatefulSet {wanted.stateful_set}; declare it or correct spec.statefulSet"
    message, severity = f"node set {wanted.name}: {there}", Severity.BLOCKING | Severity.WRONG
    counts = Counts(state.wanted, **{} if isinstance(state.nodes, Unknown) else _NONE_AT_ALL)
    return counts, Findings([Finding(Reason.STATEFUL_SET_MISSING, message, severity)])


def _not_ready(state: NodeSetState) -> list[Finding]:
    """Nodes that wait to be registered and usable; those that an update or a reboot keeps out are told apart."""
    there = [
        worker for worker in state.expected() if worker.standing is Standing.WAITING and not _is_told_apart(worker)
    ]
    waiting = [worker for worker in there if worker.node is None or not slurm_nodes.is_rebooting(worker.node)]
    if not waiting:
        return []
    listed = shown([worker.name for worker in waiting], _SHOWN)
    message = f"node set {state.node_set.name}: {listed} not yet registered and usable"
    message += daemons.first_trouble(worker.pod for worker in waiting if worker.pod)
    message += refused_pods.suffix(state.workload)
    starting = under_way(Reason.NODES_STARTING, message)
    is_for_update = bool(update.outdated(state)) or all(update.may_start_yet(state, worker) for worker in waiting)
    if is_for_update and len(waiting) <= state.node_set.update.room(state.wanted):
        return [starting]
    return [Finding(Reason.NODES_NOT_READY, message, Severity.BLOCKING), starting]


def _is_told_apart(worker: Worker) -> bool:
    """Return whether a node is out of service for its update or its test; False if its new pod does not come up."""
    is_for_update = worker.drain is Owner.UPDATE and (worker.pod is None or worker.pod.ready or worker.is_outdated)
    return is_for_update or (worker.drain is Owner.UNTESTED and worker.is_up)


def _updating(state: NodeSetState) -> Finding:
    share = f"{update.updated(state)} of {state.wanted} nodes have the current template"
    message = f"node set {state.node_set.name}: {share}"
    if not update.outdated(state):
        back = shown(update.coming_back(state), _SHOWN)
        return under_way(Reason.UPDATING, f"{message}; {back} comes back from its update")
    if state.node_set.update.paused:
        kept = shown([worker.name for worker in update.outdated(state)], _SHOWN)
        return under_way(Reason.UPDATE_PAUSED, f"{message}; update.paused keeps {kept} as they are")
    if state.hold:
        return under_way(Reason.UPDATE_HELD, f"{message}; the others wait: {state.hold}")
    later = update.waits_for_window(state)
    if later and not update.taken(state):
        return dataclasses.replace(later, message=f"{message}; {later.message}")
    until = "".join(f"; {words}" for words in ([later.message] if later else []) + update.kept_by_others(state))
    if working := update.waiting_for_jobs(state):
        jobs = waits.for_jobs(working, state.jobs)
        told = f"{message}; {shown(working, _SHOWN)} when its jobs have ended{jobs}{until}"
        return under_way(Reason.UPDATE_WAITS_FOR_JOBS, told)
    if stuck := update.not_up(state):
        slots = f"{shown(stuck, _SHOWN)} must work again first (update.maxUnavailable)"
        return under_way(Reason.UPDATING, f"{message}; {slots}{until}")
    return under_way(Reason.UPDATING, f"{message}{until}")


def scaled_outside(wanted: NodeSet) -> Condition:
    """Return the condition that tells if somebody else than the program set the number of nodes, and for how long."""
    kind, declared, asked = ConditionType.SCALED_OUTSIDE_PULUMI, wanted.declared, wanted.replicas
    if declared is None:
        return Condition(kind, "False", Reason.NOT_DECLARED, "the program declares no number of nodes")
    if asked in (None, declared):
        return Condition(kind, "False", Reason.AS_DECLARED, f"the program declares {declared} nodes")
    who = " and ".join(wanted.scaled_by) or "somebody"
    words = f"{who} asked for {asked} nodes, the program declares {declared}, to which"
    until = "the next `pulumi up` that changes anything of this node set returns"
    keep = f"nodeSets[].replicas: {asked} in the stack's configuration keeps {asked}"
    return Condition(kind, "True", Reason.REPLICAS_DIFFER, f"{words} {until}; {keep}")


def watched_k8s_nodes(trouble: str) -> Condition:
    """Return the condition that tells if cordons of Kubernetes nodes become drains; `trouble` says why they can't."""
    kind = ConditionType.NODES_WATCHED
    if trouble:
        no_more = "cordons, taints and lost Kubernetes nodes do not become drains, and no worker may be evicted"
        return Condition(kind, "False", Reason.NODES_UNREADABLE, f"{no_more}: {trouble}"[:MAX_MESSAGE])
    return Condition(kind, "True", Reason.WATCHING, "a cordon of a Kubernetes node becomes a drain")


def total(counts: Iterable[Counts]) -> Counts:
    """Sum the node sets; what is unknown of one is unknown of all."""
    rows = list(counts)

    def column(name: str) -> int | None:
        values = [getattr(row, name) for row in rows]
        return None if None in values else sum(values)

    return Counts(sum(row.wanted for row in rows), **{name: column(name) for name in _KNOWN})


def cluster(kubernetes: Kubernetes, nodes: Nodes | Unknown, sets: Findings, counts: Counts) -> Findings:
    """Judge the whole cluster, given what was found about its node sets."""
    findings = Findings()
    revision = kubernetes.cluster.revision
    if kubernetes.ledger_revision != revision:
        has = kubernetes.ledger_revision or "nothing"
        message = f"revision {revision} is not fully declared: the ledger says {has}"
        if Unread.LEDGER in kubernetes.unread:
            message = f"nobody knows if revision {revision} is fully declared: {Unread.LEDGER} can't be read"
        findings.append(Finding(Reason.LEDGER_MISMATCH, message, Severity.BLOCKING | Severity.PROGRESSING))
    is_shown = Unread.CONFIGURATION not in kubernetes.unread
    if is_shown and kubernetes.desired_config is None and kubernetes.active_config is None:
        name = kubernetes.cluster.desired_config
        findings.append(Finding(Reason.CONFIGURATION_MISSING, f"there is no ConfigMap {name}", Severity.BLOCKING))
    _judge_daemons(findings, kubernetes, nodes)
    if daemons.is_controller_old(kubernetes):
        why = daemons.holds_controller(kubernetes)
        message = f"slurmctld is updated to its current template{why and f': {why}'}"
        findings.append(Finding(Reason.CONTROLLER_UPDATING, message, Severity.BLOCKING | Severity.PROGRESSING))
    findings += sets
    if not findings.blocking and not findings.unknown and counts.wanted and not counts.ready:
        findings.append(Finding(Reason.NO_USABLE_NODES, f"none of {counts.wanted} nodes takes jobs", Severity.BLOCKING))
    findings += [Finding(reason, message) for reason, message in _troubles(kubernetes.pods.values())]
    findings += refused_pods.of_daemons(kubernetes)
    return findings


def _judge_daemons(findings: Findings, kubernetes: Kubernetes, nodes: Nodes | Unknown) -> None:
    names = kubernetes.cluster
    rows = [
        (Reason.LOGIN_NOT_READY, f"StatefulSet {name}", _is_pod_of(name), kubernetes.workloads.get(name))
        for name in (names.login, *names.login_sets)
    ]
    if isinstance(nodes, Unknown):
        controller = kubernetes.workloads.get(names.controller)
        is_controller = _is_pod_of(names.controller)
        rows.insert(0, (Reason.CONTROLLER_NOT_READY, f"StatefulSet {names.controller}", is_controller, controller))
        if Unread.REST not in kubernetes.unread:
            rows.insert(1, (Reason.REST_NOT_READY, f"Deployment {names.rest}", _is_rest_pod, kubernetes.rest))
    for reason, title, is_its_pod, workload in rows:
        if workload is None:
            findings.append(Finding(reason, f"there is no {title}", Severity.BLOCKING))
        elif not workload.is_ready:
            ready = f"{workload.ready} of {workload.replicas} ready in the current generation"
            why = daemons.first_trouble(filter(is_its_pod, kubernetes.pods.values())) or refused_pods.suffix(workload)
            findings.append(Finding(reason, f"{title}: {ready}{why}", Severity.BLOCKING | Severity.PROGRESSING))
    if isinstance(nodes, Unknown):
        findings.append(Finding(Reason(nodes.reason), nodes.message, Severity.UNKNOWN))
        if not any(
            problem.reason in (Reason.CONTROLLER_NOT_READY, Reason.REST_NOT_READY) for problem in findings.blocking
        ):
            # Daemons that are still starting are no fault.
            findings.append(Finding(Reason(nodes.reason), nodes.message))


def _is_pod_of(stateful_set: str) -> Callable[[Pod], bool]:
    return lambda pod: pod.name.rpartition("-")[0] == stateful_set


def _is_rest_pod(pod: Pod) -> bool:
    return pod.component == "rest"


def _troubles(pods: Iterable[Pod]) -> list[tuple[Reason, str]]:
    """Return what keeps pods from starting. Of populate pods the newest counts: older ones are past attempts."""
    alive = [pod for pod in pods if not pod.terminating]
    attempts = sorted((pod for pod in alive if pod.component == "jail"), key=lambda pod: str(pod.created))
    speaking = [pod for pod in alive if pod.component != "jail"] + attempts[-1:]
    return [
        (Reason.POPULATE_FAILED if pod.component == "jail" else Reason.POD_NOT_STARTING, f"{pod.name}: {pod.trouble}")
        for pod in speaking
        if pod.trouble
    ]


def _with_reasons(nodes: Sequence[SlurmNode]) -> str:
    return shown([f"{node.name} ({node.reason or 'no reason given'})" for node in nodes], _SHOWN)


def _with_authors(nodes: Sequence[SlurmNode]) -> str:
    rows = [
        f"{node.reason_user or drains.UNKNOWN_AUTHOR}: {node.name} ({node.reason or 'no reason given'})"
        for node in nodes
    ]
    return shown(rows, _SHOWN)
