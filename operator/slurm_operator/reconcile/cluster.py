"""One pass: observe, decide, execute, write the status. A pass needs nothing that the one before kept in memory."""

from __future__ import annotations

import asyncio
import dataclasses
import datetime
import math
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from contract import names, paths
from contract.conditions import ConditionType, Reason
from slurm_operator import execute, metrics, observe, report
from slurm_operator.actions import DeletePod
from slurm_operator.clients.informer import Informer, Watch
from slurm_operator.clients.kubernetes import KubernetesApi, KubernetesError, Object
from slurm_operator.clients.lease import Lease
from slurm_operator.clients.pod_refusals import PodRefusals
from slurm_operator.clients.slurm.job_listing import JobListing
from slurm_operator.clients.slurm.rest_renewal import RenewedRest
from slurm_operator.clients.watched_reads import Reads
from slurm_operator.configure import Configurer
from slurm_operator.decide.cluster import accounting, config, daemons, serving, status, topologies, unread
from slurm_operator.decide.cluster.requeue import Outcome
from slurm_operator.decide.node_sets.node_set import unchanged
from slurm_operator.decide.nodes import lost_daemons
from slurm_operator.findings import Condition, Defect, Finding, Findings, Severity, lasting, of_defects
from slurm_operator.parse.k8s_nodes import K8sNodeParser
from slurm_operator.reconcile import accounts, administrators, configuration, job_counts, node_sets
from slurm_operator.reconcile.defects import EXPECTED, Defects
from slurm_operator.reconcile.drift import DriftReconciler
from slurm_operator.reconcile.health import hanging_jobs, long_checks, outages, pod_conditions
from slurm_operator.reconcile.orphaned_sets import OrphanedSets
from slurm_operator.reconcile.pass_budget import BROUGHT_AFTER_SECONDS, PassBudget
from slurm_operator.reconcile.pass_context import PassContext
from slurm_operator.state.kubernetes import K8sNode, Kubernetes, Pod, Unread
from slurm_operator.state.resources import NodeSet
from slurm_operator.state.slurm import Nodes, SlurmJob, Unknown

CONFLICTS_TOLD = 5
"""Passes in a row in which one change met a conflict, until it is told."""
COUNTS_HOLD_SECONDS = 120.0
"""So long metrics tell what a pass saw, if none has told its status since: longer than a pass and its pause."""


class Reconciler:
    """The passes over one namespace."""

    def __init__(
        self,
        api: KubernetesApi,
        lease: Lease,
        key_file: Path,
        drift_reconciler: DriftReconciler,
        authority_file: Path = Path(paths.REST_AUTHORITY_FILE),
        wake: Callable[[], None] = lambda: None,
        image: str = "",
        reads: Reads | None = None,
        clock: Callable[[], float] = time.monotonic,
        dry_run_url: str = names.CONFIG_DRY_RUN_URL,
    ) -> None:
        self._clock = clock
        self._reads = reads or api
        self._drift = drift_reconciler
        self._lease = lease
        self._image = image
        self._dry_run_url = dry_run_url
        self._rest = RenewedRest(key_file, authority_file)
        self._jobs = JobListing(clock)
        self._executor = execute.Executor(api, lease)
        self._configurer = Configurer(api, lease)
        self._defects = Defects()
        self._node_sets = node_sets.NodeSets(self._executor, self._jobs, self._defects, clock)
        self._orphaned_sets = OrphanedSets(self._reads, self._rest, self._executor, self._node_sets)
        self._configuration = configuration.Configuration(self._executor, self._configurer)
        self._pod_conditions = pod_conditions.PodConditions(self._executor.report)
        self._administrators = administrators.Administrators(self._executor, lease, clock)
        self._accounts = accounts.Accounts(self._executor, lease, clock)
        self._job_counts = job_counts.JobCounts(self._jobs, clock)
        self._long_checks = long_checks.LongChecks(self._executor, lease, clock)
        self._outages = outages.Outages()
        self._hanging_jobs = hanging_jobs.HangingJobs(self._executor, lease, clock)
        self._informer = Informer(api, wake)
        self._pod_refusals = PodRefusals(api, clock)
        self._k8s_watch = Watch("v1", "Node", read=K8sNodeParser())
        self._conflicts: dict[str, int] = {}
        self._failed: list[Finding] = []
        """Failures of the pass before, after it had told its status."""
        self._told_at = -math.inf
        self._untold: KubernetesError | None = None
        """The answer to this pass's status of the SlurmCluster, if it could not be written."""

    async def close(self) -> None:
        """Close the connections to slurmrestd, and the watches."""
        await self._informer.close()
        await self._rest.close()

    async def run(self) -> Outcome:
        """Do one pass and return how soon another should follow.

        Raises:
            KubernetesError: the API server was away or refused; the next pass begins anew.
            NotLeading: the lease is not ours any more.
        """
        leads = self._lease.held()
        if not leads or self._clock() >= self._told_at + COUNTS_HOLD_SECONDS:
            metrics.forget_cluster()
        if not leads:
            self._accounts.forget()
            self._long_checks.forget()
            self._outages.forget()
            self._hanging_jobs.forget()
        self._lease.check()
        budget = PassBudget(self._clock)
        self._jobs.begin_pass()
        bodies = await observe.clusters(self._reads)
        if not bodies:
            metrics.forget_cluster()
            set_bodies = await observe.node_sets(self._reads)
            every = await self._node_sets.read(set_bodies)
            await self._orphaned_sets.finish_deletions(every, set_bodies, "", budget)
            await self._orphaned_sets.say_that_no_cluster_is_there(every, set_bodies)
            await self._configuration.begin(self._reads, self._dry_run_url)
            return Outcome.PROGRESSING
        for surplus in bodies[1:]:
            await self._refuse(surplus, bodies[0]["metadata"]["name"])
        try:
            return await self._pass(bodies[0], budget)
        except EXPECTED:
            raise
        except Exception as error:  # Whatever it is: the status says why nothing is done.
            words = of_defects([Defect("all that it does", error)], severity=Severity.WRONG | Severity.UNKNOWN)
            await self._executor.tell_defects(bodies[0], words)
            raise

    async def _pass(self, body: Object, budget: PassBudget) -> Outcome:
        """See, decide and tell; then change nodes, which may take long when Slurm is slow."""
        seen, set_bodies = await observe.kubernetes(self._reads, body)
        seen = dataclasses.replace(seen, node_sets=await self._node_sets.read(set_bodies))
        with self._defects.isolated("look at refused pods"):
            seen = await self._pod_refusals.look(seen)
        rest = await self._rest.at(seen.cluster.rest_url)
        now = PassContext(rest, body, seen, await configuration.running(rest), budget)
        served = await self._look_at_node_sets(now, set_bodies)
        states = {name: own.state for name, own in served.sets.items()}
        workers = [pod for pod in seen.pods.values() if pod.component == "worker"]
        with self._defects.isolated("outages"):
            if not isinstance(served.nodes, Unknown):
                self._outages.look(body, served.nodes, states.values(), workers, datetime.datetime.now(datetime.UTC))
        appointed, told = seen.cluster.appointed, Findings()
        failures, of_accounts, stored = list[Finding](), Findings(), body.get("status", {}).get("accounts")
        configured, closed = Findings(), configuration.cut_short(seen)[1]
        try:
            async with asyncio.timeout(budget.left(BROUGHT_AFTER_SECONDS)):
                with self._defects.isolated("update of slurmctld"):
                    failures = await self._update_controller(now)
                # QOS come before partitions that name them: slurmctld would not start without one.
                with self._defects.isolated("accounts and configuration", Severity.WRONG | Severity.UNKNOWN):
                    of_accounts, stored = await self._accounts.bring(now)
                    configured, closed = await self._bring_configuration(now, served.nodes)
                with self._defects.isolated("administrators"):
                    told, appointed = await self._administrators.bring(now)
        except TimeoutError:
            configured, closed = configuration.cut_short(seen)
        before = [*self._pod_conditions.problems, *self._long_checks.problems, *self._hanging_jobs.problems]
        findings = Findings([*configured, *failures, *told, *of_accounts, *before])
        mark = "" if isinstance(now.running, Unknown) else config.mark(now.running.parameters)
        told_of = {"running": mark, "closed": sorted(closed)}
        in_database = {"administrators": dict(appointed) or None, "accounts": stored}
        outcome = await self._say(body, set_bodies, seen, served, findings, told_of, in_database)
        self._told_at = self._clock()
        self._failed = await self._node_sets.act(rest, served, set_bodies, budget)
        with self._defects.isolated("pending nodes"):
            await self._node_sets.count_pending(rest, served, budget)
        if not isinstance(served.nodes, Unknown):
            with self._defects.isolated("counts of jobs"):
                await self._job_counts.count(now, served.nodes)
            with self._defects.isolated("long checks"):
                if len(seen.node_sets) == len(set_bodies):  # Of a set that can't be read nobody knows what it tests.
                    await self._long_checks.act(now, states, served.nodes)
            with self._defects.isolated("jobs that hang"):
                await self._hanging_jobs.act(now, served.nodes)
        with self._defects.isolated("left-over reservations"):
            self._failed += await self._node_sets.reservations.end_left_over(rest, body, set_bodies, budget)
        with self._defects.isolated("deletions of node sets without a cluster"):
            await self._orphaned_sets.finish_deletions(seen.node_sets, set_bodies, seen.cluster.name, budget)
        if not isinstance(served.nodes, Unknown):
            with self._defects.isolated("conditions of pods"):
                await self._pod_conditions.tell(workers, served.nodes)
        self._defects.end_pass()
        if self._untold:
            raise self._untold  # Nobody can read it: the log, the metric of passes and /readyz tell.
        return outcome

    async def _look_at_node_sets(self, now: PassContext, bodies: Mapping[str, Object]) -> node_sets.Served:
        seen = now.seen
        mine = [node_set for node_set in seen.node_sets if not serving.refusal(seen, node_set)]
        healing = self._drift.condition
        died = healing.message if healing and healing.reason in (Reason.UPDATE_FAILED, Reason.LEDGER_MISSING) else ""
        labels = frozenset(key for own in mine for key in own.labels)
        kept = frozenset(condition.type for own in mine for condition in own.conditions)
        self._k8s_watch = Watch("v1", "Node", read=K8sNodeParser(labels, kept))
        hold, moment = daemons.holds_workers(seen, now.running, died), datetime.datetime.now(datetime.UTC)
        sets = serving.states(mine, seen.workloads, seen.pods, moment, self._k8s_nodes(seen.pods))
        known = topologies.known(seen.desired_config, seen.active_config, now.running)
        first = {own.name: seen.cluster.first_checks(own.name) for own in mine}
        sets = [dataclasses.replace(state, hold=hold, repairs_held=not died, topologies=known) for state in sets]
        asked = frozenset[str]()
        with self._defects.isolated("requests of long checks"):
            asked = self._long_checks.untested(now.body)
        sets = [dataclasses.replace(it, first_checks=first[it.node_set.name], asked_for=asked) for it in sets]
        return await self._node_sets.look(now.rest, sets, bodies, now.budget, running=now.running, cluster_stays=True)

    async def _bring_configuration(self, now: PassContext, nodes: Nodes | Unknown) -> tuple[Findings, frozenset[str]]:
        seen = now.seen
        if Unread.CONFIGURATION in seen.unread:
            return Findings(), seen.cluster.closed
        drifted = self._drift.has_drifted("ConfigMap", seen.cluster.desired_config, seen.desired_config)
        # A slurmctld of the declared template comes first: it may know keys, or accounting, that the old one does not.
        old = daemons.is_controller_old(seen)
        declared = seen.ledger_revision == seen.cluster.revision and not drifted and not old
        jobs: tuple[SlurmJob, ...] | Unknown
        jobs = nodes if isinstance(nodes, Unknown) else await configuration.jobs(now, self._jobs)
        findings, closed = await self._configuration.bring(now, nodes, jobs, declared=declared)
        findings += await self._configuration.ask_nodes(now, nodes)
        return findings, closed

    async def _update_controller(self, now: PassContext) -> list[Finding]:
        decided = daemons.controller(now.seen)
        if isinstance(decided, DeletePod) and (kept := await self._configuration.keeps_controller(now)):
            return [kept]
        return await self._executor.execute(now.rest, now.body, decided) if decided else []

    def _k8s_nodes(self, pods: Mapping[str, Pod]) -> dict[str, K8sNode] | None:
        """The Kubernetes nodes of pods that there are; None while the watch does not tell."""
        self._informer.follow([self._k8s_watch])
        asked = {("Node", pod.k8s_node) for pod in pods.values() if pod.k8s_node}
        snapshot = self._informer.snapshot(asked)
        if len(snapshot) < len(asked):
            return None
        return {name: node for (_, name), node in snapshot.items() if node}

    def _lost_daemons(self, seen: Kubernetes, *, blind: bool) -> list[Finding]:
        daemons_pods = {name: pod for name, pod in seen.pods.items() if pod.component != "worker"}
        now = datetime.datetime.now(datetime.UTC)
        k8s_nodes, namespace = self._k8s_nodes(daemons_pods), seen.cluster.namespace
        return lost_daemons.findings(daemons_pods.values(), k8s_nodes, now, namespace, blind=blind)

    async def _say(
        self,
        body: Object,
        set_bodies: Mapping[str, Object],
        seen: Kubernetes,
        served: node_sets.Served,
        configured: Findings,
        configuration: Mapping[str, object],
        in_database: Mapping[str, object],
    ) -> Outcome:
        all_sets, all_counts = Findings(), []
        for node_set in seen.node_sets:
            refused = serving.refusal(seen, node_set)
            mine = served.sets.get(node_set.name) or _unserved(seen, node_set, served.nodes)
            if node_set.deleting and not mine.waiting:
                continue  # Its deletion has ended, or finish_deletions has reported it.
            said = await self._node_sets.say(set_bodies[node_set.name], mine, refused)
            if said is None:
                continue
            counts, findings = said
            all_counts += [] if refused else [counts]
            if node_set.cluster == seen.cluster.name:
                all_sets += findings
        self._node_sets.forget_gone(node_set.name for node_set in seen.node_sets)
        counts = status.total(all_counts)
        ledgers = self._ledgers(body, seen)
        findings = all_sets
        with self._defects.isolated("findings about the cluster", Severity.WRONG | Severity.UNKNOWN):
            findings = self._judge(seen, served.nodes, all_sets, counts)
        findings += [*served.problems, *self._node_sets.reservations.problems, *self._failed]
        findings += [*self._drift.problems, *configured, *self._defects.findings]
        findings, self._conflicts = lasting(findings, execute.CONFLICT, self._conflicts, CONFLICTS_TOLD)
        conditions = findings.conditions(f"{counts.ready} of {counts.wanted} nodes take jobs")
        conditions += (self._drift.condition,) if self._drift.condition else ()
        conditions += (status.watched_k8s_nodes(self._informer.broken.get(self._k8s_watch, "")),)
        complete = seen.ledger_revision == seen.cluster.revision
        fields = {
            "operatorImage": self._image or None,
            "revision": seen.cluster.revision if complete else body.get("status", {}).get("revision"),
            "nodes": report.counts(counts),
            "configuration": {key: value for key, value in configuration.items() if value} or None,
            **in_database,
            **ledgers,
        }
        self._untold = await self._write_status(body, conditions, fields)
        told = {condition.type: condition.status for condition in conditions}
        available, progressing = told[ConditionType.AVAILABLE], told[ConditionType.PROGRESSING]
        if available == "Unknown" and isinstance(served.nodes, Unknown):
            return Outcome.BLIND
        return Outcome.PROGRESSING if (progressing, available) != ("False", "True") else Outcome.STEADY

    def _judge(self, seen: Kubernetes, nodes: Nodes | Unknown, sets: Findings, counts: status.Counts) -> Findings:
        lost = self._lost_daemons(seen, blind=isinstance(nodes, Unknown))
        judged = status.cluster(seen, nodes, sets, counts)
        return Findings([*lost, *judged, *accounting.findings(seen), *unread.findings(seen)])

    def _ledgers(self, body: Object, seen: Kubernetes) -> dict[str, object]:
        """Return what parts of a pass remember by the status; of one with a defect that stays as it is."""
        parts: dict[str, Callable[[], object]] = {
            "jobs": lambda: self._job_counts.told(body),
            "longChecks": lambda: self._long_checks.told(body, seen.cluster.long_checks),
            "outages": lambda: self._outages.told(body),
            "hangs": lambda: self._hanging_jobs.told(body),
        }
        ledgers: dict[str, object] = {key: body.get("status", {}).get(key) for key in parts}
        for key, tell in parts.items():
            with self._defects.isolated(f"status.{key}"):
                ledgers[key] = tell()
        return ledgers

    async def _write_status(
        self, body: Object, conditions: tuple[Condition, ...], fields: dict[str, object]
    ) -> KubernetesError | None:
        """Write the SlurmCluster's status and return why that failed: actions go on all the same."""
        try:
            await self._executor.report.write_status(body, conditions, fields)
        except KubernetesError as error:
            return error
        return None

    async def _refuse(self, body: Object, served: str) -> None:
        message = f"this namespace is served for SlurmCluster {served}; use a namespace for each Slurm cluster"
        findings = Findings([Finding(Reason.ANOTHER_CLUSTER_IN_NAMESPACE, message, Severity.BLOCKING | Severity.WRONG)])
        await self._executor.tell(body, findings.conditions(""), {})


def _unserved(seen: Kubernetes, node_set: NodeSet, nodes: Nodes | Unknown) -> node_sets.ServedSet:
    """A node set for which nothing is done, so that its status says why."""
    (state,) = serving.states([node_set], seen.workloads, {}, datetime.datetime.now(datetime.UTC))
    return node_sets.ServedSet(state.seen(nodes), unchanged(node_set))
