"""Pods that Kubernetes does not make: a quota, a PodSecurity level, a LimitRange, a webhook or a policy refuses them.

A Deployment's status has the API server's words. Those about a StatefulSet's pods stand in Events alone.
"""

from __future__ import annotations

import dataclasses
import datetime
from collections.abc import Collection, Iterable

from contract import names
from contract.conditions import Reason
from slurm_operator.findings import Finding
from slurm_operator.state.kubernetes import Kubernetes, Workload

EVENTS = {"fieldSelector": "involvedObject.kind=StatefulSet,reason=FailedCreate,type=Warning"}
"""Query parameters that select the Events about such pods, and about claims of such pods."""
_HOLDS = datetime.timedelta(minutes=20)
"""Kubernetes' StatefulSet controller tries again after at most 1,000 s. What an older Event says is over."""


@dataclasses.dataclass(frozen=True, slots=True)
class Refusal:
    """A refusal of a StatefulSet's pod, in the API server's words."""

    stateful_set: str
    pod: str
    words: str
    at: datetime.datetime


def lacking(seen: Kubernetes) -> dict[str, tuple[int, int, str]]:
    """Return the cluster's StatefulSets that have fewer pods than they want, with what changes when one is made."""
    cluster = seen.cluster
    daemons = {cluster.controller, cluster.login, *cluster.login_sets, cluster.accounting, names.DATABASE}
    own = daemons | {node_set.stateful_set for node_set in seen.node_sets}
    return {
        name: (workload.replicas, workload.created, workload.revision)
        for name, workload in seen.workloads.items()
        if name in own and workload.created < workload.replicas
    }


def told(
    refusals: Iterable[Refusal], stateful_sets: Collection[str], pods: Collection[str], now: datetime.datetime
) -> dict[str, str]:
    """Return the newest words about each of the StatefulSets; pods that exist by now count no more."""
    newest = sorted(refusals, key=lambda refusal: refusal.at)
    return {
        refusal.stateful_set: refusal.words
        for refusal in newest
        if refusal.stateful_set in stateful_sets and refusal.pod not in pods and refusal.at > now - _HOLDS
    }


def suffix(workload: Workload | None) -> str:
    """Return why pods are not made as the end of a sentence; empty if nothing refuses them."""
    return f" (Kubernetes makes no pod: {workload.refused})" if workload and workload.refused else ""


def findings(kind: str, workload: Workload | None) -> list[Finding]:
    """Return a finding about a workload whose pods are refused."""
    if workload is None or not workload.refused:
        return []
    return [Finding(Reason.PODS_REFUSED, f"{kind} {workload.name}: Kubernetes makes no pod: {workload.refused}")]


def of_daemons(seen: Kubernetes) -> list[Finding]:
    """Return the findings about workloads that are no node set's."""
    of_sets = {node_set.stateful_set for node_set in seen.node_sets}
    daemons = [workload for name, workload in sorted(seen.workloads.items()) if name not in of_sets]
    told_of = [finding for workload in daemons for finding in findings("StatefulSet", workload)]
    return told_of + [finding for workload in (seen.rest, seen.dry_run) for finding in findings("Deployment", workload)]
