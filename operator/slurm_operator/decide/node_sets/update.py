"""Updates of nodes to a changed pod template: each when its jobs have ended, a few of a set at a time.

The operator drains a node, and deletes its pod when the node is strictly idle. The new slurmd takes over Slurm's
record of the node, still drained. A record keeps the size with which it was made, so it is deleted if the size changed
(records.py). A node whose record has another size is updated like one of an older template. Every pass decides from
what it sees: a template that is changed back, a pause and a new operator need no memory. Outside of its window
(window.py) an update takes no further node, and goes on with those that it took.

The NodeSet's status remembers one thing: the nodes that an update took and that have not worked since. They hold the
update's slots, so that the update stops at a template that does not work. Nodes that health checks, Kubernetes nodes
or people keep out of service hold no slot.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable

from contract import reasons
from contract.conditions import Reason
from slurm_operator import drains
from slurm_operator.actions import Action, DeletePod, Drain, Purpose, RequeueJobs
from slurm_operator.decide.node_sets import records, remediate, window
from slurm_operator.decide.nodes import slurm_nodes
from slurm_operator.decide.nodes.workers import UNREGISTERED_PATIENCE, NodeSetState, Worker
from slurm_operator.drains import Owner
from slurm_operator.findings import Finding, Severity, shown, under_way
from slurm_operator.state.slurm import SlurmNode


def outdated(state: NodeSetState) -> list[Worker]:
    """Nodes that stay and whose pods are of an older template, highest first."""
    return [worker for worker in reversed(state.members()) if worker.is_outdated]


def without_outdated(state: NodeSetState) -> NodeSetState:
    """The set without the pods of an older template: started anew, those would bring a newer slurmd."""
    old = {worker.name for worker in outdated(state)}
    return dataclasses.replace(state, pods={name: pod for name, pod in state.pods.items() if name not in old})


def queue(state: NodeSetState) -> dict[str, int]:
    """Return how many nodes are still to be added, removed, updated to the newest template, and repaired."""
    repairs = sum(worker.repair is not None for worker in state.workers.values())
    adding, removing = max(0, state.wanted - state.current), len(state.leaving())
    return {"add": adding, "remove": removing, "update": len(outdated(state)), "repair": repairs}


def updated(state: NodeSetState) -> int:
    """Return how many pods of nodes that stay have the newest template."""
    return sum(not worker.is_outdated for worker in _there(state))


def needs_full_listing(state: NodeSetState) -> bool:
    """Return whether full listings could lead to the restart of a pod."""
    if state.hold:
        return False
    old = _to_update(state)
    if any(worker.node is None or _looks_free(worker) for worker in old):
        return True
    # A record that is too large may be deleted only when no job waits for its node: full listings tell.
    may_move = [worker for worker in old if worker.drain is Owner.UPDATE or _may_begin_now(state, worker)]
    if any(records.is_too_large(state, worker.node) for worker in may_move):
        return True
    return any(_looks_free(worker) and records.is_misread(state, worker.node) for worker in _there(state))


def actions(state: NodeSetState) -> list[Action]:
    """Return the actions for the updates of a node set."""
    if state.hold:
        return []
    old = [*_to_update(state), *_misread(state)]
    limit = (state.node_set.update.deadline_seconds, state.now, reasons.UPDATE)
    decided: list[Action] = [
        RequeueJobs(worker.name, limit[0] or 0)
        for worker in old
        if worker.node and slurm_nodes.is_overdue(worker.node, *limit)
    ]
    decided += [Drain(name, reasons.UPDATE) for name in _to_begin(state, old)]
    decided += [_restart(state, worker) for worker in old if _may_restart(state, worker)]
    return decided


def _to_begin(state: NodeSetState, old: Iterable[Worker]) -> list[str]:
    """Nodes that the update takes now, as far as its slots allow."""
    waiting = [worker for worker in old if _may_begin(worker) and _may_begin_now(state, worker)]
    # A record that promises more than the new pod has is deleted with the old pod. Jobs that wait for it run first.
    waiting = [worker for worker in waiting if not (worker.is_awaited and records.is_too_large(state, worker.node))]
    waiting.sort(key=lambda worker: _turn(state, worker))
    holding = holding_slots(state)
    # These nodes take no further slot: they hold one already, or were out of service before.
    free_of_charge = [worker.name for worker in waiting if worker.name in holding or not _is_scheduled(worker)]
    charged = [worker.name for worker in waiting if worker.name not in free_of_charge]
    room = max(0, state.node_set.update.room(state.wanted) - len(holding))
    return [*free_of_charge, *charged[:room]]


def _may_restart(state: NodeSetState, worker: Worker) -> bool:
    """Return whether the pod of a node may be deleted for its update now."""
    # The operator deletes a registered node's pod under its own drain only: another's drain may be about this pod.
    if not worker.is_free or not all(drains.owner(node) is Owner.UPDATE for node in worker.records):
        return False
    if worker.is_named and records.is_too_large(state, worker.node):
        return False
    # Slurm refuses to delete a record that a reservation names. Our own reservation drops a drained node soon.
    return not (window.holds(state, worker.name) and records.has_other_size(state, worker.node))


def _restart(state: NodeSetState, worker: Worker) -> DeletePod:
    forget = records.has_other_size(state, worker.node) and not worker.is_named
    return DeletePod(worker.name, worker.uid, Purpose.UPDATE, "a new one has the current template", forget=forget)


def waiting_for_window(state: NodeSetState) -> frozenset[str] | None:
    """Return nodes that serve and are still to be updated; None while the newest template is unknown."""
    if not state.revision:
        return None
    return frozenset(worker.name for worker in _to_update(state) if worker.node and not drains.is_drained(worker.node))


def taken(state: NodeSetState) -> frozenset[str]:
    """Nodes that an update has taken and that have not worked since; those that leave may be wanted again."""
    return frozenset(worker.name for worker in state.workers.values() if worker.is_there and _is_taken(state, worker))


def begun(state: NodeSetState, actions: Iterable[Action]) -> frozenset[str]:
    """Return the nodes that these actions take out of service for an update.

    A node whose pod is not scheduled does not count: it was out of service before.
    """
    drained = {action.node for action in actions if isinstance(action, Drain) and action.reason == reasons.UPDATE}
    return frozenset(name for name in drained if _is_scheduled(state.workers[name]))


def holding_slots(state: NodeSetState) -> frozenset[str]:
    """Nodes that count as out of service for an update: those that it has taken and that only it holds up."""
    there = [worker for worker in state.members() if _is_taken(state, worker) and not worker.is_lost]
    # This pass gives a node that is well again another drain (undrain.py), under which only the update holds it up.
    back = {worker.name for worker in there if worker.has_registered and remediate.is_over(state, worker)}
    holding = {worker.name: worker for worker in there if worker.drain is not Owner.K8S_NODE or worker.name in back}
    faulty = {name for name, worker in holding.items() if _is_at_fault(state, worker.node)} - back
    newest = [worker for worker in state.members() if worker.pod and not worker.is_outdated]
    # One Kubernetes node may break at any time. If many break under the newest template, that template is the cause.
    return frozenset(holding if state.have_one_cause(len(faulty), len(newest)) else holding.keys() - faulty)


def _is_at_fault(state: NodeSetState, node: SlurmNode | None) -> bool:
    """Return whether a node drained itself for its hardware's sake, or Slurm refuses it for want of some."""
    if node is None:
        return False
    return drains.is_at_fault(node) or ("INVALID_REG" in node.states and not records.has_other_size(state, node))


def findings(state: NodeSetState) -> list[Finding]:
    """Return a finding about nodes that an update passes by: their pods are not scheduled, or on lost nodes."""
    if state.node_set.update.paused or not outdated(state):
        return []
    holding = holding_slots(state)
    there = [(worker, worker.pod) for worker in state.members() if worker.pod and worker.name not in holding]
    pending = [pod for _, pod in there if not (pod.is_scheduled or pod.terminating)]
    words = [f"{pod.name} (Pending: {pod.trouble or 'not scheduled'})" for pod in pending]
    words += [f"{pod.name} ({pod.k8s_node} is lost)" for worker, pod in there if worker.is_lost]
    passed = f"node set {state.stateful_set}: the update passes by {shown(words)} and goes on with the others"
    return [under_way(Reason.UPDATE_PASSES_BY, passed)] if words else []


def waits_for_window(state: NodeSetState) -> Finding | None:
    """Return a finding about nodes that wait for the window; None if no node waits."""
    waiting, policy = waiting_for_window(state), state.node_set.update
    if not waiting or policy.window is None or window.is_open(policy, state.now):
        return None
    title, next_opening = window.words(policy.window), window.opening(policy.window, state.now)
    if next_opening is None:
        past = f"update.window ({title}) is past, so that the others stay as they are: set a later one, or leave it out"
        return Finding(Reason.UPDATE_WINDOW_PAST, past, Severity.PROGRESSING | Severity.WRONG)
    opens = f"the others wait for the window {title}, which opens at {next_opening.starts:%Y-%m-%d %H:%M}"
    return under_way(Reason.UPDATE_WAITS_FOR_WINDOW, opens)


def kept_by_others(state: NodeSetState) -> list[str]:
    """Return what keeps nodes from their update until others end it: they took the nodes out, or reserved them."""
    old = [worker for worker in _to_update(state) if worker.drain is not Owner.UPDATE]
    out = [worker.name for worker in old if worker.node and drains.is_anothers(worker.node)]
    reserved = [worker.name for worker in old if _is_reserved(worker) and worker.name not in out]
    ends = {"nobody else keeps them out of service": out, "their reservation ends": reserved}
    return [f"left until {end}: {shown(names)}" for end, names in ends.items() if names]


def not_up(state: NodeSetState) -> list[str]:
    """Nodes that hold slots with a pod of the newest template."""
    there = [state.workers[name] for name in sorted(holding_slots(state))]
    return [worker.name for worker in there if worker.pod and not worker.is_outdated]


def coming_back(state: NodeSetState) -> list[str]:
    """Nodes without work under their update's drain that have no pod, or a ready one of the newest template."""
    there = [worker for worker in state.members() if worker.drain is Owner.UPDATE and not worker.has_work]
    return [worker.name for worker in there if worker.pod is None or (worker.pod.ready and not worker.is_outdated)]


def may_start_yet(state: NodeSetState, worker: Worker) -> bool:
    """Return whether a node's pod was made for its update, and had no time to register."""
    pod = worker.pod
    if pod is None or worker.is_outdated or worker.name not in state.node_set.updating:
        return False
    return (pod.created or state.now) > state.now - UNREGISTERED_PATIENCE


def _is_taken(state: NodeSetState, worker: Worker) -> bool:
    node, before = worker.node, worker.name in state.node_set.updating
    if node is None:
        # The listing lacks the node, or the record was deleted with the old pod.
        return before or (worker.pod is not None and worker.pod.ready)
    if worker.drain is Owner.UPDATE:
        return before or worker.pod is None or worker.pod.is_scheduled
    # Slurm itself sets a node DOWN that it has rebooted: that is no drain by a person.
    by_reboot = slurm_nodes.is_rebooting(node) and not drains.is_drained(node)
    if not before or (drains.is_anothers(node) and not by_reboot):
        return False
    return worker.standing is not slurm_nodes.Standing.USABLE


def keeps(state: NodeSetState, worker: Worker) -> bool:
    """Return whether a node still needs its drain for an update, or if the newest template is unknown."""
    policy = state.node_set.update
    if not (state.revision or policy.paused):
        return True
    if worker.is_outdated:
        # Only full listings tell if a job waits for the node. Then record and pod must stay.
        is_held_up = worker.is_awaited and records.is_too_large(state, worker.node)
        return not policy.paused and not (state.full_listing and is_held_up)
    # They also tell if the record may be deleted. In a deep queue they can't, and the node serves with its old record.
    gets_another = not (policy.paused or worker.is_named) if state.full_listing else bool(state.revision)
    return gets_another and records.is_misread(state, worker.node)


def waiting_for_jobs(state: NodeSetState) -> list[str]:
    """Nodes that are drained for an update and still have work."""
    return [worker.name for worker in state.members() if worker.drain is Owner.UPDATE and worker.has_work]


def _there(state: NodeSetState) -> list[Worker]:
    """Nodes that stay, and whose pods do."""
    return [worker for worker in state.members() if worker.pod and not worker.pod.terminating]


def _to_update(state: NodeSetState) -> list[Worker]:
    return [] if state.node_set.update.paused else [worker for worker in reversed(_there(state)) if worker.is_outdated]


def _is_scheduled(worker: Worker) -> bool:
    return worker.pod is not None and worker.pod.is_scheduled


def _looks_free(worker: Worker) -> bool:
    return worker.node is not None and worker.drain is Owner.UPDATE and slurm_nodes.may_restart(worker.node)


def _is_reserved(worker: Worker) -> bool:
    """Return whether a reservation keeps a node's update from beginning; new and refused ones serve nobody before."""
    is_kept = worker.node is not None and slurm_nodes.is_kept_for_others(worker.node)
    return is_kept and worker.drain not in (Owner.NEW, Owner.SLURM)


def _may_begin(worker: Worker) -> bool:
    """Return whether a node's update may begin: it serves, or drained itself, perhaps for the old template's fault."""
    node = worker.node
    if node is None or worker.is_away:
        return False
    if _is_reserved(worker):
        return False
    if not drains.is_drained(node):
        return drains.may_be_drained(node, reasons.UPDATE)
    return drains.may_become(node, reasons.UPDATE) and slurm_nodes.may_restart(node) and not worker.repair


def _may_begin_now(state: NodeSetState, worker: Worker) -> bool:
    """Return whether the window is open, or if the node loses nothing since it serves nobody."""
    serves_nobody = worker.drain in (Owner.NEW, Owner.UNTESTED) or not _is_scheduled(worker)
    return serves_nobody or window.is_open(state.node_set.update, state.now)


def _turn(state: NodeSetState, worker: Worker) -> int:
    """Return a node's place in the order: first those that never served, last those whose jobs would delay others."""
    # No template repairs the hardware of an unfit node. If it came first, the next node would wait until it works.
    if worker.drain is Owner.UNFIT:
        return 3
    # Somebody's maintenance reservation ends by itself. The operator's own holds all nodes that wait for a window.
    states = worker.node.states if worker.node else frozenset()
    maintained = "MAINTENANCE" in states and not window.holds(state, worker.name)
    return 0 if worker.drain or maintained else 1 + worker.has_work


def _misread(state: NodeSetState) -> list[Worker]:
    """Nodes of the newest template that get a record of their size, since nothing names them."""
    current = [worker for worker in reversed(_there(state)) if state.revision and not worker.is_outdated]
    there = [worker for worker in current if records.is_misread(state, worker.node)]
    return [] if state.node_set.update.paused else [worker for worker in there if not worker.is_named]
