"""Parses StatefulSets and Deployments."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Mapping
from typing import Any

from contract import pod_variables
from contract.pod_variables import NodeKey
from slurm_operator.gres import canonical
from slurm_operator.state.kubernetes import Workload
from slurm_operator.state.slurm import Facts


def parse_workload(body: Mapping[str, Any]) -> Workload:
    """Parse a StatefulSet or Deployment."""
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
        refused=_refused(status),
    )


def _refused(status: Mapping[str, Any]) -> str:
    """Return why a Deployment's pods are not made; a StatefulSet has no such condition."""
    failures = [item for item in status.get("conditions") or () if item["type"] == "ReplicaFailure"]
    return next((item.get("message", "") for item in failures if item["status"] == "True"), "")


def _slurm_node(pod_spec: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a worker's SLURM_NODE (components/slurm/node_set.py); empty where there is no such thing."""
    variables = [variable for item in pod_spec.get("containers", []) for variable in item.get("env", [])]
    said = next((variable.get("value", "") for variable in variables if variable["name"] == pod_variables.NODE), "")
    with contextlib.suppress(ValueError):
        node = json.loads(said)
        return node if isinstance(node, dict) else {}
    return {}


def _facts(node: Mapping[str, Any]) -> Facts | None:
    """Return a node's size from SLURM_NODE."""
    with contextlib.suppress(ValueError, KeyError, TypeError, AttributeError):
        options = tuple(sorted((key, int(value)) for key, value in node.get(NodeKey.OPTIONS, {}).items()))
        gres = canonical(node.get(NodeKey.GRES) or "")
        return Facts(int(node[NodeKey.CPUS]), int(node[NodeKey.MEMORY_MIB]), gres, options)
    return None


def _weights(node: Mapping[str, Any]) -> tuple[int, int] | None:
    """Return the weights in SLURM_NODE: the first nodes', and how many nodes share one."""
    with contextlib.suppress(ValueError, KeyError, TypeError):
        return int(node[NodeKey.WEIGHT]), int(node[NodeKey.WEIGHT_BUCKET])
    return None
