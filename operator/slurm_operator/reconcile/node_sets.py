"""The part of a pass that concerns node sets: acts on them, lets deleted ones go, tells of them."""

from __future__ import annotations

import dataclasses
import datetime
import logging
import math
import time
from collections.abc import Callable, Iterable, Mapping

from contract import names
from slurm_operator import execute, metrics, report
from slurm_operator.actions import Action, RequeueJobs, SetReplicas
from slurm_operator.clients.job_listing import JobListing
from slurm_operator.clients.kubernetes import KubernetesApi, Object
from slurm_operator.clients.lease import Lease
from slurm_operator.clients.slurm_error import SlurmError
from slurm_operator.clients.slurmrestd import SlurmRest
from slurm_operator.decide import deletion, evidence, k8s_nodes, records, remediate, serving, status, update, window
from slurm_operator.decide import nodes as slurm_nodes
from slurm_operator.decide.node_set import Decision, decide
from slurm_operator.decide.workers import NodeSetState
from slurm_operator.findings import Finding, Findings, Severity
from slurm_operator.reasons import Reason
from slurm_operator.reconcile.reservations import Reservations
from slurm_operator.state import (
    NOT_ASKED,
    Evidence,
    Jobs,
    K8sNodes,
    Nodes,
    NodeSet,
    Pod,
    Running,
    SlurmJob,
    TooDeep,
    Unknown,
    Workload,
)

log = logging.getLogger(__name__)

ACTIONS_PER_PASS = 50
ACTIONS_SECONDS = 20.0
"""A pass stays short, however long a call takes: the next one goes on, and status is told in between."""

RECORDS_SECONDS = 10.0
"""Between looks whether a record may go that a job names, perhaps for days."""
WORDS_SECONDS = 20.0
"""Between looks at the jobs that nodes wait for, when they are for words alone."""


@dataclasses.dataclass(frozen=True, slots=True)
class Slurm:
    """What one pass knows of Slurm; `jobs` are those that may have processes."""

    nodes: Nodes | Unknown
    jobs: tuple[SlurmJob, ...] | Unknown = NOT_ASKED
    evidence: Evidence | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class Served:
    """What a pass has seen and done about node sets; `waits` says what those wait for that are being deleted."""

    slurm: Slurm
    by_set: Mapping[str, NodeSetState]
    waits: Mapping[str, Finding]
    problems: list[Finding]
    decisions: Mapping[str, Decision] = dataclasses.field(default_factory=dict)


class NodeSets:
    """The node sets of one namespace."""

    def __init__(
        self, api: KubernetesApi, lease: Lease, listing: JobListing, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._api = api
        self._clock = clock
        self._lease = lease
        self._listing = listing
        self.reservations = Reservations(api, lease, clock)
        self._told: dict[str, dict[tuple[Reason, str], Finding]] = {}
        self._looked = -math.inf
        self._counted = -math.inf
        self._partitions: frozenset[str] = frozenset()
        self._named: tuple[float, tuple[SlurmJob, ...] | Unknown] = (-math.inf, NOT_ASKED)

    async def serve(
        self,
        rest: SlurmRest,
        node_sets: Iterable[NodeSet],
        bodies: Mapping[str, Object],
        workloads: Mapping[str, Workload],
        pods: Mapping[str, Pod],
        *,
        running: Running | Unknown,
        cluster_stays: bool,
        hold: str = "",
        repairs_held: bool = True,
        known_k8s_nodes: K8sNodes | None = None,
    ) -> Served:
        """Do for node sets of one Slurm cluster what is to be done now.

        Args:
            rest: their cluster's slurmrestd.
            node_sets: the node sets.
            bodies: at least their resources, by name.
            workloads: the namespace's StatefulSets.
            pods: the cluster's pods.
            running: what slurmctld runs with.
            cluster_stays: whether their SlurmCluster is there.
            hold: why no pod may be restarted for an update; empty if it may.
            repairs_held: whether that holds up repairs, too; else pods of the current template are repaired.
            known_k8s_nodes: the Kubernetes nodes of the pods; None if nobody knows.
        """
        found = list(node_sets)
        now = datetime.datetime.now(datetime.UTC)
        sets = [
            NodeSetState(
                *(each, workloads.get(each.stateful_set), serving.pods_of(each, pods), now),
                k8s_nodes=known_k8s_nodes if each.stateful_set in workloads else None,
                hold=hold,
                repairs_held=repairs_held,
            )
            for each in found
        ]
        if cluster_stays:
            sets = await self.reservations.look(rest, sets)
        slurm = await self._look(rest, sets, running, jobs_told=any(each.deleting for each in found))
        sets = [state.seen(slurm.nodes, slurm.evidence, slurm.jobs) for state in sets]
        problems: list[Finding] = []
        waits: dict[str, Finding] = {}
        decisions: dict[str, Decision] = {}
        ends = self._clock() + ACTIONS_SECONDS
        for state in sets:
            each, body = state.node_set, bodies[state.node_set.name]
            if not each.deleting and each.finalizer_url != rest.url:
                adding = execute.add_finalizer(self._api, self._lease, body, rest.url)
                problems += await execute.attempt(self._api, body, "Guard", adding)
            if state.is_missing:
                continue
            if each.replicas is None and not problems:
                sizing = execute.write_size(self._api, self._lease, body, state.current)
                problems += await execute.attempt(self._api, body, "WriteSize", sizing)
            decided = decide(state)
            decisions[each.name] = decided
            problems += await self._move(rest, body, decided.moves, slurm.jobs, ends)
            if each.deleting and each.finalizer_url is not None:
                judged = deletion.judge(state, cluster_stays=cluster_stays)
                waiting = (
                    await self.remove_finalizer(body, judged)
                    if isinstance(judged, deletion.RemoveFinalizer)
                    else [judged]
                )
                if waiting and waiting[0].reason != execute.CONFLICT:
                    waits[each.name] = waiting[0]
        if cluster_stays and not isinstance(slurm.nodes, Unknown):
            await self._count_pending(rest, found)
        return Served(slurm, {state.node_set.name: state for state in sets}, waits, problems, decisions)

    async def remove_finalizer(self, body: Object, decided: deletion.RemoveFinalizer) -> list[Finding]:
        """Let a NodeSet go; returned is why it could not be."""
        removing = execute.remove_finalizer(self._api, self._lease, body, decided)
        failed = await execute.attempt(self._api, body, "Release", removing)
        if not failed:
            self._told.pop(body["metadata"]["name"], None)
            metrics.REPAIRS_HELD.clear()  # Those of the others come again with the next pass.
            metrics.WANTED.clear()
        return failed

    async def say(
        self,
        body: Object,
        node_set: NodeSet,
        workload: Workload | None,
        served: Served,
        refused: Findings,
    ) -> tuple[status.Counts, Findings]:
        """Write a NodeSet's status, and return what of it concerns the whole cluster.

        Args:
            body: its resource.
            node_set: what that declares.
            workload: its StatefulSet.
            served: what this pass has seen and done.
            refused: why it is not served; empty if it is.
        """
        nodes, waiting = served.slurm.nodes, served.waits.get(node_set.name)
        state = served.by_set.get(node_set.name)
        counts, found = status.node_set(state) if state else (status.Counts(node_set.replicas or 0), refused)
        state = None if state is None or state.is_missing else state
        decided = served.decisions.get(node_set.name, Decision([], node_set.updating))
        plan = decided.plan or remediate.Plan(restarts=node_set.restarts)
        held = [*plan.findings]
        found += [waiting] if waiting else []
        if state and not isinstance(nodes, Unknown):
            held = [*k8s_nodes.held(state), *held]
            found += window.findings(state, update.waiting_for_window(state))
            found += [*k8s_nodes.findings(state), *records.findings(state)]
        found[:0] = held  # What is asked of somebody comes before what he may know.
        own = Findings([*([dataclasses.replace(waiting, severity=Severity.BLOCKING)] if waiting else []), *found])
        if isinstance(nodes, Unknown):
            own.append(Finding(Reason(nodes.reason), nodes.message, Severity.UNKNOWN))
        labels = {names.LABEL_INSTANCE: node_set.cluster, names.LABEL_NODE_SET: node_set.name}
        fields: dict[str, object] = {
            "replicas": workload.created if workload else 0,
            "readyReplicas": counts.ready,
            "idle": counts.idle,
            "allocated": counts.allocated,
            "drained": counts.drained,
            "drainedByPeople": counts.by_people,
            "down": counts.down,
            "draining": counts.draining,
            "updated": None if state is None else update.updated(state),
            "updating": sorted(decided.updating) or None,
            "restarts": [report.restart(each) for each in plan.restarts] or None,
            "selector": ",".join(f"{key}={value}" for key, value in labels.items()),
        }
        ready = f"{counts.ready} of {counts.wanted} nodes take jobs"
        conditions = (*own.conditions(ready), status.scaled_outside(node_set))
        await report.write_status(self._api, self._lease, body, conditions, fields)
        if counts.allocated is not None:
            metrics.ALLOCATED_NODES.labels(node_set.name).set(counts.allocated)
        await self._tell(body, [waiting] if waiting else [], held)
        for action, number in update.queue(state).items() if state else ():
            metrics.WANTED.labels(node_set.name, action).set(number)
        return counts, found

    async def _tell(self, body: Object, waits: Iterable[Finding], held: list[Finding]) -> None:
        """Write an Event when something begins to wait or to be held, and count what is held now."""
        name, now = body["metadata"]["name"], {(each.reason, each.node): each for each in (*waits, *held)}
        before = self._told.get(name, {})
        self._told[name] = now
        for reason in {reason for reason, _ in before | now}:
            metrics.REPAIRS_HELD.labels(name, reason).set(sum(each.reason == reason for each in held))
        for key in now.keys() - before.keys():
            log.info("%s: %s", now[key].reason, now[key].message)
            await self._tell_one(body, now[key], now[key].message, warning=now[key] in held)
        for key in before.keys() - now.keys():
            await self._tell_one(body, before[key], f"over: {before[key].message}", warning=False)

    async def _tell_one(self, body: Object, what: Finding, message: str, *, warning: bool) -> None:
        subject = f"{what.reason}.{what.node}".rstrip(".")
        await report.standing_event(self._api, self._lease, body, subject, what.reason, message, warning=warning)

    async def _look(
        self,
        rest: SlurmRest,
        sets: Iterable[NodeSetState],
        running: Running | Unknown,
        *,
        jobs_told: bool,
    ) -> Slurm:
        """See Slurm: one listing of nodes, and more only if a decision hangs on it; what was seen of nodes stays."""
        try:
            nodes = await rest.nodes(full=False)
        except SlurmError as error:
            return Slurm(Unknown(error.reason, str(error)))
        due = self._clock() >= self._looked + RECORDS_SECONDS
        seen = [state.seen(nodes) for state in sets if not state.is_missing]
        if not any(evidence.is_needed(state, records_due=due) for state in seen):
            return Slurm(nodes, await self._for_words(rest, seen, at_once=jobs_told))
        try:
            full = await rest.nodes(full=True)
        except SlurmError as error:
            log.warning("no full listing of nodes, so that nothing is removed: %s", error)
            return Slurm(nodes, Unknown(error.reason, str(error)))
        # Jobs after nodes: none can slip between them.
        jobs = await self._listing.with_processes(rest)
        names_needed = any(map(records.needs_names, seen))
        named = await self._listing.named(rest) if names_needed else None
        self._looked = self._clock()
        memory = isinstance(running, Running) and running.counts_memory
        built = evidence.build(full, jobs, counts_memory=memory, named=named)
        return Slurm(nodes if built is None else evidence.seen_with(nodes, built), _known(jobs), built)

    async def _for_words(
        self, rest: SlurmRest, sets: Iterable[NodeSetState], *, at_once: bool
    ) -> tuple[SlurmJob, ...] | Unknown:
        """The jobs that nodes wait for, to be named; not looked at in each pass, unless that is wanted."""
        own = [each.node for state in sets for each in state.with_pods() if each.node]
        waits = any(map(slurm_nodes.is_draining, own))
        due = self._clock() >= self._named[0] + WORDS_SECONDS
        if at_once or (waits and due):
            self._named = (self._clock(), _known(await self._listing.with_processes(rest)))
        return self._named[1] if at_once or waits else NOT_ASKED

    async def _count_pending(self, rest: SlurmRest, node_sets: Iterable[NodeSet]) -> None:
        """Tell autoscalers how many nodes waiting jobs ask for; nobody else needs to know."""
        due = self._clock() >= self._counted + WORDS_SECONDS
        if not due or all(each.declared is not None for each in node_sets):
            return
        self._counted = self._clock()
        found = await self._listing.pending(rest)
        if found is None:
            metrics.PENDING_NODES.clear()  # Nobody knows, which is not 0.
            return
        self._partitions |= found.keys()
        for partition in self._partitions:
            metrics.PENDING_NODES.labels(partition).set(found.get(partition, 0))

    async def _move(
        self, rest: SlurmRest, body: Object, moves: list[Action], jobs: tuple[SlurmJob, ...] | Unknown, ends: float
    ) -> list[Finding]:
        """Carry moves out until `ends`, by our clock; returned is what failed."""
        problems: list[Finding] = []
        if any(isinstance(each, RequeueJobs) for each in moves):
            jobs = _known(await self._listing.with_processes(rest))
        for done, decided in enumerate(moves):
            # Refusals cost little and may last: they take no other move's place.
            if done - len(problems) >= ACTIONS_PER_PASS or self._clock() >= ends:
                break
            failed = await execute.carry_out(self._api, rest, self._lease, body, decided, jobs)
            problems += failed
            if any(each.reason != execute.REFUSED for each in failed):
                break  # Nobody answers, which costs a deadline each, or this set is not as it was seen.
            if not failed and isinstance(decided, SetReplicas):
                direction = "out" if decided.replicas > decided.was else "in"
                metrics.REPLICA_MOVES.labels(direction).inc(abs(decided.replicas - decided.was))
        return problems


def _known(jobs: Jobs | Unknown) -> tuple[SlurmJob, ...] | Unknown:
    """Jobs as far as they are all there; what lacks some names none."""
    if isinstance(jobs, Unknown) or jobs.complete:
        return jobs if isinstance(jobs, Unknown) else jobs.jobs
    return TooDeep("TooManyJobs", "too many jobs run to look at each")
