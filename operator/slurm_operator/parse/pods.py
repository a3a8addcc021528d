"""Parses pods."""

from __future__ import annotations

import datetime
import functools
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from contract import names
from slurm_operator.state.kubernetes import Pod, PodCondition, Toleration

_STARTING = frozenset({"ContainerCreating", "PodInitializing"})
"""The kubelet's reasons of containers that wait for their turn. Each other one says what keeps it from starting."""
_a_toleration = functools.lru_cache(1000)(Toleration)
"""Equal tolerations are one object: thousands of pods have the same."""


def parse_pod(body: Mapping[str, Any]) -> Pod:
    """Parse a pod."""
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
        slurm=_pod_condition(conditions.get(names.POD_CONDITION)),
        health=_pod_condition(conditions.get(names.POD_HEALTH)),
    )


def _pod_condition(item: Mapping[str, Any] | None) -> PodCondition | None:
    if item is None:
        return None
    words = item.get("reason", ""), item.get("message", "")
    return PodCondition(item["status"], *words, since=item.get("lastTransitionTime") or "")


def _toleration(item: Mapping[str, Any]) -> Toleration:
    exists = item.get("operator") == "Exists"
    return _a_toleration(item.get("key", ""), item.get("effect", ""), item.get("value", ""), any_value=exists)


def _trouble(
    status: Mapping[str, Any], conditions: Mapping[str, Mapping[str, Any]], containers: Sequence[Mapping[str, Any]]
) -> str:
    scheduled = conditions.get("PodScheduled", {})
    if scheduled.get("status") == "False":  # Unschedulable, or SchedulingGated where a queue of pods holds it.
        return f"{scheduled.get('reason', 'Unschedulable')}: {scheduled.get('message', '')}".rstrip(": ")
    for item in containers:
        waiting = item.get("state", {}).get("waiting", {})
        if waiting.get("reason", "ContainerCreating") not in _STARTING:
            last_words = item.get("lastState", {}).get("terminated", {}).get("message", "")
            said = " / ".join(text.strip() for text in (waiting.get("message", ""), last_words) if text.strip())
            return f"container {item['name']}: {waiting['reason']}: {said}".rstrip(": ")
    if status.get("phase") != "Failed":
        return ""
    ended = [item["state"]["terminated"] for item in containers if "terminated" in item.get("state", {})]
    words = [end.get("message", "").strip() for end in ended if end.get("exitCode")]
    return next((text for text in words if text), status.get("message") or "failed without a message")
