"""Which nodes move to a changed pod template now: each when its jobs have ended, a few of a set at a time.

A node is drained; when it is strictly idle its pod is deleted. The new slurmd takes Slurm's record of the node over,
still drained. Only if the size changed does the record go (records.py), since it would keep the old one. A node that
has such a record already moves like one of an older template. A template that is changed back, a
pause or a new operator all act on what is seen. Outside of its window (window.py) an update takes no further node;
what it took goes on. Remembered is one thing, in the NodeSet's status: which nodes were
taken and have not worked since. They hold the update's slots, so that a template that does not work stops; what health
checks, machines and people hold on their own account does not.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable

from contract import reasons
from slurm_operator import drains
from slurm_operator.actions import Action, DeletePod, Drain, Purpose, RequeueJobs
from slurm_operator.decide import nodes as slurm_nodes
from slurm_operator.decide import records, window
from slurm_operator.decide.scale import NodeSetState, give_back, is_record_of, safe_to_delete
from slurm_operator.findings import Finding, Severity, shown, under_way
from slurm_operator.reasons import Reason
from slurm_operator.state import Evidence, Named, Nodes, SlurmNode


def outdated(state: NodeSetState) -> list[str]:
    """Nodes that stay and whose pods are of an older template, highest first."""
    return [name for name in reversed(state.members()) if name in state.pods and is_outdated(state, name)]


def without_outdated(state: NodeSetState) -> NodeSetState:
    """The set without the pods of an older template: started anew, those would bring a newer slurmd."""
    old = outdated(state)
    return dataclasses.replace(state, pods={name: pod for name, pod in state.pods.items() if name not in old})


def queue(state: NodeSetState) -> dict[str, int]:
    """How many nodes are still to be added, removed, moved to the newest template, and repaired."""
    adding, removing = max(0, state.wanted - state.current), len(state.leaving())
    return {"add": adding, "remove": removing, "update": len(outdated(state)), "repair": len(state.under_repair())}


def updated(state: NodeSetState) -> int:
    """How many pods of nodes that stay are of the newest template."""
    there = [name for name in state.members() if name in state.pods and not state.pods[name].terminating]
    return sum(not is_outdated(state, name) for name in there)


def is_outdated(state: NodeSetState, name: str) -> bool:
    """Whether a pod is of another template than its set's newest."""
    return state.revision not in ("", state.pods[name].revision)


def needs_evidence(state: NodeSetState, nodes: Nodes, hold: str = "") -> bool:
    """Whether full listings could lead to the restart of a pod."""
    if hold:
        return False
    old = [nodes.get(name) for name in _to_move(state)]
    if any(node is None or _looks_free(node) for node in old):
        return True
    # A larger record may go only when nobody waits for its node, which is asked when the node may move.
    may_move = [node for node in old if node and (drains.is_updating(node) or _may_begin_now(state, node))]
    if any(records.is_too_large(state, node) for node in may_move):
        return True
    there = [nodes[name] for name in _there(state) if name in nodes]
    return any(_looks_free(node) and records.is_misread(state, node) for node in there)


def moves(state: NodeSetState, nodes: Nodes, evidence: Evidence | None, hold: str = "") -> list[Action]:
    """What to do about one node set's updates now.

    Args:
        state: the sizes, pods, newest template and policy of the node set.
        nodes: the listing with which this pass began.
        evidence: full listings of nodes and jobs made after `nodes`; None if none were made.
        hold: why nothing may begin or go on; empty if nothing keeps it.
    """
    named = evidence.named if evidence else None
    old = [*_to_move(state), *_misread(state, nodes, evidence)]
    found: list[Action] = [give_back(name, state.pods[name]) for name in to_give_back(state, nodes, evidence)]
    if hold:
        return found
    limit = (state.update.deadline_seconds, state.now, reasons.UPDATE)
    found += [
        RequeueJobs(name, limit[0] or 0)
        for name in old
        if name in nodes and slurm_nodes.is_overdue(nodes[name], *limit)
    ]
    waiting = [name for name in old if name in nodes and _may_begin(state, nodes[name])]
    waiting = [name for name in waiting if _may_begin_now(state, nodes[name])]
    # A record that promises more than the new pod has must go with the old one: jobs that wait for the node run first.
    kept = named.awaited if named else frozenset(waiting)
    waiting = [name for name in waiting if name not in kept or not records.is_too_large(state, nodes[name])]
    waiting.sort(key=lambda name: _turn(state, nodes[name]))
    holding = holding_slots(state, nodes)
    # Neither costs a slot: the one has it, the other was out of service before.
    free_of_charge = [name for name in waiting if name in holding or not state.pods[name].is_scheduled]
    charged = [name for name in waiting if name not in free_of_charge]
    room = max(0, state.update.room(state.wanted) - len(holding))
    found += [Drain(name, reasons.UPDATE) for name in (*free_of_charge, *charged[:room])]
    listings = (nodes, evidence.nodes) if evidence else ()
    going = safe_to_delete(state, nodes, evidence)
    found += [
        _restart(state, nodes.get(name), name, named)
        for name in old
        # Only a drain of ours lets a registered node's pod go: what another said may be about this very pod.
        if name in going and all(drains.is_updating(listing[name]) for listing in listings if name in listing)
        if name not in nodes or (named and name not in named.by_any) or not records.is_too_large(state, nodes[name])
        # Our reservation lets a drained node go at once, and until then Slurm keeps its record.
        if name not in nodes or not (window.holds(state, name) and records.has_other_size(state, nodes[name]))
    ]
    return found


def waiting_for_window(state: NodeSetState, nodes: Nodes) -> frozenset[str] | None:
    """Nodes that serve and are still to move; None while the newest template is unknown."""
    if not state.revision:
        return None
    there = [name for name in _to_move(state) if name in nodes]
    return frozenset(name for name in there if not drains.is_drained(nodes[name]))


def _restart(state: NodeSetState, node: SlurmNode | None, name: str, named: Named | None) -> DeletePod:
    has_use = node is not None and records.has_other_size(state, node)
    forget = has_use and named is not None and name not in named.by_any
    why = "a new one has the current template"
    return DeletePod(name, state.pods[name].uid, Purpose.UPDATE, why, forget=forget)


def taken(state: NodeSetState, nodes: Nodes) -> frozenset[str]:
    """Nodes that stay, that an update has taken, and that have not worked since."""
    return frozenset(name for name in state.members() if _is_taken(state, name, nodes.get(name)))


def begun(state: NodeSetState, moves: Iterable[Action]) -> frozenset[str]:
    """Nodes that an update takes by those moves; one whose pod has no machine was out of service before."""
    drained = {move.node for move in moves if isinstance(move, Drain) and move.reason == reasons.UPDATE}
    return frozenset(name for name in drained if state.pods[name].is_scheduled)


def holding_slots(state: NodeSetState, nodes: Nodes) -> frozenset[str]:
    """Nodes that count as out of service for an update: those that it has taken and that only it holds up."""
    found = {name for name in taken(state, nodes) if not state.is_lost(name)}
    found -= {name for name in found if name in nodes and drains.is_for_k8s_node(nodes[name])}
    faulty = {name for name in found if name in nodes and drains.is_at_fault(nodes[name])}
    newest = [name for name in state.members() if name in state.pods and not is_outdated(state, name)]
    # One machine may break at any time; many that break under the newest template are that template's work.
    return frozenset(found if state.have_one_cause(len(faulty), len(newest)) else found - faulty)


def findings(state: NodeSetState, nodes: Nodes) -> list[Finding]:
    """Nodes that an update passes by, since they have no machine or a lost one."""
    if state.update.paused or not outdated(state):
        return []
    holding = holding_slots(state, nodes)
    there = [(name, state.pods[name]) for name in state.members() if name in state.pods and name not in holding]
    pending = [name for name, pod in there if not (pod.is_scheduled or pod.terminating)]
    lost = [f"{name} ({pod.k8s_node} is lost)" for name, pod in there if state.is_lost(name)]
    words = [*(f"{name} (Pending: {state.pods[name].trouble or 'not scheduled'})" for name in pending), *lost]
    passed = f"node set {state.stateful_set}: the update passes by {shown(words)} and goes on with the others"
    return [under_way(Reason.UPDATE_PASSES_BY, passed)] if words else []


def waits_for_window(state: NodeSetState, nodes: Nodes) -> Finding | None:
    """What is said while nodes wait for the window; None if none does."""
    waiting, policy = waiting_for_window(state, nodes), state.update
    if not waiting or policy.window is None or window.is_open(policy, state.now):
        return None
    title, found = window.words(policy.window), window.opening(policy.window, state.now)
    if found is None:
        past = f"update.window ({title}) is past, so that the others stay as they are: set a later one, or leave it out"
        return Finding(Reason.UPDATE_WINDOW_PAST, past, Severity.MOVING | Severity.WRONG)
    opens = f"the others wait for the window {title}, which opens at {found.starts:%Y-%m-%d %H:%M}"
    return under_way(Reason.UPDATE_WAITS_FOR_WINDOW, opens)


def not_up(state: NodeSetState, nodes: Nodes) -> list[str]:
    """Nodes that hold slots with a pod of the newest template."""
    there = [name for name in sorted(holding_slots(state, nodes)) if name in state.pods]
    return [name for name in there if not is_outdated(state, name)]


def _is_taken(state: NodeSetState, name: str, node: SlurmNode | None) -> bool:
    pod, before = state.pods.get(name), name in state.updating
    if node is None:
        return before or (pod is not None and pod.ready)  # Half a listing, or its record went with the old pod.
    if drains.is_updating(node):
        return before or pod is None or pod.is_scheduled
    # Slurm set DOWN what it has rebooted, and nobody else's word keeps that from work.
    by_reboot = slurm_nodes.is_rebooting(node) and not drains.is_drained(node)
    if not before or (drains.is_anothers(node) and not by_reboot):
        return False
    up = pod is not None and pod.ready and not pod.terminating
    return slurm_nodes.standing(node, pod_ready=up) is not slurm_nodes.Standing.USABLE


def to_give_back(state: NodeSetState, nodes: Nodes, evidence: Evidence | None = None) -> list[str]:
    """Nodes that need no update any more, or none for now; nobody knows while the newest template is unknown."""
    if not (state.revision or state.update.paused):
        return []
    # Whether one may get another record shows in full listings alone.
    leave = {*_to_move(state)} - {*_awaited_and_too_large(state, nodes, evidence)}
    # In a deep queue nobody tells: such a node serves with its old record.
    leave |= {*(_misread(state, nodes, evidence) if evidence else _with_misread_records(state, nodes))}
    there = [name for name in _there(state) if name in nodes and name not in leave and drains.is_updating(nodes[name])]
    return [name for name in there if is_record_of(nodes[name], state.pods[name])]


def waiting_for_jobs(state: NodeSetState, nodes: Nodes) -> list[str]:
    """Nodes that are drained for an update and still have work."""
    there = [nodes[name] for name in state.members() if name in nodes]
    return [node.name for node in there if drains.is_updating(node) and slurm_nodes.has_work(node)]


def _there(state: NodeSetState) -> list[str]:
    """Nodes that stay, and whose pods do."""
    return [name for name in state.members() if name in state.pods and not state.pods[name].terminating]


def _to_move(state: NodeSetState) -> list[str]:
    there = _there(state)
    return [] if state.update.paused else [name for name in outdated(state) if name in there]


def _looks_free(node: SlurmNode) -> bool:
    return drains.is_updating(node) and slurm_nodes.may_restart(node)


def _may_begin(state: NodeSetState, node: SlurmNode) -> bool:
    """Whether a node serves, or drained itself: it may be the old template that is broken."""
    k8s_node = state.k8s_node(node.name)
    if state.is_lost(node.name) or (k8s_node and k8s_node.away_since):
        return False
    if not drains.is_drained(node):
        return drains.may_be_drained(node, reasons.UPDATE) and not slurm_nodes.is_kept_for_others(node)
    own = drains.may_become(node, reasons.UPDATE) and slurm_nodes.may_restart(node)
    return own and node.name not in state.under_repair()


def _may_begin_now(state: NodeSetState, node: SlurmNode) -> bool:
    """Whether the window lets an update begin; a node that never served loses nothing, and others may wait for it."""
    pod = state.pods.get(node.name)
    never_served = drains.is_new(node) or (pod is not None and not pod.is_scheduled)
    return never_served or window.is_open(state.update, state.now)


def _turn(state: NodeSetState, node: SlurmNode) -> int:
    """A node's place in the order. Those that never served come first, and one with a long job keeps no other back."""
    # No template mends what the machine of an unfit node lacks. The next node would wait until that one works.
    if drains.is_unfit(node):
        return 3
    # A reservation for maintenance is for that, and ends; all nodes that wait for a window are in the operator's own.
    maintained = "MAINTENANCE" in node.states and not window.holds(state, node.name)
    return 0 if drains.is_drained(node) or maintained else 1 + slurm_nodes.has_work(node)


def _awaited_and_too_large(state: NodeSetState, nodes: Nodes, evidence: Evidence | None) -> list[str]:
    """Nodes that can't move yet: their records would have to go, and somebody waits for them, or nobody can tell."""
    if evidence is None:
        return []
    there = [name for name in _to_move(state) if name in nodes and records.is_too_large(state, nodes[name])]
    return [name for name in there if evidence.named is None or name in evidence.named.awaited]


def _misread(state: NodeSetState, nodes: Nodes, evidence: Evidence | None) -> list[str]:
    """Nodes of the newest template that get a record of their size, since nothing names them."""
    if evidence is None or evidence.named is None or state.update.paused:
        return []
    return [name for name in _with_misread_records(state, nodes) if name not in evidence.named.by_any]


def _with_misread_records(state: NodeSetState, nodes: Nodes) -> list[str]:
    current = [name for name in reversed(_there(state)) if name in nodes and not is_outdated(state, name)]
    return [name for name in current if state.revision and records.is_misread(state, nodes[name])]
