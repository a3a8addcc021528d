"""A node set as one pass sees it: its sizes and policies, and one record for each of its nodes, joined once."""

from __future__ import annotations

import dataclasses
import datetime
import functools
import re
from collections.abc import Iterable, Mapping

from slurm_operator import drains
from slurm_operator.decide.nodes import node_conditions, slurm_nodes
from slurm_operator.decide.nodes.node_conditions import Verdicts
from slurm_operator.decide.nodes.topology import Topologies
from slurm_operator.drains import Owner
from slurm_operator.state.kubernetes import K8sNode, K8sNodes, Pod, Workload
from slurm_operator.state.resources import NodeSet, Restart
from slurm_operator.state.slurm import NOT_ASKED, Facts, FullListing, Nodes, Reservation, SlurmJob, SlurmNode, Unknown

K8S_NODE_PATIENCE = datetime.timedelta(minutes=1)
"""Time in which the operator's watch may not know a new Kubernetes node on which a pod was scheduled."""
UNREGISTERED_PATIENCE = datetime.timedelta(minutes=5)
"""A running pod that has not registered by then may be removed. A younger one may be about to take its first job."""


@dataclasses.dataclass(frozen=True, slots=True)
class Worker:
    """One node: its pod, the Kubernetes node of that, and Slurm's record of it; None where there is no such thing.

    `node` is the record from the listing with which the pass began. `full` is the record from the full
    listing, and shows the jobs that were listed after it. `repair` is a noted repair that is not done.

    Attributes:
        is_there: its StatefulSet's size includes it.
        is_wanted: the node set's wanted size includes it.
        is_lost: its Kubernetes node was deleted, or is not ready and had its time to come back.
        is_outdated: its pod is of another template than its set's newest.
        is_free: its pod may be made anew. It is drained and idle, or never registered and will not.
        is_named: a job or a reservation names it, or nobody knows.
        is_awaited: the same without the jobs that are on it and the operator's own reservation.
        conditions: verdicts of its Kubernetes node's conditions.
    """

    name: str
    is_there: bool
    is_wanted: bool
    pod: Pod | None = None
    node: SlurmNode | None = None
    full: SlurmNode | None = None
    k8s_node: K8sNode | None = None
    repair: Restart | None = None
    is_lost: bool = False
    is_outdated: bool = False
    is_free: bool = False
    is_named: bool = True
    is_awaited: bool = True
    conditions: Verdicts = Verdicts()  # noqa: RUF009 - one instance for all: Verdicts is frozen

    @property
    def stays(self) -> bool:
        """True if the StatefulSet has a pod for it and the node set wants it."""
        return self.is_there and self.is_wanted

    @property
    def leaves(self) -> bool:
        """True if the StatefulSet has a pod for it and the node set no longer wants it."""
        return self.is_there and not self.is_wanted

    @property
    def is_up(self) -> bool:
        """True if its pod is ready and not terminating."""
        return self.pod is not None and self.pod.ready and not self.pod.terminating

    @property
    def is_evictable(self) -> bool:
        """True if its pod has the label with which Kubernetes' eviction API may evict it (SetEvictable)."""
        return self.pod is not None and self.pod.evictable

    @property
    def is_away(self) -> bool:
        """True if its Kubernetes node is lost, or not ready at this moment."""
        return self.is_lost or (self.k8s_node is not None and self.k8s_node.away_since is not None)

    @property
    def drain(self) -> Owner | None:
        """The owner of its drain; None if it carries none."""
        return drains.owner(self.node) if self.node else None

    @property
    def has_work(self) -> bool:
        """True if its record shows work."""
        return self.node is not None and slurm_nodes.has_work(self.node)

    @property
    def has_registered(self) -> bool:
        """True if its pod has registered, so that the record is not its predecessor's."""
        return self.node is not None and self.pod is not None and is_record_of(self.node, self.pod)

    @property
    def may_leave(self) -> bool:
        """True if it is free, and its drain is one that only the operator or a person lifts."""
        return self.is_free and all(map(slurm_nodes.may_leave, self.records))

    @property
    def fault(self) -> str:
        """The reason of its repair, as it was said first."""
        return drains.fault(self.node) if self.node else ""

    @property
    def uid(self) -> str:
        """The uid of its pod; empty if it has none."""
        return self.pod.uid if self.pod else ""

    @property
    def records(self) -> list[SlurmNode]:
        """Slurm's records of it: from the pass's listing and from the full listing, as far as it stands there."""
        return [node for node in (self.node, self.full) if node]

    @property
    def standing(self) -> slurm_nodes.Standing:
        """Its state as a wanted node."""
        return slurm_nodes.standing(self.node, pod_ready=self.is_up)


@dataclasses.dataclass(frozen=True)
class NodeSetState:
    """A node set with what there is of it in Kubernetes and in Slurm.

    Attributes:
        node_set: its resource; of one that is being deleted no node is wanted.
        workload: its StatefulSet, if there is one.
        k8s_nodes: those of its pods that exist; None if nobody knows.
        reservations: all of Slurm's; None if they were not looked at.
        nodes: the listing with which the pass began.
        jobs: those that may have processes or name nodes, as far as they are known, for words.
        full_listing: a full listing made after `nodes`; None if none was made.
        hold: why no pod may be restarted for an update; empty if it may.
        repairs_held: whether that holds up repairs, too; else pods of the current template are repaired.
        topologies: those that slurmctld runs with; None if nobody knows.
        first_checks: names of long checks that a new or repaired node passes before it takes jobs, in their order.
        asked_for: nodes of any set that somebody asked to be tested, and that have no job of a long check yet.
    """

    node_set: NodeSet
    workload: Workload | None
    pods: Mapping[str, Pod]
    now: datetime.datetime
    k8s_nodes: K8sNodes | None = None
    hold: str = ""
    repairs_held: bool = True
    reservations: tuple[Reservation, ...] | None = None
    nodes: Nodes | Unknown = NOT_ASKED
    jobs: tuple[SlurmJob, ...] | Unknown = NOT_ASKED
    full_listing: FullListing | None = None
    topologies: Topologies | None = None
    first_checks: tuple[str, ...] = ()
    asked_for: frozenset[str] = frozenset()

    @property
    def is_missing(self) -> bool:
        """True if it has no StatefulSet and should have one."""
        return self.workload is None and not self.node_set.deleting

    @property
    def stateful_set(self) -> str:
        """Its StatefulSet's name, with which names of nodes begin."""
        return self.node_set.stateful_set

    @property
    def current(self) -> int:
        """The StatefulSet's size."""
        return self.workload.replicas if self.workload else 0

    @property
    def wanted(self) -> int:
        """The wanted size; the current one where nobody has set it."""
        return self.current if self.node_set.replicas is None else self.node_set.replicas

    @property
    def revision(self) -> str:
        """The StatefulSet's newest template; empty while it is unknown."""
        return self.workload.revision if self.workload else ""

    @property
    def facts(self) -> Facts | None:
        """The size that the newest template declares for a node."""
        return self.workload.facts if self.workload else None

    def seen(
        self,
        nodes: Nodes | Unknown,
        full_listing: FullListing | None = None,
        jobs: tuple[SlurmJob, ...] | Unknown = NOT_ASKED,
    ) -> NodeSetState:
        """The same with what Slurm says; drains of others keep the words that the node set's status keeps."""
        kept = self.node_set.drains
        nodes = nodes if isinstance(nodes, Unknown) else drains.with_kept_words(nodes, kept)
        if full_listing and kept:
            full_listing = dataclasses.replace(full_listing, nodes=drains.with_kept_words(full_listing.nodes, kept))
        return dataclasses.replace(self, nodes=nodes, full_listing=full_listing, jobs=jobs)

    @functools.cached_property
    def workers(self) -> dict[str, Worker]:
        """All nodes by name, the lowest first; also those of which there is a record alone."""
        return {worker.name: worker for worker in _join(self)}

    def members(self) -> tuple[Worker, ...]:
        """Nodes that are there and stay."""
        return self._members

    @functools.cached_property
    def _members(self) -> tuple[Worker, ...]:
        return tuple(worker for worker in self.workers.values() if worker.stays)

    def leaving(self) -> list[Worker]:
        """Nodes that are there and no longer wanted, highest first."""
        return [worker for worker in reversed(self.workers.values()) if worker.leaves]

    def expected(self) -> list[Worker]:
        """Nodes that are wanted, there or not."""
        return [worker for worker in self.workers.values() if worker.is_wanted]

    def with_pods(self) -> list[Worker]:
        """Nodes that have a pod, wanted or not."""
        return [worker for worker in self.workers.values() if worker.pod]

    def with_restarts(self, restarts: Iterable[Restart]) -> NodeSetState:
        """The same with those repairs to remember."""
        noted = tuple(restarts)
        if noted == self.node_set.restarts:
            return self  # So that nodes are not joined again.
        return dataclasses.replace(self, node_set=dataclasses.replace(self.node_set, restarts=noted))

    def have_one_cause(self, failed: int, of: int) -> bool:
        """Return whether so many fail at once that the policy's breaker opens: they probably share a cause."""
        return failed > 1 and failed * 100 > self.node_set.reactions.breaker_percent * of


def is_record_of(node: SlurmNode, pod: Pod) -> bool:
    """Return whether a pod has registered, so that the record is not its predecessor's."""
    return pod.ready or (node.started is not None and pod.created is not None and node.started >= pod.created)


def _join(state: NodeSetState) -> list[Worker]:
    """Return a Worker for each node of the set: its pod, its record in Slurm and its Kubernetes node, lowest first."""
    nodes = {} if isinstance(state.nodes, Unknown) else state.nodes
    full_listing = state.full_listing
    busy = slurm_nodes.busy_nodes(full_listing.jobs) if full_listing else frozenset()
    full = slurm_nodes.marked(full_listing.nodes, busy) if full_listing else {}
    ordinals = _ordinals(state, {*state.pods, *nodes, *full})
    repairs = {repair.node: repair for repair in state.node_set.restarts}
    named = full_listing.named if full_listing else None
    workers = []
    for name in sorted(ordinals, key=lambda name: (ordinals[name], name)):
        pod, node, ordinal = state.pods.get(name), nodes.get(name), ordinals[name]
        k8s_node = (state.k8s_nodes or {}).get(pod.k8s_node) if pod else None
        worker = Worker(
            *(name, ordinal < state.current, ordinal < state.wanted, pod, node, full.get(name), k8s_node),
            repair=_repair(pod, repairs.get(name)),
            is_lost=pod is not None and _is_lost(state, pod, k8s_node),
            is_outdated=pod is not None and state.revision not in ("", pod.revision),
            is_named=named is None or name in named.by_any,
            is_awaited=named is None or name in named.awaited,
            conditions=node_conditions.judge(k8s_node, state.node_set.conditions),
        )
        workers.append(dataclasses.replace(worker, is_free=True) if _is_free(state, worker, busy) else worker)
    return workers


def _ordinals(state: NodeSetState, seen: Iterable[str]) -> dict[str, int]:
    """The ordinal of each node of the set, by name: of those within a size, and those of which anything was seen."""
    name = re.compile(re.escape(state.stateful_set) + r"-(0|[1-9]\d*)")
    matches = [name.fullmatch(name_seen) for name_seen in seen]
    ordinals = {match.group(): int(match.group(1)) for match in matches if match}
    return ordinals | {
        f"{state.stateful_set}-{ordinal}": ordinal for ordinal in range(max(state.wanted, state.current))
    }


def _repair(pod: Pod | None, noted: Restart | None) -> Restart | None:
    """The latest repair if it is not done: the pod is the one that was to end, or older than a note without it."""
    if pod is None or noted is None:
        return None
    if noted.uid:
        return noted if noted.uid == pod.uid else None
    return noted if pod.created is not None and pod.created <= noted.at else None


def _is_lost(state: NodeSetState, pod: Pod, k8s_node: K8sNode | None) -> bool:
    """Return whether a pod's Kubernetes node was deleted, or is not ready and had its time to come back."""
    if not pod.k8s_node or state.k8s_nodes is None:
        return False
    if k8s_node is None:
        return (pod.created or state.now) < state.now - K8S_NODE_PATIENCE
    patience = datetime.timedelta(seconds=state.node_set.reactions.after_seconds)
    return k8s_node.away_since is not None and state.now - k8s_node.away_since >= patience


def _is_free(state: NodeSetState, worker: Worker, busy: frozenset[str]) -> bool:
    """Return whether the pod may be made anew: it is drained and idle, or never registered and will not."""
    pod, full_listing = worker.pod, state.full_listing
    if full_listing is None or not (pod or worker.leaves):
        return False
    if worker.full:
        return worker.node is not None and drains.is_drained(worker.node) and slurm_nodes.may_restart(worker.full)
    if worker.node or (pod and pod.ready) or worker.name in busy:
        return False
    if pod is None or not pod.running:
        return True
    # Without a record only the listing of jobs tells that no job is there.
    return full_listing.complete and (pod.created or state.now) <= state.now - UNREGISTERED_PATIENCE
