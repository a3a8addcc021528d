"""Carries decisions out, each only while the lease is ours, and each against what is there at that moment."""

from __future__ import annotations

import datetime
import logging
from collections.abc import Awaitable

import httpx

from contract import names, reasons
from slurm_operator import actions, drains, metrics, report
from slurm_operator.clients.kubernetes import KubernetesApi, KubernetesError, Object
from slurm_operator.clients.lease import Lease
from slurm_operator.clients.slurm_error import SlurmError, Trouble
from slurm_operator.clients.slurmrestd import SlurmRest
from slurm_operator.decide import deletion, window
from slurm_operator.decide import nodes as slurm_nodes
from slurm_operator.findings import Finding, shown
from slurm_operator.observe import CUSTOM_API
from slurm_operator.reasons import Reason
from slurm_operator.state import SlurmJob, SlurmNode, Unknown

log = logging.getLogger(__name__)

REFUSED = Reason.ACTION_REFUSED
"""Reason of a change that was answered with a refusal: it says nothing about other changes."""
CONFLICT = Reason.ACTION_CONFLICT
"""Reason of a change to what is no longer as this pass saw it: the next pass decides anew."""
SIZE_TRIES = 3


async def attempt(api: KubernetesApi, body: Object, kind: str, work: Awaitable[str]) -> list[Finding]:
    """Carry out one change; returned is why it failed, which is told in Degraded, and the next pass tries again."""
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
        await report.event(api, body, kind, done)
    return []


async def carry_out(
    api: KubernetesApi,
    rest: SlurmRest,
    lease: Lease,
    body: Object,
    decided: actions.Action,
    jobs: tuple[SlurmJob, ...] | Unknown = (),
) -> list[Finding]:
    """Attempt a decision about what `body` declares; `jobs` are for words."""
    return await attempt(api, body, actions.kind(decided), move(api, rest, lease, decided, jobs))


async def move(
    api: KubernetesApi,
    rest: SlurmRest,
    lease: Lease,
    decided: actions.Action,
    jobs: tuple[SlurmJob, ...] | Unknown = (),
) -> str:
    """Carry out one decision about a node set, or slurmctld.

    Args:
        api: the API server.
        rest: the cluster's slurmrestd.
        lease: ours.
        decided: what to do.
        jobs: what is known of jobs that have processes, to say what becomes of those that a node loses.

    Returns:
        A sentence about what was done, empty if there was nothing to do any more.
    """
    lease.check()
    match decided:
        case actions.SetReplicas():
            if not await _set_replicas(api, rest, lease, decided):
                return ""
            return f"set StatefulSet {decided.stateful_set} from {decided.was} to {decided.replicas} replicas"
        case actions.Drain(node=name):
            now = await rest.node(name)
            if now is None or not drains.may_be_drained(now, decided.reason):
                return ""
            lease.check()
            await rest.drain(name, decided.reason)
            metrics.DRAINS.labels(decided.reason.removeprefix(reasons.PREFIX).partition(" ")[0]).inc()
            purposes = {
                reasons.SCALE_IN: "it is to be removed",
                reasons.UPDATE: "it is to be updated",
                reasons.NEW: "it stays, and is to be seen to work",
            }
            return f"drained {name}: {purposes.get(decided.reason) or decided.reason.removeprefix(reasons.PREFIX)}"
        case actions.DrainDown(node=name):
            now = await rest.node(name)
            if now is None or not drains.may_return_by_itself(now):
                return ""
            lease.check()
            await rest.keep_out(name)
            return f"drained {name} under the reason of {now.reason_user}, who set it DOWN: {now.reason}"
        case actions.Undrain(node=name):
            now = await rest.node(name)
            if now is None or not drains.is_liftable(now):
                return ""
            lease.check()
            await rest.undrain(name)
            if drains.is_for_k8s_node(now):
                return f"undrained {name}: its machine may be used again"
            if drains.is_repair(now):
                return f"undrained {name}: its pod is ready again"
            return f"undrained {name}: {'it is new and works' if drains.is_new(now) else 'it stays as it is'}"
        case actions.DeleteRecord(node=name):
            now = await rest.node(name)
            if now is None or (drains.is_anothers(now) and not decided.anothers):
                return ""
            lease.check()
            await rest.delete_node(name)
            return f"deleted Slurm's record of {name}: its pod is gone"
        case actions.RequeueJobs(node=name):
            now = await rest.node(name)
            if now is None or now.reason not in (reasons.SCALE_IN, reasons.UPDATE) or not drains.is_operators(now):
                return ""
            end = slurm_nodes.deadline(now, decided.seconds, now.reason)
            told = await rest.time_there()
            if told is not None and end is not None and told < end:
                log.warning("clocks differ: slurmctld's says %s, the deadline of %s is %s", told, name, end)
                return ""
            lease.check()
            await rest.take_down(name, f"{now.reason}{reasons.DEADLINE_PASSED}")
            return f"took the jobs of {name}, its deadline has passed: {deletion.fates(jobs, name)}"
        case actions.Comment(node=name):
            now = await rest.node(name)
            if now is None or (now.comment and not now.comment.startswith(reasons.NODE)):
                return ""
            lease.check()
            await rest.comment(name, decided.text)
            return f"commented on {name}: {decided.text}" if decided.text else f"took the comment on {name} away"
        case actions.Reserve(name=name):
            if any(each.name.lower() == name for each in await rest.reservations()):
                return ""
            lease.check()
            await rest.reserve(name, decided.nodes, decided.starts, decided.ends)
            return f"reserved {shown(decided.nodes)} for updates: {_times(decided.starts, decided.ends)} ({name})"
        case actions.ChangeReservation(name=name):
            if not await _is_our_reservation(rest, name):
                return ""
            lease.check()
            await rest.change_reservation(name, decided.nodes, decided.ends, decided.starts)
            return f"changed reservation {name}: {shown(decided.nodes)}, until {decided.ends:%Y-%m-%d %H:%M} UTC"
        case actions.EndReservation(name=name):
            if not await _is_our_reservation(rest, name):
                return ""
            lease.check()
            await rest.end_reservation(name)
            return f"deleted reservation {name}: {decided.why}"
        case actions.SetEvictable(node=name, evictable=True):
            if any(not slurm_nodes.may_leave(now) for now in await _again(rest, (name,))):
                return ""
            lease.check()
            metadata = {"name": name, "uid": decided.uid}
            labels = {"labels": {names.LABEL_EVICTABLE: "true"}}
            await api.apply("v1", "pods", {"apiVersion": "v1", "kind": "Pod", "metadata": metadata | labels})
            return f"let {name} be evicted: it is drained and idle, and its machine is to be emptied"
        case actions.SetEvictable(node=name):
            label = names.LABEL_EVICTABLE.replace("/", "~1")
            await api.patch("v1", "pods", name, [{"op": "remove", "path": f"/metadata/labels/{label}"}])
            return f"protected {name} from eviction again"
        case actions.SetOnDelete(stateful_set=name):
            # Not applied: rollingUpdate, which Kubernetes filled in, has to go for it.
            strategy = {"type": "OnDelete", "rollingUpdate": None}
            change = {"metadata": {"resourceVersion": decided.resource_version}, "spec": {"updateStrategy": strategy}}
            await api.merge("apps/v1", "statefulsets", name, change)
            return f"took over the updates of StatefulSet {name}, so that slurmctld comes after slurmdbd"
        case actions.DeletePod(pod=name):
            is_worker = decided.purpose is not actions.Purpose.CONTROLLER
            before = await rest.node(name) if is_worker else None
            if is_worker and not _may_still_end(before, decided):
                return ""
            lease.check()
            if decided.cordon:
                await _cordon(api, lease, decided)
                # Calls that took their time lie between: a person may have come meanwhile.
                if not _may_still_end(await rest.node(name), decided):
                    return f"cordoned {decided.cordon}: {decided.why}; pod {name} stays, its node is another's by now"
                lease.check()
            if not await api.delete("v1", "pods", name, {"uid": decided.uid}) and not decided.cordon:
                return ""
            if decided.forget:
                await _forget(rest, lease, name, before)
            cordoned = f", and cordoned {decided.cordon}" if decided.cordon else ""
            return f"deleted the {_DELETED[decided.purpose].format(name)}{cordoned}: {decided.why}"


_DELETED = {
    actions.Purpose.UPDATE: "idle pod {}",
    actions.Purpose.ANEW: "idle pod {}, to start anew",
    actions.Purpose.ELSEWHERE: "idle pod {}, to start on another machine",
    actions.Purpose.CONTROLLER: "pod {}, jobs go on",
    actions.Purpose.REBOOT: "idle pod {}, to start anew",
}


async def _set_replicas(api: KubernetesApi, rest: SlurmRest, lease: Lease, decided: actions.SetReplicas) -> bool:
    """Set the size if the set still has the one that was decided on, and its nodes may still go; returns whether.

    The status of a set whose pods start changes several times a second, and its resourceVersion with it. So a conflict
    is looked into, a few times, and nodes are looked at anew each time.

    Raises:
        KubernetesError: 409 if the set has another size by now, or changes faster than that.
    """
    version = decided.resource_version
    for tries_left in reversed(range(SIZE_TRIES)):
        if any(not slurm_nodes.may_leave(now) for now in await _again(rest, decided.going)):
            return False
        lease.check()
        metadata = {"name": decided.stateful_set, "resourceVersion": version}
        spec = {"replicas": decided.replicas}
        body = {"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": metadata, "spec": spec}
        try:
            await api.apply("apps/v1", "statefulsets", body)
            return True
        except KubernetesError as error:
            if error.status != httpx.codes.CONFLICT or not tries_left:
                raise
            there = await api.get("apps/v1", "statefulsets", decided.stateful_set)
            if there is None or there["spec"].get("replicas") != decided.was:
                raise
            version = there["metadata"]["resourceVersion"]
    return False


def _may_still_end(now: SlurmNode | None, decided: actions.DeletePod) -> bool:
    """Whether a node is as idle as it was, under the drain on whose ground that was decided."""
    is_for_update = decided.purpose is actions.Purpose.UPDATE
    if decided.purpose is actions.Purpose.REBOOT:
        return now is not None and slurm_nodes.may_reboot(now)
    if now is None:
        return is_for_update  # A pod that never registered is made anew; a repair is for a record that was there.
    ours = drains.is_updating(now) if is_for_update else drains.is_held_for_repair(now)
    same = is_for_update or drains.fault(now) == decided.why
    return ours and same and slurm_nodes.may_restart(now)


async def _again(rest: SlurmRest, nodes: tuple[str, ...]) -> list[SlurmNode]:
    """The records of nodes at this moment; one that never registered has none."""
    listed = await rest.nodes(full=True) if nodes else {}
    return [listed[name] for name in nodes if name in listed]


async def _is_our_reservation(rest: SlurmRest, name: str) -> bool:
    """Whether there is a reservation of that name at this moment that the operator made."""
    return any(each.name == name and window.is_ours(each) for each in await rest.reservations())


def _times(starts: datetime.datetime, ends: datetime.datetime) -> str:
    return f"{starts:%Y-%m-%d %H:%M} to {ends:%Y-%m-%d %H:%M} UTC"


async def _forget(rest: SlurmRest, lease: Lease, name: str, before: SlurmNode | None) -> None:
    """Delete the record of a node whose pod was told to end.

    It stays if the next slurmd has registered already, or if somebody spoke of the node since: his word is in it.
    """
    now = await rest.node(name)
    if before is None or now is None or now.started != before.started:
        return
    if not (drains.is_updating(now) and slurm_nodes.looks_idle(now)):
        return
    lease.check()
    await rest.delete_node(name)


async def _cordon(api: KubernetesApi, lease: Lease, decided: actions.DeletePod) -> None:
    """Let nothing more be scheduled on a machine, and write why on it; pods that run there stay."""
    found = await api.get("v1", "nodes", decided.cordon)
    if found is None:
        return
    taints = [each for each in found["spec"].get("taints", []) if each["key"] != names.UNFIT_TAINT]
    taint = {"key": names.UNFIT_TAINT, "value": decided.pod, "effect": "NoSchedule"}
    version = found["metadata"]["resourceVersion"]
    annotations = {names.UNFIT_TAINT: f"{decided.pod}: {decided.why}"}
    change = {
        "metadata": {"resourceVersion": version, "annotations": annotations},
        "spec": {"unschedulable": True, "taints": [*taints, taint]},
    }
    lease.check()
    await api.merge("v1", "nodes", decided.cordon, change)


async def add_finalizer(api: KubernetesApi, lease: Lease, node_set: Object, rest_url: str) -> str:
    """Set our finalizer on a NodeSet and note whom to ask about its jobs: its deletion then waits for them."""
    lease.check()
    metadata = node_set["metadata"]
    finalizers = sorted({*metadata.get("finalizers", []), names.FINALIZER})
    annotations = {**metadata.get("annotations", {}), names.ANNOTATION_REST: rest_url}
    changed = {**metadata, "finalizers": finalizers, "annotations": annotations}
    await api.replace(CUSTOM_API, names.NODE_SETS, {**node_set, "metadata": changed})
    return f"a deletion of {metadata['name']} waits for its jobs from now on"


async def write_size(api: KubernetesApi, lease: Lease, node_set: Object, size: int) -> str:
    """Write the number of nodes that a set has into its spec, where nobody has said one: `GET …/scale` needs one."""
    lease.check()
    metadata = {"resourceVersion": node_set["metadata"]["resourceVersion"]}
    name = node_set["metadata"]["name"]
    await api.merge(CUSTOM_API, names.NODE_SETS, name, {"metadata": metadata, "spec": {"replicas": size}})
    return f"wrote the size of {name}, {size}, for whoever scales it"


async def remove_finalizer(
    api: KubernetesApi, lease: Lease, node_set: Object, decided: deletion.RemoveFinalizer
) -> str:
    """Let a NodeSet go, after its StatefulSet.

    Pulumi deletes the StatefulSet with propagation Orphan, for a replacement's sake; that would leave its pods and
    revisions behind, so it goes here.
    """
    lease.check()
    if decided.workload:
        version = {"resourceVersion": decided.workload.resource_version}
        await api.delete("apps/v1", "statefulsets", decided.workload.name, version)
        lease.check()
    metadata = node_set["metadata"]
    kept = [finalizer for finalizer in metadata["finalizers"] if finalizer != names.FINALIZER]
    await api.replace(CUSTOM_API, names.NODE_SETS, {**node_set, "metadata": {**metadata, "finalizers": kept}})
    return f"let {metadata['name']} go: {decided.why}"
