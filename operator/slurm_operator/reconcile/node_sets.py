"""The part of a pass that concerns node sets: it executes actions, ends deletions and writes statuses."""

from __future__ import annotations

import dataclasses
import logging
import math
import time
from collections.abc import Callable, Iterable, Mapping, Sequence

from contract import names
from contract.conditions import Reason
from slurm_operator import execute, metrics, report
from slurm_operator.actions import Action, RequeueJobs, SetReplicas, is_update_of
from slurm_operator.clients.kubernetes import Object
from slurm_operator.clients.slurm.job_listing import JobListing
from slurm_operator.clients.slurm.slurmrestd import SlurmRest
from slurm_operator.decide.cluster import status
from slurm_operator.decide.node_sets import deletion, k8s_nodes, node_set, records, remediate, update, window
from slurm_operator.decide.node_sets.node_set import Decision
from slurm_operator.decide.nodes.workers import NodeSetState
from slurm_operator.execute import Executor
from slurm_operator.findings import Condition, Finding, Findings, Severity, of_defects
from slurm_operator.parse.resources import parse_node_set
from slurm_operator.reconcile.defects import Defects
from slurm_operator.reconcile.pass_budget import LOOKED_AFTER_SECONDS, PassBudget
from slurm_operator.reconcile.reservations import Reservations
from slurm_operator.reconcile.slurm_look import SlurmLook, known
from slurm_operator.state.resources import NodeSet
from slurm_operator.state.slurm import Nodes, Running, SlurmJob, Unknown

log = logging.getLogger(__name__)

ACTIONS_PER_PASS = 50
"""Actions of a node set that one pass executes, so that it stays short. The next pass goes on."""
UNTOLD_SECONDS = 30.0
"""Until a status that got no answer, which costs a deadline, is written again."""


@dataclasses.dataclass(frozen=True, slots=True)
class ServedSet:
    """One node set in a pass: what was seen of it, what was decided, and what its deletion waits for if it goes.

    `released`: how to let it go, which nothing forbids any more.
    """

    state: NodeSetState
    decision: Decision
    waiting: Finding | None = None
    released: deletion.RemoveFinalizer | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class Served:
    """The state of node sets in a pass and the decisions about them, by name; `problems` are failed writes."""

    nodes: Nodes | Unknown
    sets: Mapping[str, ServedSet]
    problems: list[Finding]


class NodeSets:
    """The node sets of one namespace."""

    def __init__(
        self, executor: Executor, listing: JobListing, defects: Defects, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._executor = executor
        self._clock = clock
        self._listing = listing
        self._defects = defects
        self._slurm = SlurmLook(listing, defects, clock)
        self.reservations = Reservations(executor, defects, clock)
        self._told: dict[str, dict[tuple[Reason, str], Finding]] = {}
        self._kept: dict[str, Finding] = {}
        """The finding that kept a node set from its deletion in the pass before."""
        self._last = ""
        self._untold: dict[str, tuple[float, list[Finding]]] = {}
        """Node sets whose status could not be written: when it is tried again, and why."""

    async def read(self, bodies: Mapping[str, Object]) -> tuple[NodeSet, ...]:
        """Read the NodeSets; one that can't be read is left alone and told, and nobody knows if jobs can run."""
        node_sets = list[NodeSet]()
        for name, body in sorted(bodies.items()):
            part = f"reading of node set {name}"
            with self._defects.isolated(part, Severity.WRONG | Severity.UNKNOWN):
                node_sets.append(parse_node_set(body))
            if defects := self._defects.of(part):
                await self._executor.tell_defects(body, defects)
        return tuple(node_sets)

    async def look(
        self,
        rest: SlurmRest,
        sets: Sequence[NodeSetState],
        bodies: Mapping[str, Object],
        budget: PassBudget,
        *,
        running: Running | Unknown,
        cluster_stays: bool,
    ) -> Served:
        """See the nodes of one Slurm cluster's node sets, and decide what is to be done now.

        Args:
            rest: their cluster's slurmrestd.
            sets: the node sets as Kubernetes has them.
            bodies: at least their resources, by name.
            budget: the time of this pass.
            running: what slurmctld runs with.
            cluster_stays: whether their SlurmCluster is there.
        """
        problems: list[Finding] = []
        for state in sets:
            problems += await self._write_resource(rest, state, bodies[state.node_set.name])
        if cluster_stays:
            sets = await self.reservations.look(rest, sets)
        deleting = any(state.node_set.deleting for state in sets)
        slurm = await self._slurm.look(rest, sets, running, budget, jobs_told=deleting)
        seen = (state.seen(slurm.nodes, slurm.full_listing, slurm.jobs) for state in sets)
        served = {state.node_set.name: self._decided(state, cluster_stays=cluster_stays) for state in seen}
        return Served(slurm.nodes, served, problems)

    async def act(
        self, rest: SlurmRest, served: Served, bodies: Mapping[str, Object], budget: PassBudget
    ) -> list[Finding]:
        """Execute the decisions, as far as the pass's time allows, and return the failures.

        A pass begins behind the node set with which the one before ended: slow changes of one hold up no other.
        """
        problems, jobs, ends = [], await self._jobs_to_lose(rest, served, budget), budget.ends()
        after = [name for name in served.sets if name > self._last]
        for name in [*after, *(name for name in served.sets if name not in after)]:
            if budget.is_over(ends):
                break
            self._last, node_set = name, served.sets[name]
            if self._defects.of(_status_of(name)):
                continue  # It could not remember what is done.
            with self._defects.isolated(f"actions of node set {name}"):
                problems += await self._execute(rest, bodies[name], node_set, jobs, ends)
            self._kept.pop(name, None)
            if node_set.released:
                for failed in await self.remove_finalizer(bodies[name], node_set.released):
                    if failed.reason != execute.CONFLICT:
                        self._kept[name] = failed
        return problems

    async def count_pending(self, rest: SlurmRest, served: Served, budget: PassBudget) -> None:
        """Tell autoscalers how many nodes waiting jobs ask for, unless the pass is late or sees no nodes."""
        if isinstance(served.nodes, Unknown):
            self._slurm.forget_pending()
            return
        await self._slurm.count_pending(rest, (node_set.state.node_set for node_set in served.sets.values()), budget)

    async def _write_resource(self, rest: SlurmRest, state: NodeSetState, body: Object) -> list[Finding]:
        """Set the finalizer on a NodeSet, or else its size if it has none; return the failures."""
        wanted = state.node_set
        if not wanted.deleting and wanted.finalizer_url != rest.url:
            adding = self._executor.node_sets.add_finalizer(body, rest.url)
            return await self._executor.attempt(body, "AddFinalizer", adding)
        if wanted.replicas is None and not state.is_missing:
            sizing = self._executor.node_sets.write_size(body, state.current)
            return await self._executor.attempt(body, "WriteSize", sizing)
        return []

    def _decided(self, state: NodeSetState, *, cluster_stays: bool) -> ServedSet:
        wanted = state.node_set
        if state.is_missing:
            return ServedSet(state, node_set.unchanged(wanted))
        decision = node_set.decide(state)
        self._defects.log(f"node set {wanted.name}", decision.defects)
        if not wanted.deleting or wanted.finalizer_url is None:
            return ServedSet(state, decision)
        judged: deletion.RemoveFinalizer | Finding | None = None
        with self._defects.isolated(f"deletion of node set {wanted.name}"):
            judged = deletion.judge(state, cluster_stays=cluster_stays)
        if judged is None:
            return ServedSet(state, decision)
        if isinstance(judged, Finding):
            return ServedSet(state, decision, judged)
        return ServedSet(state, decision, self._kept.get(wanted.name), judged)

    async def remove_finalizer(self, body: Object, decided: deletion.RemoveFinalizer) -> list[Finding]:
        """Let a NodeSet go; return why that failed."""
        removing = self._executor.node_sets.remove_finalizer(body, decided)
        failed = await self._executor.attempt(body, "RemoveFinalizer", removing)
        if not failed:
            self._forget(body["metadata"]["name"])
        return failed

    def forget_gone(self, there: Iterable[str]) -> None:
        """Forget the node sets that are gone, whoever let them go; `there` are the names of those that are not."""
        for name in self._told.keys() - set(there):
            self._forget(name)

    def _forget(self, name: str) -> None:
        self._told.pop(name, None)
        self._untold.pop(name, None)
        metrics.forget_node_set(name)

    async def say(
        self, body: Object, served: ServedSet, refused: Findings | None = None
    ) -> tuple[status.Counts, Findings] | None:
        """Write a NodeSet's status, and return what of it concerns the whole cluster; `refused`: it is not served.

        With a defect nothing is returned, and nobody knows if jobs can run.
        """
        with self._defects.isolated(_status_of(served.state.node_set.name), Severity.WRONG | Severity.UNKNOWN):
            return await self._say(body, served, refused)
        return None

    async def _say(self, body: Object, served: ServedSet, refused: Findings | None) -> tuple[status.Counts, Findings]:
        state, waiting, decision = served.state, served.waiting, served.decision
        wanted, nodes, is_judged = state.node_set, state.nodes, not refused and not state.is_missing
        counts, findings = (status.Counts(wanted.replicas or 0), refused) if refused else status.node_set(state)
        held = [*decision.plan.findings]
        findings += [waiting] if waiting else []
        findings += of_defects(decision.defects, f" of node set {wanted.name}")
        if is_judged and not isinstance(nodes, Unknown):
            held = [*k8s_nodes.held(state), *held]
            findings += window.findings(state, update.waiting_for_window(state))
            repairs = remediate.findings(node_set.repairable(state))
            findings += [*k8s_nodes.findings(state), *repairs, *records.findings(state)]
        findings[:0] = held  # What is asked of somebody comes before what he may know.
        own = Findings([*([dataclasses.replace(waiting, severity=Severity.BLOCKING)] if waiting else []), *findings])
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
            "drainsOfOthers": [dataclasses.asdict(kept) for kept in decision.drains] or None,
            "restarts": [report.restart(repair) for repair in decision.plan.restarts] or None,
            "selector": ",".join(f"{key}={value}" for key, value in labels.items()),
        }
        ready = f"{counts.ready} of {counts.wanted} nodes take jobs"
        conditions = (*own.conditions(ready), status.scaled_outside(wanted))
        failed = await self._write_status(body, conditions, fields)
        if counts.allocated is None:
            metrics.ALLOCATED_NODES.remove(wanted.name)
        else:
            metrics.ALLOCATED_NODES.labels(wanted.name).set(counts.allocated)
        await self._tell(body, [waiting] if waiting else [], held)
        for action, number in update.queue(state).items() if is_judged else ():
            metrics.WANTED.labels(wanted.name, action).set(number)
        return counts, Findings([*findings, *failed])

    async def _write_status(
        self, body: Object, conditions: tuple[Condition, ...], fields: dict[str, object]
    ) -> list[Finding]:
        """Write a NodeSet's status and return why that failed; nothing else waits for it."""
        name = body["metadata"]["name"]
        again, failed = self._untold.pop(name, (-math.inf, []))
        if self._clock() >= again:
            failed = await self._executor.tell(body, conditions, fields)
            no_answer = any(problem.reason == Reason.ACTION_FAILED for problem in failed)
            again = self._clock() + (UNTOLD_SECONDS if no_answer else 0)
        if failed:
            self._untold[name] = (again, failed)
        return failed

    async def _tell(self, body: Object, waits: Iterable[Finding], held: list[Finding]) -> None:
        """Write an Event when something begins to wait or to be held, and count what is held now."""
        name, now = body["metadata"]["name"], {(finding.reason, finding.node): finding for finding in (*waits, *held)}
        before = self._told.get(name, {})
        self._told[name] = now
        for reason in {reason for reason, _ in before | now}:
            metrics.REPAIRS_HELD.labels(name, reason).set(sum(finding.reason == reason for finding in held))
        for key in now.keys() - before.keys():
            log.info("%s: %s", now[key].reason, now[key].message)
            await self._tell_one(body, now[key], now[key].message, warning=now[key] in held)
        for key in before.keys() - now.keys():
            await self._tell_one(body, before[key], f"over: {before[key].message}", warning=False)

    async def _tell_one(self, body: Object, what: Finding, message: str, *, warning: bool) -> None:
        subject = f"{what.reason}.{what.node}".rstrip(".")
        await self._executor.report.standing_event(body, subject, what.reason, message, warning=warning)

    def _possible(self, served: ServedSet) -> list[Action]:
        """The actions of a node set, without updates of nodes that its status could not be made to remember."""
        remembered, decision = served.state.node_set, served.decision
        forgotten = decision.updating - remembered.updating if remembered.name in self._untold else frozenset[str]()
        return [action for action in decision.actions if not is_update_of(forgotten, action)]

    async def _jobs_to_lose(
        self, rest: SlurmRest, served: Served, budget: PassBudget
    ) -> tuple[SlurmJob, ...] | Unknown | None:
        """Look once at jobs if any node set takes some from its nodes, to tell what becomes of each; else None."""
        actions = [action for node_set in served.sets.values() for action in self._possible(node_set)]
        if not any(isinstance(action, RequeueJobs) for action in actions):
            return None
        return known(await self._listing.with_processes(rest, budget.left(LOOKED_AFTER_SECONDS)))

    async def _execute(
        self,
        rest: SlurmRest,
        body: Object,
        served: ServedSet,
        to_lose: tuple[SlurmJob, ...] | Unknown | None,
        ends: float,
    ) -> list[Finding]:
        """Execute a node set's actions until `ends`, and return the failures."""
        problems: list[Finding] = []
        jobs, actions = served.state.jobs if to_lose is None else to_lose, self._possible(served)
        for done, decided in enumerate(actions):
            # A refused action costs little and may be refused for long: it does not count.
            if done - len(problems) >= ACTIONS_PER_PASS or self._clock() >= ends:
                break
            failed = await self._executor.execute(rest, body, decided, jobs)
            problems += failed
            if any(finding.reason != execute.REFUSED for finding in failed):
                break  # Nobody answers, and each call would wait for its deadline; or the state has changed.
            if not failed and isinstance(decided, SetReplicas):
                direction = "out" if decided.replicas > decided.was else "in"
                metrics.REPLICA_MOVES.labels(direction).inc(abs(decided.replicas - decided.was))
        return problems


def _status_of(node_set: str) -> str:
    return f"status of node set {node_set}"
