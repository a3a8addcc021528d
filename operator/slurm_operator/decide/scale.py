"""How many pods a node set has: out at once, in only when the highest nodes are drained and strictly idle.

The rules stand in the order that spares jobs. A removal needs a listing that shows the drain. In the same pass it then
needs full listings of nodes and jobs (the evidence). Without them nothing is lowered. Nothing is remembered: a
restarted operator decides the same from what it sees.
"""

from __future__ import annotations

import dataclasses
import datetime
import re
from collections.abc import Mapping

from contract import reasons
from contract.policies import ReactionPolicy
from slurm_operator import drains
from slurm_operator.actions import Action, Drain, DrainDown, RequeueJobs, SetReplicas, Undrain
from slurm_operator.decide import nodes as slurm_nodes
from slurm_operator.drains import Owner
from slurm_operator.state import (
    Evidence,
    Facts,
    K8sNode,
    K8sNodes,
    Nodes,
    Pod,
    RemovalPolicy,
    Restart,
    SlurmNode,
    Unknown,
    UpdatePolicy,
)

K8S_NODE_PATIENCE = datetime.timedelta(minutes=1)
"""A new machine may be unknown to our watch for a moment after a pod was given to it."""
READINESS_PATIENCE = datetime.timedelta(minutes=1)
"""A pod that has just found itself unfit is Ready to Kubernetes for a moment more."""
UNREGISTERED_PATIENCE = datetime.timedelta(minutes=5)
"""A running pod that never registers may be removed after this; younger, it may be about to take its first job."""


@dataclasses.dataclass(frozen=True, slots=True)
class NodeSetState:
    """A node set's wanted size, its StatefulSet's size and newest template, and the pods that there are.

    `machines` are those of its pods that exist; None if nobody knows. `ending`: the set is being deleted. `facts`: the
    size that its newest template declares for a node. `updating`: nodes that an update was seen to have taken and that
    did not work since.
    """

    stateful_set: str
    wanted: int
    current: int
    resource_version: str
    pods: Mapping[str, Pod]
    now: datetime.datetime
    revision: str = ""
    removal: RemovalPolicy = dataclasses.field(default_factory=RemovalPolicy)
    update: UpdatePolicy = dataclasses.field(default_factory=UpdatePolicy)
    reactions: ReactionPolicy = dataclasses.field(default_factory=ReactionPolicy)
    restarts: tuple[Restart, ...] = ()
    updating: frozenset[str] = frozenset()
    approved: frozenset[str] = frozenset()
    k8s_nodes: K8sNodes | None = None
    ending: bool = False
    facts: Facts | None = None

    def under_repair(self) -> dict[str, Restart]:
        """Nodes whose latest restart was noted and is not done: their pods are older than the note."""
        noted = {each.node: each for each in self.restarts}
        there = {name: self.pods[name].created for name in noted if name in self.pods}
        return {name: noted[name] for name, made in there.items() if made is not None and made <= noted[name].at}

    def is_repaired(self, node: SlurmNode) -> bool:
        """Whether a node's drain for a repair has no more cause: its pod is new, or nobody repairs it any more."""
        if node.name in self.under_repair():
            return False
        made_anew = any(each.node == node.name for each in self.restarts)
        return made_anew or (node.reason_set or self.now) <= self.now - READINESS_PATIENCE

    def k8s_node(self, name: str) -> K8sNode | None:
        """The Kubernetes node of a pod, None if it is unknown or gone."""
        return (self.k8s_nodes or {}).get(self.pods[name].k8s_node)

    def is_lost(self, name: str) -> bool:
        """Whether a pod's machine was deleted, or is not ready and had its time to come back."""
        pod, k8s_node = self.pods.get(name), self.k8s_node(name) if name in self.pods else None
        if pod is None or not pod.k8s_node or self.k8s_nodes is None:
            return False
        if k8s_node is None:
            return (pod.created or self.now) < self.now - K8S_NODE_PATIENCE
        patience = datetime.timedelta(seconds=self.reactions.after_seconds)
        return k8s_node.away_since is not None and self.now - k8s_node.away_since >= patience

    def have_one_cause(self, failed: int, of: int) -> bool:
        """Whether so many fail together that the policy's breaker opens: what they share is to be looked for."""
        return failed > 1 and failed * 100 > self.reactions.breaker_percent * of

    def node(self, ordinal: int) -> str:
        """Name of a pod, which is the name of its Slurm node."""
        return f"{self.stateful_set}-{ordinal}"

    def members(self) -> list[str]:
        """Nodes that are there and stay."""
        return [self.node(ordinal) for ordinal in range(min(self.wanted, self.current))]

    def leaving(self) -> list[str]:
        """Nodes that are there and no longer wanted, highest first."""
        return [self.node(ordinal) for ordinal in range(self.current - 1, self.wanted - 1, -1)]

    def orphaned_records(self, nodes: Nodes) -> list[str]:
        """Records of no more use: of nodes above any size, current or wanted, whose pods are gone."""
        pattern = re.compile(re.escape(self.stateful_set) + r"-(0|[1-9]\d*)")
        keep = max(self.current, self.wanted)
        found = [(name, pattern.fullmatch(name)) for name in nodes if name not in self.pods]
        above = [name for name, match in found if match and int(match.group(1)) >= keep]
        return sorted(name for name in above if self._is_left_over(nodes[name]))

    def _is_left_over(self, record: SlurmNode) -> bool:
        """Whether a record is of no more use; one that serves came from elsewhere, and a person's word is kept."""
        if "EXTERNAL" in record.states or not (drains.is_drained(record) or "DOWN" in record.states):
            return False
        return self.ending or not drains.is_anothers(record)


def needs_evidence(state: NodeSetState, nodes: Nodes) -> bool:
    """Whether full listings could lead to a removal; spares them while the first node to go is plainly at work."""
    leaving = state.leaving()
    return bool(leaving) and (leaving[0] not in nodes or slurm_nodes.looks_idle(nodes[leaving[0]]))


def moves(state: NodeSetState, nodes: Nodes, evidence: Evidence | None) -> list[Action]:
    """What to do about one node set now.

    Args:
        state: the sizes and pods of the node set.
        nodes: the listing with which this pass began.
        evidence: full listings of nodes and jobs made after `nodes`; None if none were made.
    """
    found: list[Action] = [give_back(name, state.pods[name]) for name in to_give_back(state, nodes)]
    own = [nodes[name] for name in {*state.pods, *state.members(), *state.leaving()} if name in nodes]
    found += [DrainDown(node.name) for node in own if drains.may_return_by_itself(node)]
    if state.wanted > state.current:
        found.append(SetReplicas(state.stateful_set, state.wanted, state.current, state.resource_version))
    limit = (state.removal.deadline_seconds, state.now, reasons.SCALE_IN)
    leaving = [nodes[name] for name in state.leaving() if name in nodes]
    # A drain of ours, or the node's own, is made one for the removal, whose deadline counts from there.
    found += [Drain(node.name) for node in leaving if drains.may_be_drained(node, reasons.SCALE_IN)]
    found += [RequeueJobs(node.name, limit[0] or 0) for node in leaving if slurm_nodes.is_overdue(node, *limit)]
    if evidence is None:
        return found
    size, going = state.current, safe_to_remove(state, nodes, evidence)
    while size > state.wanted and state.node(size - 1) in going:
        size -= 1
    if size < state.current:
        gone = tuple(state.leaving()[: state.current - size])
        found.append(SetReplicas(state.stateful_set, size, state.current, state.resource_version, gone))
    return found


def until(state: NodeSetState, nodes: Nodes | Unknown) -> str:
    """When the policy takes jobs from nodes that leave, as the end of a sentence; empty if it never does."""
    seconds = state.removal.deadline_seconds
    if seconds is None or isinstance(nodes, Unknown):
        return ""
    there = [nodes[name] for name in state.leaving() if name in nodes and slurm_nodes.has_work(nodes[name])]
    if there and not any(
        drains.may_be_drained(node, reasons.SCALE_IN) or drains.owner(node) is Owner.SCALE_IN for node in there
    ):
        return ""
    ends = [slurm_nodes.deadline(node, seconds, reasons.SCALE_IN) for node in there]
    known = sorted(end for end in ends if end)
    when = f"at {known[0]:%Y-%m-%d %H:%M:%S} UTC" if known else f"{seconds} s after the drain"
    return f", but {when} they are requeued, or ended if they may not be"


def actions_unseen(state: NodeSetState) -> list[Action]:
    """What to do while Slurm cannot be seen: more pods need nothing of it, and a set of which no pod runs is idle."""
    nothing_runs = state.wanted == 0 and not any(pod.running for pod in state.pods.values())
    if state.wanted > state.current or (state.current and nothing_runs):
        return [SetReplicas(state.stateful_set, state.wanted, state.current, state.resource_version)]
    return []


def to_give_back(state: NodeSetState, nodes: Nodes) -> list[str]:
    """Nodes that stay after all, and new ones that work; a pod that ends must not serve while it is removed."""
    there = [name for name in state.members() if name in nodes and name in state.pods]
    return [name for name in there if not state.pods[name].terminating and _may_be_given_back(state, nodes[name])]


def _may_be_given_back(state: NodeSetState, node: SlurmNode) -> bool:
    pod = state.pods[node.name]
    if drains.is_new(node):
        return pod.ready  # A trial of its jail went well.
    repaired = drains.is_repair(node) and state.is_repaired(node)
    return (repaired or drains.owner(node) is Owner.SCALE_IN) and is_record_of(node, pod)


def give_back(name: str, pod: Pod) -> Undrain | Drain:
    """End a drain of ours; a node that is not seen to work is as a new one, which replaces that by what it lacks."""
    return Undrain(name) if pod.ready else Drain(name, reasons.NEW)


def is_record_of(node: SlurmNode, pod: Pod) -> bool:
    """Whether a pod has registered, and the record is not its predecessor's."""
    return pod.ready or (node.started is not None and pod.created is not None and node.started >= pod.created)


def safe_to_remove(state: NodeSetState, nodes: Nodes, evidence: Evidence | None) -> frozenset[str]:
    """Free nodes that nobody but a person brings back to work before they are gone."""
    listings = (nodes, evidence.nodes) if evidence else ()
    going = safe_to_delete(state, nodes, evidence)
    return frozenset(
        name for name in going if all(slurm_nodes.may_leave(listing[name]) for listing in listings if name in listing)
    )


def safe_to_delete(state: NodeSetState, nodes: Nodes, evidence: Evidence | None) -> frozenset[str]:
    """Nodes whose pods may be made anew: drained and idle, or registered nowhere and to stay so; none unseen."""
    if evidence is None:
        return frozenset()
    busy = slurm_nodes.busy_nodes(evidence.jobs)
    return frozenset(
        name for name in {*state.pods, *state.leaving()} if _is_safe_to_delete(state, name, nodes, evidence, busy)
    )


def _is_safe_to_delete(state: NodeSetState, name: str, nodes: Nodes, evidence: Evidence, busy: frozenset[str]) -> bool:
    record = evidence.nodes.get(name)
    if record is not None:
        was_drained = name in nodes and drains.is_drained(nodes[name])
        return was_drained and slurm_nodes.may_restart(record) and name not in busy
    pod = state.pods.get(name)
    if name in busy or name in nodes or (pod is not None and pod.ready):
        return False
    if pod is None or not pod.running:
        return True
    # Without a record only jobs themselves tell that none of them is there.
    return evidence.complete and (pod.created or state.now) <= state.now - UNREGISTERED_PATIENCE
