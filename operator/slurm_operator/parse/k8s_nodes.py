"""Parses Kubernetes nodes."""

from __future__ import annotations

import dataclasses
import datetime
import functools
from collections.abc import Mapping, Set
from typing import Any

from slurm_operator.state.kubernetes import K8sNode, Taint

_a_k8s_node = functools.lru_cache(1000)(K8sNode)
"""Equal Kubernetes nodes are one object: thousands are alike."""


@dataclasses.dataclass(frozen=True, slots=True)
class K8sNodeParser:
    """Parses Kubernetes nodes.

    Parsers with the same labels and conditions are equal: a watch goes on if its parser is replaced by an equal one.

    Attributes:
        labels: keys of the labels that are kept.
        conditions: types of the conditions that are kept.
    """

    labels: frozenset[str] = frozenset()
    conditions: frozenset[str] = frozenset()

    def __call__(self, body: Mapping[str, Any]) -> K8sNode:
        """Parse a Kubernetes node."""
        return parse_k8s_node(body, self.labels, self.conditions)


def parse_k8s_node(body: Mapping[str, Any], labels: Set[str] = frozenset(), kept: Set[str] = frozenset()) -> K8sNode:
    """Parse a Kubernetes node, with these labels and types of conditions.

    One that never said whether it is ready is not away.
    """
    own = body["metadata"].get("labels", {})
    spec, conditions = body.get("spec", {}), body.get("status", {}).get("conditions", [])
    ready: Mapping[str, Any] = next((item for item in conditions if item["type"] == "Ready"), {})
    # A virtual kubelet may write no time.
    since = ready.get("lastTransitionTime") or body["metadata"].get("creationTimestamp")
    away = since if ready.get("status") not in ("True", None) else None
    taints = (Taint(item["key"], item["effect"], item.get("value", "")) for item in spec.get("taints", []))
    return _a_k8s_node(
        cordoned=spec.get("unschedulable", False),
        taints=tuple(taints),
        away_since=datetime.datetime.fromisoformat(away) if away else None,
        labels=tuple((key, own[key]) for key in sorted(labels & own.keys())),
        conditions=tuple(
            (item["type"], item["status"], item.get("reason", "")) for item in conditions if item["type"] in kept
        ),
    )
