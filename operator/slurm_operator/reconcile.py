"""One pass: see what is, decide, do it, say it. Nothing that matters is kept in memory between passes."""

from __future__ import annotations

import dataclasses
import datetime
import logging
import re
from collections import Counter
from collections.abc import Awaitable, Mapping
from pathlib import Path

from slurm_operator import actions, metrics, names, observe, report
from slurm_operator.decisions import config, replicas, status
from slurm_operator.kubernetes_api import KubernetesApi, KubernetesError, Object
from slurm_operator.lease import Lease
from slurm_operator.seen import Evidence, Kubernetes, Nodes, NodeSet, Pod, SlurmJob, Unknown
from slurm_operator.slurm_rest import SlurmError, SlurmRest

log = logging.getLogger(__name__)

MOVES_PER_PASS = 50
"""A pass stays short; the next one goes on."""

_NOT_ASKED = Unknown("NotAsked", "jobs were not listed")


@dataclasses.dataclass(frozen=True, slots=True)
class Slurm:
    """What one pass knows of Slurm."""

    nodes: Nodes | Unknown
    jobs: tuple[SlurmJob, ...] | Unknown = _NOT_ASKED
    evidence: Evidence | None = None


class Reconciler:
    """The passes over one namespace."""

    def __init__(self, api: KubernetesApi, lease: Lease, key_file: Path) -> None:
        self._api = api
        self._lease = lease
        self._key_file = key_file
        self._rest: SlurmRest | None = None

    async def close(self) -> None:
        """Close the connections to slurmrestd."""
        if self._rest:
            await self._rest.close()

    async def run(self) -> bool:
        """Do one pass and return whether something moves.

        Raises:
            KubernetesError: the API server was away or refused; the next pass begins anew.
            NotLeading: the lease is not ours any more.
        """
        self._lease.check()
        bodies = await observe.clusters(self._api)
        if not bodies:
            await self._first_configuration()
            return True
        for surplus in bodies[1:]:
            await self._refuse(surplus, bodies[0]["metadata"]["name"])
        return await self._pass(bodies[0])

    async def _pass(self, body: Object) -> bool:
        seen, set_bodies = await observe.kubernetes(self._api, body)
        now = datetime.datetime.now(datetime.UTC)
        rest = await self._client(seen.cluster.rest_url)
        scales = {node_set.name: _scale(seen, node_set, now) for node_set in _served(seen)}
        memory = _memory(seen)
        jobs_needed = config.jobs_needed(seen.wanted_config, seen.active_config, memory)
        slurm = await _look(rest, [scale for scale in scales.values() if scale], jobs_needed=jobs_needed)

        problems: list[status.Finding] = []
        moving: list[status.Finding] = []
        for name, scale in scales.items():
            if scale is not None and not isinstance(slurm.nodes, Unknown):
                problems += await self._move(rest, set_bodies[name], scale, slurm.nodes, slurm.evidence)
            elif scale is not None and scale.wanted > scale.current:
                # More pods need nothing of Slurm.
                problems += await self._move(rest, set_bodies[name], scale, {}, None)
        memory = await self._configure(rest, body, seen, memory, slurm, now, problems, moving)
        return await self._say(body, set_bodies, seen, scales, slurm, memory, now, problems, moving)

    async def _move(
        self, rest: SlurmRest, body: Object, scale: replicas.Scale, nodes: Nodes, evidence: Evidence | None
    ) -> list[status.Finding]:
        for decided in replicas.moves(scale, nodes, evidence)[:MOVES_PER_PASS]:
            kind = type(decided).__name__
            failed = await self._try(body, kind, actions.move(self._api, rest, self._lease, decided))
            if failed:
                return [failed]
            if isinstance(decided, replicas.SetReplicas):
                direction = "out" if decided.replicas > decided.was else "in"
                metrics.REPLICA_MOVES.labels(direction).inc(abs(decided.replicas - decided.was))
        return []

    async def _configure(
        self,
        rest: SlurmRest,
        body: Object,
        seen: Kubernetes,
        memory: config.Memory | None,
        slurm: Slurm,
        now: datetime.datetime,
        problems: list[status.Finding],
        moving: list[status.Finding],
    ) -> config.Memory | None:
        jobs = slurm.nodes if isinstance(slurm.nodes, Unknown) else slurm.jobs
        declared = seen.ledger_revision == seen.cluster.revision
        active = seen.active_config
        promotion = config.promotion(seen.wanted_config, active, declared=declared, jobs=jobs)
        if isinstance(promotion, config.Promote):
            copying = actions.promote(
                self._api, self._lease, seen.cluster.wanted_config, seen.cluster.active_config, promotion.files
            )
            failed = await self._try(body, "PromoteConfiguration", copying)
            problems += [failed] if failed else []
            active = active if failed else promotion.files
        memory = config.remember(active, memory, now=now, reconfigured=False)
        telling = config.reconfiguration(active, memory, now=now, jobs=jobs)
        if isinstance(telling, config.Reconfigure):
            self._lease.check()
            failed = await self._try(body, "Reconfigure", _reconfigure(rest))
            problems += [failed] if failed else []
            memory = config.remember(active, memory, now=now, reconfigured=failed is None)
        for held in (promotion, telling):
            if isinstance(held, config.Hold):
                problems.append(status.Finding("ConfigurationHeld", held.message))
            elif isinstance(held, config.Wait):
                moving.append(status.Finding("Reconfiguring", held.message))
        return memory

    async def _say(
        self,
        body: Object,
        set_bodies: Mapping[str, Object],
        seen: Kubernetes,
        scales: Mapping[str, replicas.Scale | None],
        slurm: Slurm,
        memory: config.Memory | None,
        now: datetime.datetime,
        problems: list[status.Finding],
        moving: list[status.Finding],
    ) -> bool:
        all_sets, all_counts = status.Findings(), []
        for node_set in seen.node_sets:
            scale = scales.get(node_set.name)
            found, counts = _not_served(seen, node_set), status.Counts(node_set.replicas or 0)
            workload = seen.workloads.get(node_set.stateful_set)
            if found is None:
                counts, found = status.node_set(node_set, workload, scale, slurm.nodes)
                all_counts.append(counts)
            if node_set.cluster == seen.cluster.name:
                all_sets.add(found)
            if isinstance(slurm.nodes, Unknown):
                found = dataclasses.replace(
                    found, unknown=[*found.unknown, status.Finding(slurm.nodes.reason, slurm.nodes.message)]
                )
            conditions = found.conditions(f"{counts.ready} of {counts.wanted} nodes take jobs")
            labels = {names.INSTANCE_LABEL: node_set.cluster, names.NODE_SET_LABEL: node_set.name}
            fields: dict[str, object] = {
                "replicas": workload.created if workload else 0,
                "readyReplicas": counts.ready,
                "idle": counts.idle,
                "allocated": counts.allocated,
                "drained": counts.drained,
                "selector": ",".join(f"{key}={value}" for key, value in labels.items()),
            }
            set_body = set_bodies[node_set.name]
            await report.write_status(self._api, self._lease, names.NODE_SETS, set_body, conditions, fields, now)
        counts = status.total(all_counts)
        found = status.cluster(seen, slurm.nodes, all_sets, counts)
        found.wrong += problems
        found.moving += moving
        conditions = found.conditions(f"{counts.ready} of {counts.wanted} nodes take jobs")
        complete = seen.ledger_revision == seen.cluster.revision
        fields = {
            "revision": seen.cluster.revision if complete else body.get("status", {}).get("revision"),
            "nodes": {key: value for key, value in dataclasses.asdict(counts).items() if value is not None},
            "configuration": None
            if memory is None
            else {
                "hash": memory.content,
                "changedAt": report.timestamp(memory.changed),
                "appliedHash": memory.applied,
            },
        }
        changed = await report.write_status(self._api, self._lease, names.SLURM_CLUSTERS, body, conditions, fields, now)
        for each in changed:
            bad = (each.status == "True") == (each.type == "Degraded")
            reason = f"{each.type}{each.status}"
            log.info("condition changed: %s reason=%s message=%s", reason, each.reason, each.message)
            await report.event(self._api, body, reason, each.message, warning=bad and each.type != "Progressing")
        return any(each.type == "Progressing" and each.status == "True" for each in conditions) or any(
            each.type == "Available" and each.status != "True" for each in conditions
        )

    async def _try(self, body: Object, kind: str, work: Awaitable[str]) -> status.Finding | None:
        """Carry out one change; a refusal is told in Degraded and tried again by the next pass."""
        try:
            done = await work
        except (SlurmError, KubernetesError) as error:
            if isinstance(error, KubernetesError) and error.status == 409:
                raise  # What this pass saw is no longer so: the next one decides anew.
            metrics.ACTION_FAILURES.labels(kind).inc()
            log.warning("action failed: %s error=%s", kind, error)
            return status.Finding("ActionFailed", f"{kind}: {error}")
        if done:
            metrics.ACTIONS.labels(kind).inc()
            log.info("%s: %s", kind, done)
            await report.event(self._api, body, kind, done)
        return None

    async def _first_configuration(self) -> None:
        """Without active configuration slurmctld cannot start, and Pulumi may wait for it before it writes the CR."""
        wanted = await observe.files(self._api, names.WANTED_CONFIG)
        if wanted is not None and await observe.files(self._api, names.ACTIVE_CONFIG) is None:
            copying = actions.promote(self._api, self._lease, names.WANTED_CONFIG, names.ACTIVE_CONFIG, wanted)
            log.info("PromoteConfiguration: %s", await copying)

    async def _refuse(self, body: Object, served: str) -> None:
        message = f"this namespace is served for SlurmCluster {served}; use a namespace for each Slurm cluster"
        problem = status.Finding("AnotherClusterInNamespace", message)
        conditions = status.Findings(blocking=[problem], wrong=[problem]).conditions("")
        now = datetime.datetime.now(datetime.UTC)
        await report.write_status(self._api, self._lease, names.SLURM_CLUSTERS, body, conditions, {}, now)

    async def _client(self, url: str) -> SlurmRest:
        if self._rest is None or self._rest.url != url:
            await self.close()
            self._rest = SlurmRest(url, self._key_file)
        return self._rest


async def _look(rest: SlurmRest, scales: list[replicas.Scale], *, jobs_needed: bool) -> Slurm:
    """See Slurm: one listing of nodes, and the expensive listings only if a decision hangs on them."""
    try:
        nodes = await rest.nodes(full=False)
        if any(replicas.needs_evidence(scale, nodes) for scale in scales):
            evidence = Evidence(await rest.nodes(full=True), await rest.jobs())
            return Slurm(nodes, evidence.jobs, evidence)
        return Slurm(nodes, await rest.jobs() if jobs_needed else _NOT_ASKED)
    except SlurmError as error:
        return Slurm(Unknown(error.reason, str(error)))


async def _reconfigure(rest: SlurmRest) -> str:
    await rest.reconfigure()
    return "told slurmctld to read the new configuration"


def _served(seen: Kubernetes) -> list[NodeSet]:
    return [node_set for node_set in seen.node_sets if _not_served(seen, node_set) is None]


def _not_served(seen: Kubernetes, node_set: NodeSet) -> status.Findings | None:
    """Why nothing is done for a node set, None if it is served."""
    claims = Counter(each.stateful_set for each in seen.node_sets)
    if node_set.cluster != seen.cluster.name:
        message = f"there is no SlurmCluster {node_set.cluster} that is served here; correct spec.cluster"
        problem = status.Finding("ClusterMissing", message)
    elif claims[node_set.stateful_set] > 1:
        message = f"more than one NodeSet names StatefulSet {node_set.stateful_set}; correct spec.statefulSet"
        problem = status.Finding("StatefulSetShared", message)
    else:
        return None
    return status.Findings(blocking=[problem], wrong=[problem])


def _scale(seen: Kubernetes, node_set: NodeSet, now: datetime.datetime) -> replicas.Scale | None:
    workload = seen.workloads.get(node_set.stateful_set)
    if workload is None:
        return None
    member = re.compile(re.escape(node_set.stateful_set) + r"-\d+")
    pods: dict[str, Pod] = {name: pod for name, pod in seen.pods.items() if member.fullmatch(name)}
    wanted = workload.replicas if node_set.replicas is None else node_set.replicas
    return replicas.Scale(workload.name, wanted, workload.replicas, workload.resource_version, pods, now)


def _memory(seen: Kubernetes) -> config.Memory | None:
    cluster = seen.cluster
    if not cluster.config_changed:
        return None
    return config.Memory(cluster.config_hash, cluster.config_changed, cluster.config_applied)
