"""NodeSets that no SlurmCluster serves: their deletion goes on, and what was said of their nodes is taken back."""

from __future__ import annotations

import datetime
from collections.abc import Mapping, Sequence

from slurm_operator import observe
from slurm_operator.clients.kubernetes import Object
from slurm_operator.clients.slurm.rest_renewal import RenewedRest
from slurm_operator.clients.watched_reads import Reads
from slurm_operator.decide.cluster import serving
from slurm_operator.decide.node_sets import deletion
from slurm_operator.execute import Executor
from slurm_operator.reconcile import configuration
from slurm_operator.reconcile.node_sets import NodeSets
from slurm_operator.reconcile.pass_budget import PassBudget
from slurm_operator.state.resources import NodeSet


class OrphanedSets:
    """The node sets of one namespace that are not served."""

    def __init__(self, reads: Reads, rest: RenewedRest, executor: Executor, node_sets: NodeSets) -> None:
        self._reads = reads
        self._rest = rest
        self._executor = executor
        self._node_sets = node_sets

    async def finish_deletions(
        self, every: Sequence[NodeSet], bodies: Mapping[str, Object], served: str, budget: PassBudget
    ) -> None:
        """Go on deleting NodeSets that are not served.

        Their SlurmCluster went first, as it does when Pulumi destroys a stack, or they share another's StatefulSet.
        """
        leaving = [node_set for node_set in every if node_set.deleting and node_set.finalizer_url is not None]
        shared = [node_set for node_set in leaving if serving.is_shared(every, node_set)]
        for node_set in shared:
            why = f"StatefulSet {node_set.stateful_set} is another NodeSet's too"
            await self._node_sets.remove_finalizer(bodies[node_set.name], deletion.RemoveFinalizer(None, why))
        orphans = [node_set for node_set in leaving if node_set not in shared and node_set.cluster != served]
        for cluster, url in sorted({(node_set.cluster, node_set.finalizer_url or "") for node_set in orphans}):
            group = [node_set for node_set in orphans if (node_set.cluster, node_set.finalizer_url) == (cluster, url)]
            workloads, pods = await observe.workloads(self._reads, cluster)
            rest = await self._rest.at(url)
            running = await configuration.running(rest)
            sets = serving.states(group, workloads, pods, datetime.datetime.now(datetime.UTC))
            there = await self._node_sets.look(rest, sets, bodies, budget, running=running, cluster_stays=False)
            for name, served_set in there.sets.items():
                if served_set.waiting:
                    await self._node_sets.say(bodies[name], served_set)
            await self._node_sets.act(rest, there, bodies, budget)

    async def say_that_no_cluster_is_there(self, every: Sequence[NodeSet], bodies: Mapping[str, Object]) -> None:
        """Take back what was said of node sets whose cluster went: nobody looks at their nodes any more."""
        for node_set in every:
            body = bodies[node_set.name]
            status_now = body.get("status", {})
            if node_set.deleting or not status_now.get("conditions"):
                continue
            missing = serving.without_cluster(node_set)
            remembered = ("replicas", "selector", "updating", "drainsOfOthers", "restarts")
            fields = {key: status_now.get(key) for key in remembered}
            await self._executor.tell(body, missing.conditions(""), fields, all_of_them=True)
