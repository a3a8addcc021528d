"""Changes of StatefulSets, their pods, and the Kubernetes nodes of these."""

from __future__ import annotations

import httpx

from contract import names
from slurm_operator import actions, drains
from slurm_operator.clients.json_patch import as_seen, escaped, patch
from slurm_operator.clients.kubernetes import KubernetesApi, KubernetesError, Object
from slurm_operator.clients.lease import Lease
from slurm_operator.clients.slurm.slurmrestd import SlurmRest
from slurm_operator.decide.node_sets import preconditions
from slurm_operator.decide.nodes import slurm_nodes
from slurm_operator.drains import Owner

SIZE_TRIES = 3

_DELETED = {
    actions.Purpose.UPDATE: "idle pod {}",
    actions.Purpose.ANEW: "idle pod {}, to start anew",
    actions.Purpose.ELSEWHERE: "idle pod {}, to start on another Kubernetes node",
    actions.Purpose.CONTROLLER: "pod {}, jobs go on",
    actions.Purpose.REBOOT: "idle pod {}, to start anew",
}


class Workloads:
    """The StatefulSets of one namespace, with their pods. Slurm is asked once more before a node's pod may end."""

    def __init__(self, api: KubernetesApi, lease: Lease) -> None:
        self._api = api
        self._lease = lease

    async def set_replicas(self, rest: SlurmRest, decided: actions.SetReplicas) -> str:
        """Set the size if the set still has the one that was decided on, and its nodes may still go.

        The status of a set whose pods start changes several times a second, and its resourceVersion with it. So a
        conflict is looked into, a few times, and nodes are looked at anew each time.

        Raises:
            KubernetesError: 409 if the set has another size by now, or changes faster than that.
        """
        version, name = decided.resource_version, decided.stateful_set
        for tries_left in reversed(range(SIZE_TRIES)):
            if not await _may_leave(rest, decided.going):
                return ""
            self._lease.check()
            metadata = {"name": name, "resourceVersion": version}
            spec = {"replicas": decided.replicas}
            body = {"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": metadata, "spec": spec}
            try:
                await self._api.apply("apps/v1", "statefulsets", body)
                break
            except KubernetesError as error:
                if error.status != httpx.codes.CONFLICT or not tries_left:
                    raise
                there = await self._api.get("apps/v1", "statefulsets", name)
                if there is None or there["spec"].get("replicas") != decided.was:
                    raise
                version = there["metadata"]["resourceVersion"]
        return f"set StatefulSet {name} from {decided.was} to {decided.replicas} replicas"

    async def set_on_delete(self, decided: actions.SetOnDelete) -> str:
        """Take over the updates of a StatefulSet: its pods stay until they are deleted."""
        # A merge, not an apply: it has to remove rollingUpdate, which Kubernetes filled in.
        strategy = {"type": "OnDelete", "rollingUpdate": None}
        change = {"metadata": {"resourceVersion": decided.resource_version}, "spec": {"updateStrategy": strategy}}
        await self._api.merge("apps/v1", "statefulsets", decided.stateful_set, change)
        return f"took over the updates of StatefulSet {decided.stateful_set}, so that slurmctld comes after slurmdbd"

    async def set_evictable(self, rest: SlurmRest, decided: actions.SetEvictable) -> str:
        """Let a pod be evicted if its node may still go, or protect it again."""
        name = decided.node
        if not decided.evictable:
            await self._protect(name, decided.uid)
            return f"protected {name} from eviction again"
        if not await _may_leave(rest, (name,)):
            return ""
        self._lease.check()
        metadata = {"name": name, "uid": decided.uid, "labels": {names.LABEL_EVICTABLE: "true"}}
        await self._api.apply("v1", "pods", {"apiVersion": "v1", "kind": "Pod", "metadata": metadata})
        return f"let {name} be evicted: it is drained and idle, and its Kubernetes node is to be emptied"

    async def _protect(self, name: str, uid: str) -> None:
        """Take the label from a pod.

        Raises:
            KubernetesError: 409 if another pod has the name by now, or the label is gone.
        """
        is_seen = as_seen({"metadata": {"uid": uid}}, "/metadata/uid")
        without = {"op": "remove", "path": f"/metadata/labels/{escaped(names.LABEL_EVICTABLE)}"}
        await patch(self._api, "v1", "pods", name, [*is_seen, without])

    async def delete_pod(self, rest: SlurmRest, decided: actions.DeletePod) -> str:
        """Delete a pod if its node is still idle. A Kubernetes node that the pod is to leave is cordoned first."""
        name, is_worker = decided.pod, decided.purpose is not actions.Purpose.CONTROLLER
        if is_worker and not preconditions.pod_may_end(decided, await rest.node(name)):
            return ""
        self._lease.check()
        if decided.cordon:
            await self.cordon(decided)
            # These calls take time, in which a person may drain the node.
            if not preconditions.pod_may_end(decided, await rest.node(name)):
                return f"cordoned {decided.cordon}: {decided.why}; pod {name} stays, its node is another's by now"
            self._lease.check()
        if not await self._api.delete("v1", "pods", name, {"uid": decided.uid}) and not decided.cordon:
            return ""
        if decided.forget:
            await self._forget(rest, name, decided.uid)
        cordoned = f", and cordoned {decided.cordon}" if decided.cordon else ""
        return f"deleted the {_DELETED[decided.purpose].format(name)}{cordoned}: {decided.why}"

    async def _forget(self, rest: SlurmRest, name: str, uid: str) -> None:
        """Delete the record of a node whose pod was told to end, if it is idle under the update's drain.

        Slurm takes no precondition. So the last look is at the pod: while no other one has its name, no other slurmd
        has registered. A pod that is made now takes seconds until its slurmd registers.
        """
        now = await rest.node(name)
        if now is None or drains.owner(now) is not Owner.UPDATE or not slurm_nodes.looks_idle(now):
            return
        pod = await self._api.get_latest("v1", "pods", name)
        if pod is None or pod["metadata"]["uid"] == uid:
            self._lease.check()
            await rest.delete_node(name)

    async def cordon(self, decided: actions.DeletePod) -> None:
        """Cordon and taint a Kubernetes node, and annotate it with the reason; pods that run there stay."""
        k8s_node = await self._api.get("v1", "nodes", decided.cordon)
        if k8s_node is None:
            return
        others = [taint for taint in k8s_node["spec"].get("taints", []) if taint["key"] != names.UNFIT_TAINT]
        unfit = {"key": names.UNFIT_TAINT, "value": decided.pod, "effect": "NoSchedule"}
        noted, where = f"{decided.pod}: {decided.why}", "/metadata/annotations"
        # A kubelet writes its node's status all the time: another version of the whole says nothing.
        tests = as_seen(k8s_node, "/metadata/uid", "/spec/taints")
        annotation: Object = {"op": "add", "path": f"{where}/{escaped(names.UNFIT_TAINT)}", "value": noted}
        if not k8s_node["metadata"].get("annotations"):
            tests += as_seen(k8s_node, where)
            annotation |= {"path": where, "value": {names.UNFIT_TAINT: noted}}
        change: list[Object] = [
            {"op": "add", "path": "/spec/unschedulable", "value": True},
            {"op": "add", "path": "/spec/taints", "value": [*others, unfit]},
            annotation,
        ]
        self._lease.check()
        await patch(self._api, "v1", "nodes", decided.cordon, [*tests, *change])


async def _may_leave(rest: SlurmRest, nodes: tuple[str, ...]) -> bool:
    """Return whether all of the nodes may go at this moment; one that never registered has no record."""
    listed = await rest.nodes(full=True) if nodes else {}
    return all(slurm_nodes.may_leave(listed[name]) for name in nodes if name in listed)
