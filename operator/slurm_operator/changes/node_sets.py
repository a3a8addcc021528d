"""Changes of NodeSets themselves: the finalizer that holds their deletion, and a size that they lack."""

from __future__ import annotations

from contract import names
from slurm_operator.clients.json_patch import as_seen, patch
from slurm_operator.clients.kubernetes import KubernetesApi, Object
from slurm_operator.clients.lease import Lease
from slurm_operator.decide.node_sets import deletion


class NodeSetObjects:
    """The NodeSets of one namespace."""

    def __init__(self, api: KubernetesApi, lease: Lease) -> None:
        self._api = api
        self._lease = lease

    async def add_finalizer(self, node_set: Object, rest_url: str) -> str:
        """Set our finalizer on a NodeSet and note whom to ask about its jobs: its deletion then waits for them.

        The whole object is its precondition: a pass does this before it writes anything else, so conflicts are rare.
        """
        self._lease.check()
        metadata = node_set["metadata"]
        finalizers = sorted({*metadata.get("finalizers", []), names.FINALIZER})
        annotations = {**metadata.get("annotations", {}), names.ANNOTATION_REST: rest_url}
        changed = {**metadata, "finalizers": finalizers, "annotations": annotations}
        await self._api.replace(names.API_VERSION, names.NODE_SETS, {**node_set, "metadata": changed})
        return f"a deletion of {metadata['name']} waits for its jobs from now on"

    async def write_size(self, node_set: Object, size: int) -> str:
        """Write a set's number of nodes into its spec if it has none: `GET …/scale` needs one."""
        self._lease.check()
        metadata = {"resourceVersion": node_set["metadata"]["resourceVersion"]}
        name = node_set["metadata"]["name"]
        await self._api.merge(
            names.API_VERSION, names.NODE_SETS, name, {"metadata": metadata, "spec": {"replicas": size}}
        )
        return f"wrote the size of {name}, {size}, for whoever scales it"

    async def remove_finalizer(self, node_set: Object, decided: deletion.RemoveFinalizer) -> str:
        """Let a NodeSet go, after its StatefulSet.

        Pulumi deletes the StatefulSet with propagation Orphan, so that a replacement keeps its pods. That would leave
        pods and revisions behind, so the operator deletes the StatefulSet here.
        """
        self._lease.check()
        if decided.workload:
            version = {"resourceVersion": decided.workload.resource_version}
            await self._api.delete("apps/v1", "statefulsets", decided.workload.name, version)
            self._lease.check()
        metadata = node_set["metadata"]
        kept = [finalizer for finalizer in metadata["finalizers"] if finalizer != names.FINALIZER]
        # All that decided, but not the status, which this pass may have written.
        seen = as_seen(node_set, "/metadata/uid", "/metadata/annotations", "/metadata/finalizers", "/spec")
        change = {"op": "replace", "path": "/metadata/finalizers", "value": kept}
        await patch(self._api, names.API_VERSION, names.NODE_SETS, metadata["name"], [*seen, change])
        return f"let {metadata['name']} go: {decided.why}"
