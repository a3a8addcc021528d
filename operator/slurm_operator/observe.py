"""Reads the Kubernetes objects of a pass. slurm_operator/parse turns each into a plain value."""

from __future__ import annotations

import asyncio
import base64
import dataclasses
from collections.abc import Awaitable, Mapping
from typing import TypeVar

import httpx

from contract import names
from slurm_operator.clients.kubernetes import KubernetesError, Object
from slurm_operator.clients.watched_reads import Reads
from slurm_operator.decide.cluster import accounting
from slurm_operator.parse.pods import parse_pod
from slurm_operator.parse.resources import parse_cluster
from slurm_operator.parse.workloads import parse_workload
from slurm_operator.state.kubernetes import Kubernetes, Pod, Unread, Workload

_LOG_LINES = 100
_T = TypeVar("_T")


async def clusters(reads: Reads) -> list[Object]:
    """List the namespace's SlurmClusters, oldest first."""
    listed = await reads.list(names.API_VERSION, names.SLURM_CLUSTERS)
    return sorted(listed, key=lambda item: (item["metadata"]["creationTimestamp"], item["metadata"]["name"]))


async def files(reads: Reads, config_map: str) -> Mapping[str, str] | None:
    """Read a ConfigMap's files, None if there is no such ConfigMap."""
    body = await reads.get_latest("v1", "configmaps", config_map)
    return None if body is None else body.get("data") or {}


async def node_sets(reads: Reads) -> dict[str, Object]:
    """List the namespace's NodeSets by name."""
    return {item["metadata"]["name"]: item for item in await reads.list(names.API_VERSION, names.NODE_SETS)}


async def workloads(reads: Reads, cluster: str) -> tuple[dict[str, Workload], dict[str, Pod]]:
    """Read the namespace's StatefulSets, and the pods of a cluster; pods last, so that no set seems without its own."""
    stateful_sets = await reads.list("apps/v1", "statefulsets")
    labels = f"{names.LABEL_NAME}={names.APPLICATION},{names.LABEL_INSTANCE}={cluster}"
    pods = await reads.list_as(parse_pod, "v1", "pods", labels)
    by_name = {item["metadata"]["name"]: parse_workload(item) for item in stateful_sets}
    return by_name, {worker_pod.name: worker_pod for worker_pod in pods}


async def kubernetes(reads: Reads, body: Object) -> tuple[Kubernetes, Mapping[str, Object]]:
    """Read what concerns a SlurmCluster in Kubernetes, and the NodeSet resources as they are, for a later look."""
    cluster, unread = parse_cluster(body), dict[Unread, str]()
    everything, (sets, pods), rest, dry_run = await asyncio.gather(
        node_sets(reads),
        workloads(reads, cluster.name),
        _unless_refused(Unread.REST, unread, reads.get("apps/v1", "deployments", cluster.rest)),
        _unless_refused(Unread.DRY_RUN, unread, reads.get("apps/v1", "deployments", names.CONFIG_DRY_RUN)),
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
        node_sets=(),
        workloads=sets,
        rest=None if rest is None else parse_workload(rest),
        pods=pods,
        desired_config=wanted if shown else None,
        active_config=active if shown else None,
        ledger_revision=_ledger_revision(ledger),
        dry_run=None if dry_run is None else parse_workload(dry_run),
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


def _ledger_revision(secret: Object | None) -> str | None:
    if secret is None:
        return None
    encoded = (secret.get("data") or {}).get(names.LEDGER_REVISION)
    return None if encoded is None else base64.b64decode(encoded).decode(errors="replace").strip()
