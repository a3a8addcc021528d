"""Executes actions, each only while the lease is ours, and only if its preconditions hold at that moment."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Sequence

import httpx

from contract import names, reasons
from contract.conditions import Reason
from slurm_operator import actions, drains, metrics, report
from slurm_operator.clients.json_patch import as_seen, escaped
from slurm_operator.clients.kubernetes import KubernetesApi, KubernetesError, Object
from slurm_operator.clients.lease import Lease
from slurm_operator.clients.slurm.slurm_error import SlurmError, Trouble
from slurm_operator.clients.slurm.slurmrestd import SlurmRest
from slurm_operator.decide.node_sets import deletion, preconditions
from slurm_operator.decide.nodes import reservations, slurm_nodes
from slurm_operator.drains import Owner
from slurm_operator.findings import Condition, Finding, shown
from slurm_operator.state.slurm import SlurmJob, SlurmNode, Unknown

log = logging.getLogger(__name__)

REFUSED = Reason.ACTION_REFUSED
"""Reason of a refused change. Other changes may succeed."""
CONFLICT = Reason.ACTION_CONFLICT
"""Reason of a change whose object has changed since this pass saw it: the next pass decides anew."""
SIZE_TRIES = 3

_PURPOSES = {
    reasons.SCALE_IN: "it is to be removed",
    reasons.UPDATE: "it is to be updated",
    reasons.NEW: "it stays, and is to be seen to work",
}
_GIVEN_BACK: dict[Owner | None, str] = {
    Owner.K8S_NODE: "its Kubernetes node may be used again",
    Owner.REPAIR: "its pod is ready again",
    Owner.NEW: "it is new and works",
}
_DELETED = {
    actions.Purpose.UPDATE: "idle pod {}",
    actions.Purpose.ANEW: "idle pod {}, to start anew",
    actions.Purpose.ELSEWHERE: "idle pod {}, to start on another Kubernetes node",
    actions.Purpose.CONTROLLER: "pod {}, jobs go on",
    actions.Purpose.REBOOT: "idle pod {}, to start anew",
}


class Executor:
    """Executes actions in one namespace.

    Attributes:
        report: writes Events and logs about them.
    """

    def __init__(self, api: KubernetesApi, lease: Lease) -> None:
        self.report = report.Reporter(api, lease)
        self._api = api
        self._lease = lease

    async def attempt(self, body: Object, kind: str, work: Awaitable[str | None]) -> list[Finding]:
        """Make one change and return why it failed, for Degraded; the next pass tries again."""
        try:
            done = await work
        except (SlurmError, KubernetesError) as error:
            answer = error.status if isinstance(error, KubernetesError) else 0
            if answer == httpx.codes.CONFLICT:
                return [Finding(CONFLICT, f"{kind}: {error}")]
            metrics.ACTION_FAILURES.labels(kind).inc()
            log.warning("action failed: %s error=%s", kind, error)
            refused = httpx.codes.is_client_error(answer) or getattr(error, "reason", None) is Trouble.REFUSED
            return [Finding(REFUSED if refused else Reason.ACTION_FAILED, f"{kind}: {error}")]
        if done:
            metrics.ACTIONS.labels(kind).inc()
            log.info("%s: %s", kind, done)
            await self.report.event(body, kind, done)
        return []

    async def tell(
        self, body: Object, conditions: tuple[Condition, ...], fields: dict[str, object], *, all_of_them: bool = False
    ) -> list[Finding]:
        """Write a resource's status and return why that failed; see Reporter.write_status."""
        writing = self.report.write_status(body, conditions, fields, all_of_them=all_of_them)
        return await self.attempt(body, "WriteStatus", writing)

    async def execute(
        self, rest: SlurmRest, body: Object, decided: actions.Action, jobs: tuple[SlurmJob, ...] | Unknown = ()
    ) -> list[Finding]:
        """Execute an action on what `body` declares, report it, and return the failure; messages name `jobs`."""
        return await self.attempt(body, actions.kind(decided), self.perform(rest, decided, jobs))

    async def perform(self, rest: SlurmRest, decided: actions.Action, jobs: tuple[SlurmJob, ...] | Unknown = ()) -> str:
        """Perform one action on a node set or slurmctld.

        Args:
            rest: the cluster's slurmrestd.
            decided: what to do.
            jobs: what is known of jobs that have processes, to say what becomes of those that a node loses.

        Returns:
            A sentence about what was done, empty if there was nothing to do any more.
        """
        self._lease.check()
        match decided:
            case actions.SetReplicas():
                return await self._set_replicas(rest, decided)
            case actions.SetEvictable():
                return await self._set_evictable(rest, decided)
            case actions.SetOnDelete(stateful_set=name):
                # A merge, not an apply: it has to remove rollingUpdate, which Kubernetes filled in.
                strategy = {"type": "OnDelete", "rollingUpdate": None}
                change = {
                    "metadata": {"resourceVersion": decided.resource_version},
                    "spec": {"updateStrategy": strategy},
                }
                await self._api.merge("apps/v1", "statefulsets", name, change)
                return f"took over the updates of StatefulSet {name}, so that slurmctld comes after slurmdbd"
            case actions.DeletePod():
                return await self._delete_pod(rest, decided)
            case actions.Reserve() | actions.ChangeReservation() | actions.EndReservation():
                return await self._change_reservation(rest, decided)
        return await self._change_node(rest, decided, jobs)

    async def _change_node(
        self, rest: SlurmRest, decided: actions.NodeAction, jobs: tuple[SlurmJob, ...] | Unknown
    ) -> str:
        """Change Slurm's record of a node, if it still is as the decision took it to be."""
        name, now = decided.node, await rest.node(decided.node)
        if now is None or not preconditions.hold(decided, now):
            return ""
        if isinstance(decided, actions.RequeueJobs) and await _is_early(rest, decided, now):
            return ""
        self._lease.check()
        match decided:
            case actions.Drain(reason=reason):
                await rest.drain(name, reason)
                short = reason.removeprefix(reasons.PREFIX)
                metrics.DRAINS.labels(short.partition(" ")[0]).inc()
                return f"drained {name}: {_PURPOSES.get(reason) or short}"
            case actions.DrainDown():
                await rest.keep_out(name)
                return f"drained {name} under the reason of {now.reason_user}, who set it DOWN: {now.reason}"
            case actions.Undrain():
                await rest.undrain(name)
                return f"undrained {name}: {_GIVEN_BACK.get(drains.owner(now), 'it stays as it is')}"
            case actions.UndrainReserved(reservation=reservation):
                if not preconditions.is_reserved(decided, await rest.reservations()):
                    return ""
                self._lease.check()
                await rest.undrain(name)
                return f"undrained {name} for the jobs of its long check alone (reservation {reservation})"
            case actions.DeleteRecord():
                await rest.delete_node(name)
                return f"deleted Slurm's record of {name}: its pod is gone"
            case actions.RequeueJobs():
                await rest.take_down(name, f"{now.reason}{reasons.DEADLINE_PASSED}")
                return f"took the jobs of {name}, its deadline has passed: {deletion.fates(jobs, name)}"
            case actions.UpdateNode(features=features, weight=weight, topology=topology):
                await rest.update_node(name, features, weight, topology)
                said = [f"features {','.join(features)}"] if features is not None else []
                said += [] if weight is None else [f"weight {weight}"]
                said += [] if topology is None else [f"topology {topology or 'none'}"]
                return f"gave {name} what its node set declares: {', '.join(said)}"
            case actions.Comment(text=text):
                await rest.comment(name, text)
                return f"commented on {name}: {text}" if text else f"took the comment on {name} away"

    async def _change_reservation(self, rest: SlurmRest, decided: actions.ReservationAction) -> str:
        """Change a reservation of the operator's, unless somebody else has one of that name."""
        name = decided.name
        if not preconditions.reservation_holds(decided, await rest.reservations()):
            return ""
        self._lease.check()
        match decided:
            case actions.Reserve(nodes=nodes, starts=starts, ends=ends):
                await rest.reserve(name, nodes, starts, ends, decided.user, decided.flags)
                if reservations.is_for_retry(decided):
                    return f"reserved {shown(nodes)} to try it again ({name})"
                times = f"{starts:%Y-%m-%d %H:%M} to {ends:%Y-%m-%d %H:%M} UTC"
                return f"reserved {shown(nodes)} for updates: {times} ({name})"
            case actions.ChangeReservation(nodes=nodes, ends=ends):
                await rest.change_reservation(name, nodes, ends, decided.starts)
                return f"changed reservation {name}: {shown(nodes)}, until {ends:%Y-%m-%d %H:%M} UTC"
            case actions.EndReservation(why=why):
                await rest.end_reservation(name)
                return f"deleted reservation {name}: {why}"

    async def _set_replicas(self, rest: SlurmRest, decided: actions.SetReplicas) -> str:
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

    async def _set_evictable(self, rest: SlurmRest, decided: actions.SetEvictable) -> str:
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
        await self._patch("v1", "pods", name, [*is_seen, without])

    async def _patch(self, api: str, plural: str, name: str, operations: Sequence[Object]) -> None:
        """Carry out a JSON patch.

        Raises:
            KubernetesError: 409 if one of its tests fails.
        """
        try:
            await self._api.patch(api, plural, name, operations)
        except KubernetesError as error:
            if error.status != httpx.codes.UNPROCESSABLE_ENTITY:
                raise
            raise KubernetesError(httpx.codes.CONFLICT, str(error)) from error

    async def _delete_pod(self, rest: SlurmRest, decided: actions.DeletePod) -> str:
        """Delete a pod if its node is still idle. A Kubernetes node that the pod is to leave is cordoned first."""
        name, is_worker = decided.pod, decided.purpose is not actions.Purpose.CONTROLLER
        before = await rest.node(name) if is_worker else None
        if is_worker and not preconditions.pod_may_end(decided, before):
            return ""
        self._lease.check()
        if decided.cordon:
            await self._cordon(decided)
            # These calls take time, in which a person may drain the node.
            if not preconditions.pod_may_end(decided, await rest.node(name)):
                return f"cordoned {decided.cordon}: {decided.why}; pod {name} stays, its node is another's by now"
            self._lease.check()
        if not await self._api.delete("v1", "pods", name, {"uid": decided.uid}) and not decided.cordon:
            return ""
        if decided.forget:
            await self._forget(rest, name, before)
        cordoned = f", and cordoned {decided.cordon}" if decided.cordon else ""
        return f"deleted the {_DELETED[decided.purpose].format(name)}{cordoned}: {decided.why}"

    async def _forget(self, rest: SlurmRest, name: str, before: SlurmNode | None) -> None:
        """Delete the record of a node whose pod was told to end.

        It stays if the next slurmd has registered already, or if the node is not idle under the update's drain.
        """
        now = await rest.node(name)
        if before is None or now is None or now.started != before.started:
            return
        if drains.owner(now) is Owner.UPDATE and slurm_nodes.looks_idle(now):
            self._lease.check()
            await rest.delete_node(name)

    async def _cordon(self, decided: actions.DeletePod) -> None:
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
        await self._patch("v1", "nodes", decided.cordon, [*tests, *change])

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
        await self._patch(names.API_VERSION, names.NODE_SETS, metadata["name"], [*seen, change])
        return f"let {metadata['name']} go: {decided.why}"


async def _is_early(rest: SlurmRest, decided: actions.RequeueJobs, now: SlurmNode) -> bool:
    """Return True if the deadline is still to come by slurmctld's clock, which set the time of the drain."""
    end, told = slurm_nodes.deadline(now, decided.seconds, now.reason), await rest.time_there()
    if told is None or end is None or told >= end:
        return False
    log.warning("clocks differ: slurmctld's says %s, the deadline of %s is %s", told, now.name, end)
    return True


async def _may_leave(rest: SlurmRest, nodes: tuple[str, ...]) -> bool:
    """Return True if all of the nodes may go at this moment; one that never registered has no record."""
    listed = await rest.nodes(full=True) if nodes else {}
    return all(slurm_nodes.may_leave(listed[name]) for name in nodes if name in listed)
