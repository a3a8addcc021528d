"""Tells whether a node is ready *now*: a restarted node's objects still say Ready from before it went down."""

from __future__ import annotations

import datetime
from collections.abc import Iterable
from typing import Any

Resource = dict[str, Any]


def missing(nodes: Iterable[Resource], dns_pods: Iterable[Resource], since: float) -> str | None:
    """Return what an instance still lacks; None when it is ready.

    Args:
        nodes: Its Nodes.
        dns_pods: The pods of its DNS.
        since: Its start, in seconds since the epoch. Earlier reports do not count.
    """
    # Kubernetes' times have whole seconds.
    start = datetime.datetime.fromtimestamp(int(since), datetime.UTC)
    if not any(_node_is_ready(node, start) for node in nodes):
        return "the node has not reported Ready"
    if not any(_pod_is_ready(pod, start) for pod in dns_pods):
        return "no pod of the cluster's DNS is ready"
    return None


def _node_is_ready(node: Resource, start: datetime.datetime) -> bool:
    return any(
        condition["type"] == "Ready"
        and condition["status"] == "True"
        and _time(condition["lastHeartbeatTime"]) >= start
        for condition in node.get("status", {}).get("conditions", [])
    )


def _pod_is_ready(pod: Resource, start: datetime.datetime) -> bool:
    return any(
        status["ready"] and _time(status["state"]["running"]["startedAt"]) >= start
        for status in pod.get("status", {}).get("containerStatuses", [])
        if "running" in status["state"]
    )


def _time(text: str) -> datetime.datetime:
    return datetime.datetime.fromisoformat(text)
