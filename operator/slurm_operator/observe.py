"""Reads the Kubernetes objects of a pass as plain values."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import dataclasses
import datetime
import functools
import json
import sys
from collections.abc import Awaitable, Mapping, Set
from typing import TypeVar

import httpx

from contract import names, pod_variables, policies
from contract.pod_variables import NodeKey
from contract.policies import ReactionPolicy
from slurm_operator import accounts
from slurm_operator.clients.kubernetes import KubernetesError, Object
from slurm_operator.clients.watched_reads import Reads
from slurm_operator.decide.cluster import accounting, ownership
from slurm_operator.decide.nodes import pod_conditions
from slurm_operator.gres import canonical
from slurm_operator.state import (
    Cluster,
    Facts,
    K8sNode,
    Kubernetes,
    NodeCondition,
    NodeSet,
    Place,
    Pod,
    PodCondition,
    RemovalPolicy,
    Restart,
    Taint,
    Toleration,
    Unread,
    UpdatePolicy,
    Window,
    Workload,
)

CUSTOM_API = names.API_VERSION
_A_MONDAY = datetime.date(2024, 1, 1)
_LOG_LINES = 100
_Policy = TypeVar("_Policy", UpdatePolicy, ReactionPolicy)
_T = TypeVar("_T")
_NOT_STARTING = frozenset(
    {"ImagePullBackOff", "ErrImagePull", "InvalidImageName", "ErrImageNeverPull", "CreateContainerConfigError"}
    | {"CreateContainerError", "RunContainerError", "CrashLoopBackOff"}
)
_a_toleration = functools.lru_cache(1000)(Toleration)
_a_k8s_node = functools.lru_cache(1000)(K8sNode)
"""Equal records are one object: thousands of pods and Kubernetes nodes have the same."""


async def clusters(reads: Reads) -> list[Object]:
    """List the namespace's SlurmClusters, oldest first."""
    listed = await reads.list(CUSTOM_API, names.SLURM_CLUSTERS)
    return sorted(listed, key=lambda item: (item["metadata"]["creationTimestamp"], item["metadata"]["name"]))


async def files(reads: Reads, config_map: str) -> Mapping[str, str] | None:
    """Read a ConfigMap's files, None if there is no such ConfigMap."""
    body = await reads.get_latest("v1", "configmaps", config_map)
    return None if body is None else body.get("data") or {}


async def node_sets(reads: Reads) -> dict[str, Object]:
    """List the namespace's NodeSets by name."""
    return {item["metadata"]["name"]: item for item in await reads.list(CUSTOM_API, names.NODE_SETS)}


async def workloads(reads: Reads, cluster: str) -> tuple[dict[str, Workload], dict[str, Pod]]:
    """Read the namespace's StatefulSets, and the pods of a cluster; pods last, so that no set seems without its own."""
    stateful_sets = await reads.list("apps/v1", "statefulsets")
    labels = f"{names.LABEL_NAME}={names.APPLICATION},{names.LABEL_INSTANCE}={cluster}"
    pods = await reads.list_as(pod, "v1", "pods", labels)
    by_name = {item["metadata"]["name"]: workload(item) for item in stateful_sets}
    return by_name, {worker_pod.name: worker_pod for worker_pod in pods}


async def kubernetes(reads: Reads, body: Object) -> tuple[Kubernetes, Mapping[str, Object]]:
    """Read everything in Kubernetes that concerns a SlurmCluster, and the NodeSet resources as they are."""
    cluster, unread = read_cluster(body), dict[Unread, str]()
    everything, (sets, pods), rest = await asyncio.gather(
        node_sets(reads),
        workloads(reads, cluster.name),
        _unless_refused(Unread.REST, unread, reads.get("apps/v1", "deployments", cluster.rest)),
    )
    # After the objects: Pulumi writes the ledger before any of them, so whoever sees a change knows its ledger.
    wanted, active, ledger = await asyncio.gather(
        _unless_refused(Unread.CONFIGURATION, unread, files(reads, cluster.desired_config)),
        _unless_refused(Unread.CONFIGURATION, unread, files(reads, cluster.active_config)),
        _unless_refused(Unread.LEDGER, unread, reads.get_latest("v1", "secrets", names.LEDGER)),
    )
    shown = Unread.CONFIGURATION not in unread
    seen = Kubernetes(
        cluster=cluster,
        node_sets=tuple(node_set(item) for _, item in sorted(everything.items())),
        workloads=sets,
        rest=None if rest is None else workload(rest),
        pods=pods,
        desired_config=wanted if shown else None,
        active_config=active if shown else None,
        ledger_revision=_ledger_revision(ledger),
        unread=unread,
    )
    return dataclasses.replace(seen, accounting_words=await _accounting_words(reads, seen)), everything


async def _unless_refused(part: Unread, unread: dict[Unread, str], reading: Awaitable[_T | None]) -> _T | None:
    """Return what is read, None if the operator lacks the right to read it: `unread` then has the words."""
    try:
        return await reading
    except KubernetesError as error:
        if error.status != httpx.codes.FORBIDDEN:
            raise
        unread[part] = str(error)
        return None


async def _accounting_words(reads: Reads, seen: Kubernetes) -> str:
    """Return what slurmdbd says while it is not ready; a log that can't be read does not end the pass."""
    if not accounting.is_waiting(seen):
        return ""
    pod_name = f"{seen.cluster.accounting}-0"
    starting = seen.pods[pod_name].trouble if pod_name in seen.pods else ""
    try:
        return starting or accounting.last_words(await reads.log(pod_name, _LOG_LINES))
    except KubernetesError:
        return starting


def read_cluster(body: Object) -> Cluster:
    """Read a SlurmCluster; the CRD filled in the defaults."""
    spec = body["spec"]
    configuration = body.get("status", {}).get("configuration", {})
    return Cluster(
        name=body["metadata"]["name"],
        revision=spec["revision"],
        rest_url=spec["rest"]["url"],
        desired_config=spec["wantedConfig"],
        active_config=spec["activeConfig"],
        controller=spec["controller"],
        rest=spec["restDeployment"],
        login=spec["login"],
        accounting=spec.get("accounting", ""),
        dry_run_url=spec["rehearsal"]["url"],
        closed=frozenset(configuration.get("closed", ())),
        administrators=spec.get("administrators", {}),
        appointed=body.get("status", {}).get("administrators") or {},
        accounts=accounts.declared(spec),
        ledger=accounts.ledger(body.get("status", {})),
    )


def workload(body: Object) -> Workload:
    """Read a StatefulSet or Deployment."""
    metadata, spec, status = body["metadata"], body["spec"], body.get("status", {})
    replicas = spec.get("replicas", 1)
    on_delete = spec.get("updateStrategy", {}).get("type") == "OnDelete"
    observed = status.get("observedGeneration", 0) >= metadata.get("generation", 1)
    said = _slurm_node(spec.get("template", {}).get("spec", {}))
    return Workload(
        name=metadata["name"],
        replicas=replicas,
        ready=status.get("readyReplicas", 0),
        resource_version=metadata["resourceVersion"],
        current=observed and (on_delete or status.get("updatedReplicas", 0) >= replicas),
        created=status.get("replicas", 0),
        revision=status.get("updateRevision", "") if observed else "",
        on_delete=on_delete,
        facts=_facts(said),
        weights=_weights(said),
    )


def _slurm_node(pod_spec: Object) -> Object:
    """Return a worker's SLURM_NODE (components/slurm/node_set.py); empty where there is no such thing."""
    variables = [variable for item in pod_spec.get("containers", []) for variable in item.get("env", [])]
    said = next((variable.get("value", "") for variable in variables if variable["name"] == pod_variables.NODE), "")
    with contextlib.suppress(ValueError):
        node = json.loads(said)
        return node if isinstance(node, dict) else {}
    return {}


def _facts(node: Object) -> Facts | None:
    """Return a node's size from SLURM_NODE."""
    with contextlib.suppress(ValueError, KeyError, TypeError, AttributeError):
        options = tuple(sorted((key, int(value)) for key, value in node.get(NodeKey.OPTIONS, {}).items()))
        gres = canonical(node.get(NodeKey.GRES) or "")
        return Facts(int(node[NodeKey.CPUS]), int(node[NodeKey.MEMORY_MIB]), gres, options)
    return None


def _weights(node: Object) -> tuple[int, int] | None:
    """Return the weights in SLURM_NODE: the first nodes', and how many nodes share one."""
    with contextlib.suppress(ValueError, KeyError, TypeError):
        return int(node[NodeKey.WEIGHT]), int(node[NodeKey.WEIGHT_BUCKET])
    return None


def pod(body: Object) -> Pod:
    """Read a pod."""
    metadata, status = body["metadata"], body.get("status", {})
    conditions = {item["type"]: item for item in status.get("conditions", [])}
    containers = status.get("initContainerStatuses", []) + status.get("containerStatuses", [])
    created = metadata.get("creationTimestamp")
    return Pod(
        name=metadata["name"],
        component=sys.intern(metadata.get("labels", {}).get(names.LABEL_COMPONENT, "")),
        ready=conditions.get("Ready", {}).get("status") == "True",
        running=any("running" in item.get("state", {}) for item in containers),
        terminating="deletionTimestamp" in metadata,
        created=None if created is None else datetime.datetime.fromisoformat(created),
        trouble=_trouble(status, conditions, containers),
        revision=sys.intern(metadata.get("labels", {}).get(names.LABEL_REVISION, "")),
        uid=metadata.get("uid", ""),
        k8s_node=body.get("spec", {}).get("nodeName", ""),
        tolerations=tuple(_toleration(item) for item in body.get("spec", {}).get("tolerations", [])),
        evictable=names.LABEL_EVICTABLE in metadata.get("labels", {}),
        slurm=_pod_condition(conditions.get(pod_conditions.TYPE)),
        health=_pod_condition(conditions.get(pod_conditions.HEALTH)),
    )


def _pod_condition(item: Object | None) -> PodCondition | None:
    if item is None:
        return None
    words = item.get("reason", ""), item.get("message", "")
    return PodCondition(item["status"], *words, since=item.get("lastTransitionTime") or "")


def _toleration(item: Object) -> Toleration:
    exists = item.get("operator") == "Exists"
    return _a_toleration(item.get("key", ""), item.get("effect", ""), item.get("value", ""), any_value=exists)


@dataclasses.dataclass(frozen=True, slots=True)
class K8sNodeReader:
    """Reads Kubernetes nodes. Equal readers keep the same, and watches tell by that whether they are the same.

    Attributes:
        labels: keys of the labels that are kept.
        conditions: types of the conditions that are kept.
    """

    labels: frozenset[str] = frozenset()
    conditions: frozenset[str] = frozenset()

    def __call__(self, body: Object) -> K8sNode:
        """Read a Kubernetes node."""
        return k8s_node(body, self.labels, self.conditions)


def k8s_node(body: Object, labels: Set[str] = frozenset(), kept: Set[str] = frozenset()) -> K8sNode:
    """Read a Kubernetes node, with these labels and types of conditions.

    One that never said whether it is ready is not away.
    """
    own = body["metadata"].get("labels", {})
    spec, conditions = body.get("spec", {}), body.get("status", {}).get("conditions", [])
    ready: Object = next((item for item in conditions if item["type"] == "Ready"), {})
    away = ready.get("status") not in ("True", None)
    taints = (Taint(item["key"], item["effect"], item.get("value", "")) for item in spec.get("taints", []))
    return _a_k8s_node(
        cordoned=spec.get("unschedulable", False),
        taints=tuple(taints),
        away_since=datetime.datetime.fromisoformat(ready["lastTransitionTime"]) if away else None,
        labels=tuple((key, own[key]) for key in sorted(labels & own.keys())),
        conditions=tuple(
            (item["type"], item["status"], item.get("reason", "")) for item in conditions if item["type"] in kept
        ),
    )


def _trouble(status: Object, conditions: Mapping[str, Object], containers: list[Object]) -> str:
    scheduled = conditions.get("PodScheduled", {})
    if scheduled.get("status") == "False" and scheduled.get("reason") == "Unschedulable":
        return f"Unschedulable: {scheduled.get('message', '')}".rstrip(": ")
    for item in containers:
        waiting = item.get("state", {}).get("waiting", {})
        if waiting.get("reason") in _NOT_STARTING:
            last_words = item.get("lastState", {}).get("terminated", {}).get("message", "")
            said = " / ".join(text.strip() for text in (waiting.get("message", ""), last_words) if text.strip())
            return f"container {item['name']}: {waiting['reason']}: {said}".rstrip(": ")
    if status.get("phase") != "Failed":
        return ""
    ended = [item["state"]["terminated"] for item in containers if "terminated" in item.get("state", {})]
    words = [end.get("message", "").strip() for end in ended if end.get("exitCode")]
    return next((text for text in words if text), status.get("message") or "failed without a message")


def node_set(body: Object) -> NodeSet:
    """Read a NodeSet; of one that is being deleted no node is wanted."""
    metadata, spec = body["metadata"], body["spec"]
    annotations = metadata.get("annotations", {})
    deleting = "deletionTimestamp" in metadata
    guarded = names.FINALIZER in metadata.get("finalizers", [])
    removal = _removal_policy(spec.get("removal", {}))
    declared = annotations.get(names.ANNOTATION_REPLICAS, "")
    return NodeSet(
        name=metadata["name"],
        cluster=spec["cluster"],
        stateful_set=spec["statefulSet"],
        replicas=0 if deleting else spec.get("replicas"),
        finalizer_url=annotations.get(names.ANNOTATION_REST, "") if guarded else None,
        deleting=deleting,
        forced=annotations.get(names.ANNOTATION_FORCE) == "true" or removal.force,
        removal=removal,
        update=_update_policy(spec.get("update", {})),
        reactions=_policy(ReactionPolicy, spec.get("reactions", {})),
        restarts=tuple(
            Restart(noted["node"], datetime.datetime.fromisoformat(noted["at"]), noted.get("replace", False))
            for noted in body.get("status", {}).get("restarts", [])
        ),
        updating=frozenset(body.get("status", {}).get("updating", [])),
        approved=frozenset(annotations.get(names.ANNOTATION_APPROVE, "").split(",")),
        declared=int(declared) if declared.isdecimal() and not deleting else None,
        scaled_by=tuple(ownership.writers(body, ("f:spec", "f:replicas"))),
        features=tuple(spec["features"]) if "features" in spec else None,
        feature_labels=tuple(spec.get("featureLabels", ())),
        conditions=tuple(_node_condition(item) for item in spec.get("nodeConditions", ())),
        topology=tuple(_place(item) for item in spec["topology"]) if "topology" in spec else None,
    )


def _place(item: Object) -> Place:
    return Place(item["name"], item.get("unit", ""), tuple(item.get("labels", ())))


def _node_condition(item: Object) -> NodeCondition:
    return NodeCondition(item["type"], item.get("failsWhen", True), item.get("unknownDrains", False))


def _update_policy(spec: Object) -> UpdatePolicy:
    room, said = spec.get("maxUnavailable"), spec.get("window")
    spec = {**spec, "window": _window(said) if said else None}
    if isinstance(room, str):
        spec = {**spec, "maxUnavailable": 1, "percent": int(room.removesuffix("%"))}
    return _policy(UpdatePolicy, spec)


def _window(said: Object) -> Window:
    """Read a window; the CRD has seen that it is one."""
    start, duration = str(said["start"]), datetime.timedelta(seconds=said["durationSeconds"])
    if start.endswith("Z"):
        return Window(datetime.datetime.fromisoformat(start), duration, weekly=False)
    day, _, clock = start.partition(" ")
    at = datetime.datetime.combine(_A_MONDAY, datetime.time.fromisoformat(clock), datetime.UTC)
    return Window(at + datetime.timedelta(days=policies.WEEKDAYS.index(day)), duration)


def _removal_policy(spec: Object) -> RemovalPolicy:
    forced = spec.get("jobs") == "force"
    return RemovalPolicy(0 if forced else spec.get("deadlineSeconds"), force=forced)


def _policy(kind: type[_Policy], spec: Object) -> _Policy:
    """Read a policy, whose keys are those of the fields, in camelCase; the CRD has the same defaults."""
    words = {field.name: field.name.split("_") for field in dataclasses.fields(kind)}
    keys = {name: first + "".join(word.title() for word in more) for name, (first, *more) in words.items()}
    return kind(**{name: spec[key] for name, key in keys.items() if key in spec})


def _ledger_revision(secret: Object | None) -> str | None:
    if secret is None:
        return None
    encoded = (secret.get("data") or {}).get(names.LEDGER_REVISION)
    return None if encoded is None else base64.b64decode(encoded).decode(errors="replace").strip()
