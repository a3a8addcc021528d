"""Brings the declared configuration to slurmctld and its nodes, only while the lease is ours."""

from __future__ import annotations

import datetime
from collections.abc import Mapping

from contract import names
from slurm_operator.clients.kubernetes import KubernetesApi
from slurm_operator.clients.lease import Lease
from slurm_operator.clients.slurm.slurmrestd import SlurmRest
from slurm_operator.decide.cluster import config
from slurm_operator.state.resources import Cluster


class Configurer:
    """Changes the configuration of one namespace's cluster."""

    def __init__(self, api: KubernetesApi, lease: Lease) -> None:
        self._api = api
        self._lease = lease

    async def promote(self, cluster: Cluster, decided: config.Promote) -> str:
        """Copy the wanted ConfigMap, or files on the way to it, to the active one.

        The active one goes when the wanted one does.
        If the wanted one has another content than was decided on by now, nothing is done.
        """
        wanted = decided.files if decided.wanted is None else decided.wanted
        done = await self.copy(cluster.desired_config, cluster.active_config, wanted, decided.files)
        if done:
            await self._show(cluster)
        return f"{done}; slurmctld says of it: {decided.words}" if done and decided.words else done

    async def _show(self, cluster: Cluster) -> None:
        """Have kubelet bring the active files to slurmctld's pod: it looks when a pod changes, else once a minute."""
        value = datetime.datetime.now(datetime.UTC).isoformat(timespec="milliseconds")
        pod = f"{cluster.controller}-0"
        metadata = {"name": pod, "annotations": {names.ANNOTATION_CONFIG: value}}
        if await self._api.get("v1", "pods", pod) is not None:
            self._lease.check()
            await self._api.apply("v1", "pods", {"apiVersion": "v1", "kind": "Pod", "metadata": metadata})

    async def reconfigure(self, rest: SlurmRest, cluster: Cluster) -> str:
        """Tell slurmctld to read its files; whether it had the new ones shows in what it runs with afterwards."""
        await self._show(cluster)
        self._lease.check()
        await rest.reconfigure()
        return "told slurmctld to read the new configuration"

    async def ask_nodes_again(self, rest: SlurmRest, late: str) -> str:
        """Have slurmctld send all nodes their configuration again; `late` names those that have not read it."""
        self._lease.check()
        await rest.reconfigure()
        return f"told slurmctld to have its nodes read the configuration again: {late} had not"

    async def set_partition(self, rest: SlurmRest, name: str, state: str, why: str) -> str:
        """Set a partition's state, if it is there and has another."""
        if await rest.partition_state(name) in ("", state):
            return ""
        self._lease.check()
        await rest.set_partition(name, state)
        return f"set partition {name} to {state}: {why}"

    async def copy(
        self, wanted: str, active: str, files: Mapping[str, str], first: Mapping[str, str] | None = None
    ) -> str:
        """Replace ConfigMap `active` by a copy of ConfigMap `wanted`, if that has these files.

        Args:
            wanted: name of the ConfigMap that Pulumi declared.
            active: name of the ConfigMap that is mounted.
            files: of `wanted`.
            first: what the copy has in their place, if slurmctld has to read other files before these.
        """
        source = await self._api.get("v1", "configmaps", wanted)
        if source is None or source.get("data", {}) != files:
            return ""
        owner = {"apiVersion": "v1", "kind": "ConfigMap", "name": wanted, "uid": source["metadata"]["uid"]}
        metadata = {"name": active, "labels": source["metadata"].get("labels", {}), "ownerReferences": [owner]}
        body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": dict(first or files)}
        # An apply would leave files that somebody else added, so an object that is there is replaced as a whole.
        there = await self._api.get("v1", "configmaps", active)
        self._lease.check()
        if there is None:
            await self._api.create("v1", "configmaps", body)
        else:
            metadata["resourceVersion"] = there["metadata"]["resourceVersion"]
            await self._api.replace("v1", "configmaps", body)
        if first and first != files:
            return f"copied topologies to {active} that nodes come into, or leave, before the declared configuration"
        return f"copied the declared configuration to {active}"
