"""One pass: see what is, decide, do it, say it. Nothing that matters is kept in memory between passes."""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Callable, Mapping
from pathlib import Path

from contract import names, paths
from slurm_operator import actions, administrators, configuring, node_sets, observe, report
from slurm_operator.decisions import accounting, config, daemons, deletion, serving, status
from slurm_operator.decisions.findings import Finding, Findings, Severity, lasting
from slurm_operator.decisions.pace import Pace
from slurm_operator.decisions.reasons import Reason
from slurm_operator.healing import Healer
from slurm_operator.job_listing import JobListing
from slurm_operator.kubernetes_api import KubernetesApi, Object
from slurm_operator.lease import Lease
from slurm_operator.mirror import Mirror, Watch
from slurm_operator.seen import Kubernetes, Machine, Pod, Unknown
from slurm_operator.slurm_rest import SlurmRest

log = logging.getLogger(__name__)

_MACHINES = Watch("v1", "Node")
CONFLICTS_TOLD = 5
"""Passes in a row in which one change met a conflict, until it is told."""


class Reconciler:
    """The passes over one namespace."""

    def __init__(
        self,
        api: KubernetesApi,
        lease: Lease,
        key_file: Path,
        healer: Healer,
        authority_file: Path = Path(paths.REST_AUTHORITY_FILE),
        wake: Callable[[], None] = lambda: None,
        image: str = "",
    ) -> None:
        self._api = api
        self._healer = healer
        self._lease = lease
        self._key_file = key_file
        self._image = image
        self._authority_file = authority_file
        self._rest: SlurmRest | None = None
        self._jobs = JobListing()
        self._node_sets = node_sets.NodeSets(api, lease, self._jobs)
        self._configuration = configuring.Configuration(api, lease)
        self._administrators = administrators.Administrators(api, lease)
        self._mirror = Mirror(api, wake, observe.machine_shape)
        self._conflicts: dict[str, int] = {}

    async def close(self) -> None:
        """Close the connections to slurmrestd, and the watches."""
        await self._mirror.close()
        await self._close_rest()

    async def run(self) -> Pace:
        """Do one pass and return how soon another should follow.

        Raises:
            KubernetesError: the API server was away or refused; the next pass begins anew.
            NotLeading: the lease is not ours any more.
        """
        self._lease.check()
        bodies = await observe.clusters(self._api)
        if not bodies:
            set_bodies = await observe.node_sets(self._api)
            await self._finish_deletions(set_bodies, "")
            await self._say_that_no_cluster_is_there(set_bodies)
            await self._first_configuration()
            return Pace.MOVING
        for surplus in bodies[1:]:
            await self._refuse(surplus, bodies[0]["metadata"]["name"])
        return await self._pass(bodies[0])

    async def _pass(self, body: Object) -> Pace:
        seen, set_bodies = await observe.kubernetes(self._api, body)
        await self._finish_deletions(set_bodies, seen.cluster.name)
        rest = await self._client(seen.cluster.rest_url)
        moved = await self._move_controller(rest, body, seen)
        running = await configuring.running(rest)
        mine = [each for each in seen.node_sets if serving.refusal(seen, each) is None]
        healing = self._healer.condition
        died = healing.message if healing and healing.reason in (Reason.UPDATE_FAILED, Reason.LEDGER_MISSING) else ""
        served = await self._node_sets.serve(
            *(rest, mine, set_bodies, seen.workloads, seen.pods),
            running=running,
            cluster_stays=True,
            hold=daemons.holds_workers(seen, running, died),
            repairs_held=not died,
            known_machines=self._machines(seen.pods),
        )
        slurm = served.slurm
        drifted = self._healer.has_drifted("ConfigMap", seen.cluster.wanted_config, seen.wanted_config)
        # A slurmctld of the declared template comes first: it may know keys, or accounting, that the old one does not.
        old = daemons.is_controller_old(seen)
        declared = seen.ledger_revision == seen.cluster.revision and not drifted and not old
        jobs = (
            slurm.nodes if isinstance(slurm.nodes, Unknown) else await configuring.jobs(rest, self._jobs, seen, running)
        )
        found, closed = await self._configuration.bring(rest, body, seen, running, jobs, declared=declared)
        found += self._configuration.judge_nodes(slurm.nodes, running)
        found += moved
        told, appointed = await self._administrators.bring(rest, body, seen)
        found += told
        mark = "" if isinstance(running, Unknown) else config.mark(running.parameters)
        configuration = {"running": mark, "closed": sorted(closed)}
        return await self._say(body, set_bodies, seen, served, found, configuration, appointed)

    async def _move_controller(self, rest: SlurmRest, body: Object, seen: Kubernetes) -> list[Finding]:
        decided = daemons.controller(seen)
        return await actions.carry_out(self._api, rest, self._lease, body, decided) if decided else []

    def _machines(self, pods: Mapping[str, Pod]) -> dict[str, Machine] | None:
        """The Kubernetes nodes of pods that there are; None while the watch does not tell."""
        self._mirror.follow([_MACHINES])
        asked = {("Node", pod.machine) for pod in pods.values() if pod.machine}
        found = self._mirror.snapshot(asked)
        if len(found) < len(asked):
            return None
        return {name: observe.machine(shape) for (_, name), shape in found.items() if shape}

    async def _finish_deletions(self, bodies: Mapping[str, Object], served: str) -> None:
        """Go on deleting NodeSets that are not served.

        Their SlurmCluster went first, as it does when Pulumi destroys a stack, or they share another's StatefulSet.
        """
        there = [observe.node_set(body) for body in bodies.values()]
        leaving = [each for each in there if each.deleting and each.guard is not None]
        shared = [each for each in leaving if serving.is_shared(there, each)]
        for each in shared:
            why = f"StatefulSet {each.stateful_set} is another NodeSet's too"
            await self._node_sets.release(bodies[each.name], deletion.Release(None, why))
        orphans = [each for each in leaving if each not in shared and each.cluster != served]
        for cluster, url in sorted({(each.cluster, each.guard or "") for each in orphans}):
            group = [each for each in orphans if (each.cluster, each.guard) == (cluster, url)]
            workloads, pods = await observe.workloads(self._api, cluster)
            rest = await self._client(url)
            done = await self._node_sets.serve(
                *(rest, group, bodies, workloads, pods), running=await configuring.running(rest), cluster_stays=False
            )
            for each in group:
                if each.name in done.waits:
                    await self._node_sets.say(bodies[each.name], each, workloads.get(each.stateful_set), done, None)

    async def _say_that_no_cluster_is_there(self, set_bodies: Mapping[str, Object]) -> None:
        """Take back what was said of node sets whose cluster went: nobody looks at their nodes any more."""
        staying = [body for body in set_bodies.values() if "deletionTimestamp" not in body["metadata"]]
        told = [body for body in staying if body.get("status", {}).get("conditions")]
        for body in told:
            missing = serving.without_cluster(observe.node_set(body))
            status_now = body["status"]
            fields = {key: status_now.get(key) for key in ("replicas", "selector", "updating", "restarts")}
            await report.write_status(self._api, self._lease, body, missing.conditions(""), fields, all_of_them=True)

    async def _say(
        self,
        body: Object,
        set_bodies: Mapping[str, Object],
        seen: Kubernetes,
        served: node_sets.Served,
        configured: Findings,
        configuration: Mapping[str, object],
        appointed: Mapping[str, str],
    ) -> Pace:
        all_sets, all_counts = Findings(), []
        for each in seen.node_sets:
            if each.deleting and each.name not in served.waits:
                continue  # It is gone, or was told about by itself.
            refused = serving.refusal(seen, each)
            workload = seen.workloads.get(each.stateful_set)
            counts, found = await self._node_sets.say(set_bodies[each.name], each, workload, served, refused)
            all_counts += [counts] if refused is None else []
            if each.cluster == seen.cluster.name:
                all_sets += found
        counts = status.total(all_counts)
        found = status.cluster(seen, served.slurm.nodes, all_sets, counts)
        found += [*accounting.findings(seen), *served.problems, *self._healer.problems, *configured]
        found, self._conflicts = lasting(found, actions.CONFLICT, self._conflicts, CONFLICTS_TOLD)
        conditions = found.conditions(f"{counts.ready} of {counts.wanted} nodes take jobs")
        conditions += (self._healer.condition,) if self._healer.condition else ()
        conditions += (status.watched_machines(self._mirror.broken.get(_MACHINES, "")),)
        complete = seen.ledger_revision == seen.cluster.revision
        fields = {
            "operatorImage": self._image or None,
            "revision": seen.cluster.revision if complete else body.get("status", {}).get("revision"),
            "nodes": {key: value for key, value in dataclasses.asdict(counts).items() if value is not None},
            "configuration": {key: value for key, value in configuration.items() if value} or None,
            "administrators": dict(appointed) or None,
        }
        await report.write_status(self._api, self._lease, body, conditions, fields)
        told = {each.type: each.status for each in conditions}
        if told["Available"] == "Unknown":
            return Pace.BLIND
        return Pace.MOVING if (told["Progressing"], told["Available"]) != ("False", "True") else Pace.STEADY

    async def _first_configuration(self) -> None:
        """Without active configuration slurmctld cannot start, and Pulumi may wait for it before it writes the CR."""
        wanted = await observe.files(self._api, names.CONFIG_WANTED)
        if wanted is not None and await observe.files(self._api, names.CONFIG_ACTIVE) is None:
            copying = actions.copy(self._api, self._lease, names.CONFIG_WANTED, names.CONFIG_ACTIVE, wanted)
            log.info("PromoteConfiguration: %s", await copying)

    async def _refuse(self, body: Object, served: str) -> None:
        message = f"this namespace is served for SlurmCluster {served}; use a namespace for each Slurm cluster"
        found = Findings([Finding(Reason.ANOTHER_CLUSTER_IN_NAMESPACE, message, Severity.BLOCKING | Severity.WRONG)])
        await report.write_status(self._api, self._lease, body, found.conditions(""), {})

    async def _client(self, url: str) -> SlurmRest:
        authority = _authority(self._authority_file) if url.startswith("https:") else None
        # cert-manager renews the CA too: kubelet changes the file, and from then on the new one counts.
        if self._rest is None or (self._rest.url, self._rest.authority) != (url, authority):
            await self._close_rest()
            self._rest = SlurmRest(url, self._key_file, authority)
        return self._rest

    async def _close_rest(self) -> None:
        if self._rest:
            await self._rest.close()


def _authority(file: Path) -> bytes | None:
    try:
        return file.read_bytes()
    except OSError:
        return None
