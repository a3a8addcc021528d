"""Finds what is wrong in a cluster at rest. Pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from bench.faults.kinds import OTHERS_WORDS
from bench.faults.verdict.history import Kubernetes, Slurm
from contract.conditions import ConditionType

WANTED: Mapping[str, str] = {
    ConditionType.AVAILABLE: "True",
    ConditionType.DEGRADED: "False",
    ConditionType.DRAINED_BY_PEOPLE: "False",
    ConditionType.HEALING: "True",
    ConditionType.NODES_WATCHED: "True",
    ConditionType.PROGRESSING: "False",
    ConditionType.SCALED_OUTSIDE_PULUMI: "False",
}
"""Conditions of a cluster at rest, as far as a resource has them."""
USABLE = frozenset({"IDLE", "MIXED", "ALLOCATED"})
UNUSABLE = frozenset({"DOWN", "DRAIN", "FAIL", "NOT_RESPONDING", "INVALID_REG", "UNKNOWN"})


def troubles(kubernetes: Kubernetes, slurm: Slurm, nodes: Collection[str]) -> list[str]:
    """Return a sentence for each thing that is wrong; empty if the cluster is well.

    Args:
        kubernetes: the last look at the API server.
        slurm: the last look at slurmctld.
        nodes: the nodes that Slurm is to have.
    """
    return [
        *kubernetes.node_problems,
        *kubernetes.unready,
        *(f"pod {name} ends" for name, pod in kubernetes.pods.items() if pod.ending),
        *_conditions(kubernetes),
        *_nodes(slurm, nodes),
    ]


def _conditions(kubernetes: Kubernetes) -> list[str]:
    """Return the conditions with an unwanted status, and the resources without any condition."""
    rows = [
        f"{title} {kind}={condition.status}: {condition.message}"
        for title, conditions in kubernetes.conditions.items()
        for kind, condition in conditions.items()
        if WANTED.get(kind, condition.status) != condition.status or OTHERS_WORDS in condition.message
    ]
    silent: Mapping[str, str] = {
        title: f"{title} has no condition Available"
        for title, conditions in kubernetes.conditions.items()
        if ConditionType.AVAILABLE not in conditions
    }
    nobody = [] if kubernetes.holder else ["nobody holds the operator's lease"]
    return [*rows, *silent.values(), *nobody]


def _nodes(slurm: Slurm, nodes: Collection[str]) -> list[str]:
    rows = [
        f"node {name} is {'+'.join(sorted(node.states))}{node.reason and f' ({node.reason})'}"
        for name, node in slurm.nodes.items()
        if node.states & UNUSABLE or not node.states & USABLE
    ]
    missing, more = sorted(set(nodes) - slurm.nodes.keys()), sorted(slurm.nodes.keys() - set(nodes))
    return [*rows, *(f"node {name} is missing" for name in missing), *(f"node {name} is still there" for name in more)]
