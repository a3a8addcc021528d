"""The size of a node set: it grows at once, and shrinks when its highest nodes are drained and strictly idle.

The rules stand in the order that spares jobs. A removal needs a listing that shows the drain. In the same pass it then
needs full listings of nodes and jobs. Without them the size stays. Nothing is remembered: a restarted operator decides
the same from what it sees.
"""

from __future__ import annotations

import itertools

from contract import reasons
from slurm_operator import drains
from slurm_operator.actions import Action, Drain, DrainDown, RequeueJobs, SetReplicas
from slurm_operator.decide.nodes import slurm_nodes
from slurm_operator.decide.nodes.workers import NodeSetState
from slurm_operator.drains import Owner
from slurm_operator.state.slurm import Unknown


def needs_full_listing(state: NodeSetState) -> bool:
    """Return whether full listings could lead to a removal; False while the first node to go is plainly at work."""
    first = next(iter(state.leaving()), None)
    return first is not None and (first.node is None or slurm_nodes.looks_idle(first.node))


def actions(state: NodeSetState) -> list[Action]:
    """Return the actions for the size of a node set."""
    own = [worker.node for worker in state.workers.values() if worker.node and (worker.pod or worker.is_there)]
    leaving = state.leaving()
    records = [worker.node for worker in leaving if worker.node]
    limit = (state.node_set.removal.deadline_seconds, state.now, reasons.SCALE_IN)
    down = [node for node in own if drains.may_return_by_itself(node)]
    # Slurm's word ends with a registration, too, and its node has to stay out while it leaves.
    down += [node for node in records if drains.is_set_down(node) and not slurm_nodes.is_rebooting(node)]
    decided: list[Action] = [DrainDown(name) for name in dict.fromkeys(node.name for node in down)]
    if state.wanted > state.current:
        decided += _resized(state, state.wanted)
    # Another drain of ours, or the node's own, becomes one for the removal: the removal's deadline counts from there.
    decided += [Drain(node.name) for node in records if drains.may_be_drained(node, reasons.SCALE_IN)]
    decided += [RequeueJobs(node.name, limit[0] or 0) for node in records if slurm_nodes.is_overdue(node, *limit)]
    if gone := tuple(worker.name for worker in itertools.takewhile(lambda worker: worker.may_leave, leaving)):
        decided += _resized(state, state.current - len(gone), gone)
    return decided


def until(state: NodeSetState) -> str:
    """Return when the policy takes jobs from nodes that leave, as the end of a sentence; empty if it never does."""
    seconds = state.node_set.removal.deadline_seconds
    if seconds is None or isinstance(state.nodes, Unknown):
        return ""
    there = [worker.node for worker in state.leaving() if worker.node and worker.has_work]
    if there and not any(
        drains.may_be_drained(node, reasons.SCALE_IN) or drains.owner(node) is Owner.SCALE_IN for node in there
    ):
        return ""
    ends = [slurm_nodes.deadline(node, seconds, reasons.SCALE_IN) for node in there]
    known = sorted(end for end in ends if end)
    when = f"at {known[0]:%Y-%m-%d %H:%M:%S} UTC" if known else f"{seconds} s after the drain"
    return f", but {when} they are requeued, or ended if they may not be"


def actions_unseen(state: NodeSetState) -> list[SetReplicas]:
    """Return the resizes that need nothing of Slurm: more pods, or none where no pod runs."""
    nothing_runs = state.wanted == 0 and not any(pod.running for pod in state.pods.values())
    return _resized(state, state.wanted) if state.wanted > state.current or (state.current and nothing_runs) else []


def _resized(state: NodeSetState, size: int, gone: tuple[str, ...] = ()) -> list[SetReplicas]:
    """Set the size of the StatefulSet, if there is one."""
    workload = state.workload
    return [SetReplicas(workload.name, size, workload.replicas, workload.resource_version, gone)] if workload else []
