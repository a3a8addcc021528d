"""The part of a pass that concerns node sets: acts on them, lets deleted ones go, tells of them."""

from __future__ import annotations

import dataclasses
import logging
import time
from collections.abc import Callable, Iterable, Mapping, Sequence

from contract import names
from slurm_operator import execute, metrics, report
from slurm_operator.actions import RequeueJobs, SetReplicas
from slurm_operator.clients.job_listing import JobListing
from slurm_operator.clients.kubernetes import Object
from slurm_operator.clients.slurmrestd import SlurmRest
from slurm_operator.decide.cluster import status
from slurm_operator.decide.node_sets import deletion, k8s_nodes, node_set, records, update, window
from slurm_operator.decide.node_sets.node_set import Decision
from slurm_operator.decide.nodes.workers import NodeSetState
from slurm_operator.execute import Executor
from slurm_operator.findings import Finding, Findings, Severity
from slurm_operator.reasons import Reason
from slurm_operator.reconcile.reservations import Reservations
from slurm_operator.reconcile.slurm_look import SlurmLook, known
from slurm_operator.state import Nodes, Running, Unknown

log = logging.getLogger(__name__)

ACTIONS_PER_PASS = 50
ACTIONS_SECONDS = 20.0
"""A pass stays short, however long a call takes: the next one goes on, and status is told in between."""


@dataclasses.dataclass(frozen=True, slots=True)
class ServedSet:
    """One node set in a pass: what was seen of it, what was decided, and what its deletion waits for if it goes."""

    state: NodeSetState
    decision: Decision
    waiting: Finding | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class Served:
    """The state of node sets in a pass and what it did about them, by name."""

    nodes: Nodes | Unknown
    sets: Mapping[str, ServedSet]
    problems: list[Finding]


class NodeSets:
    """The node sets of one namespace."""

    def __init__(self, executor: Executor, listing: JobListing, clock: Callable[[], float] = time.monotonic) -> None:
        self._executor = executor
        self._clock = clock
        self._listing = listing
        self._slurm = SlurmLook(listing, clock)
        self.reservations = Reservations(executor, clock)
        self._told: dict[str, dict[tuple[Reason, str], Finding]] = {}

    async def serve(
        self,
        rest: SlurmRest,
        sets: Sequence[NodeSetState],
        bodies: Mapping[str, Object],
        *,
        running: Running | Unknown,
        cluster_stays: bool,
    ) -> Served:
        """Do for node sets of one Slurm cluster what is to be done now.

        Args:
            rest: their cluster's slurmrestd.
            sets: the node sets as Kubernetes has them.
            bodies: at least their resources, by name.
            running: what slurmctld runs with.
            cluster_stays: whether their SlurmCluster is there.
        """
        if cluster_stays:
            sets = await self.reservations.look(rest, sets)
        deleting = any(each.node_set.deleting for each in sets)
        slurm = await self._slurm.look(rest, sets, running, jobs_told=deleting)
        problems: list[Finding] = []
        served = {}
        ends = self._clock() + ACTIONS_SECONDS
        for each in sets:
            state, name = each.seen(slurm.nodes, slurm.full_listing, slurm.jobs), each.node_set.name
            served[name] = await self._act(rest, state, bodies[name], problems, ends, cluster_stays=cluster_stays)
        if cluster_stays and not isinstance(slurm.nodes, Unknown):
            await self._slurm.count_pending(rest, (each.node_set for each in sets))
        return Served(slurm.nodes, served, problems)

    async def _act(
        self,
        rest: SlurmRest,
        state: NodeSetState,
        body: Object,
        problems: list[Finding],
        ends: float,
        *,
        cluster_stays: bool,
    ) -> ServedSet:
        """Decide about one node set and act until `ends`, by our clock; what fails is added to `problems`."""
        wanted = state.node_set
        if not wanted.deleting and wanted.finalizer_url != rest.url:
            adding = self._executor.add_finalizer(body, rest.url)
            problems += await self._executor.attempt(body, "Guard", adding)
        if state.is_missing:
            return ServedSet(state, node_set.unchanged(wanted))
        if wanted.replicas is None and not problems:
            sizing = self._executor.write_size(body, state.current)
            problems += await self._executor.attempt(body, "WriteSize", sizing)
        decision = node_set.decide(state)
        problems += await self._move(rest, body, state, decision, ends)
        if not wanted.deleting or wanted.finalizer_url is None:
            return ServedSet(state, decision)
        judged = deletion.judge(state, cluster_stays=cluster_stays)
        if isinstance(judged, Finding):
            return ServedSet(state, decision, judged)
        failed = [each for each in await self.remove_finalizer(body, judged) if each.reason != execute.CONFLICT]
        return ServedSet(state, decision, failed[0] if failed else None)

    async def remove_finalizer(self, body: Object, decided: deletion.RemoveFinalizer) -> list[Finding]:
        """Let a NodeSet go; returned is why it could not be."""
        removing = self._executor.remove_finalizer(body, decided)
        failed = await self._executor.attempt(body, "Release", removing)
        if not failed:
            self._told.pop(body["metadata"]["name"], None)
            metrics.REPAIRS_HELD.clear()  # Those of the others come again with the next pass.
            metrics.WANTED.clear()
        return failed

    async def say(
        self, body: Object, served: ServedSet, refused: Findings | None = None
    ) -> tuple[status.Counts, Findings]:
        """Write a NodeSet's status, and return what of it concerns the whole cluster; `refused`: it is not served."""
        state, waiting, decision = served.state, served.waiting, served.decision
        wanted, nodes, is_judged = state.node_set, state.nodes, not refused and not state.is_missing
        counts, found = (status.Counts(wanted.replicas or 0), refused) if refused else status.node_set(state)
        held = [*decision.plan.findings]
        found += [waiting] if waiting else []
        if is_judged and not isinstance(nodes, Unknown):
            held = [*k8s_nodes.held(state), *held]
            found += window.findings(state, update.waiting_for_window(state))
            found += [*k8s_nodes.findings(state), *records.findings(state)]
        found[:0] = held  # What is asked of somebody comes before what he may know.
        own = Findings([*([dataclasses.replace(waiting, severity=Severity.BLOCKING)] if waiting else []), *found])
        if isinstance(nodes, Unknown):
            own.append(Finding(Reason(nodes.reason), nodes.message, Severity.UNKNOWN))
        labels = {names.LABEL_INSTANCE: wanted.cluster, names.LABEL_NODE_SET: wanted.name}
        fields: dict[str, object] = {
            "replicas": state.workload.created if state.workload else 0,
            "readyReplicas": counts.ready,
            "idle": counts.idle,
            "allocated": counts.allocated,
            "drained": counts.drained,
            "drainedByPeople": counts.by_people,
            "down": counts.down,
            "draining": counts.draining,
            "updated": update.updated(state) if is_judged else None,
            "updating": sorted(decision.updating) or None,
            "restarts": [report.restart(each) for each in decision.plan.restarts] or None,
            "selector": ",".join(f"{key}={value}" for key, value in labels.items()),
        }
        ready = f"{counts.ready} of {counts.wanted} nodes take jobs"
        conditions = (*own.conditions(ready), status.scaled_outside(wanted))
        await self._executor.report.write_status(body, conditions, fields)
        if counts.allocated is not None:
            metrics.ALLOCATED_NODES.labels(wanted.name).set(counts.allocated)
        await self._tell(body, [waiting] if waiting else [], held)
        for action, number in update.queue(state).items() if is_judged else ():
            metrics.WANTED.labels(wanted.name, action).set(number)
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
        await self._executor.report.standing_event(body, subject, what.reason, message, warning=warning)

    async def _move(
        self, rest: SlurmRest, body: Object, state: NodeSetState, decision: Decision, ends: float
    ) -> list[Finding]:
        """Execute actions until `ends`, by our clock, and return the failures."""
        problems: list[Finding] = []
        jobs = state.jobs
        if any(isinstance(each, RequeueJobs) for each in decision.actions):
            jobs = known(await self._listing.with_processes(rest))
        for done, decided in enumerate(decision.actions):
            # Refusals cost little and may last: they take no other action's place.
            if done - len(problems) >= ACTIONS_PER_PASS or self._clock() >= ends:
                break
            failed = await self._executor.execute(rest, body, decided, jobs)
            problems += failed
            if any(each.reason != execute.REFUSED for each in failed):
                break  # Nobody answers, which costs a deadline each, or this set is not as it was seen.
            if not failed and isinstance(decided, SetReplicas):
                direction = "out" if decided.replicas > decided.was else "in"
                metrics.REPLICA_MOVES.labels(direction).inc(abs(decided.replicas - decided.was))
        return problems
