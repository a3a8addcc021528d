"""Clusters as a pass sees them, and what a status says of them."""

from __future__ import annotations

import dataclasses
import datetime
from typing import Any

from slurm_operator.decide.cluster import status
from slurm_operator.decide.cluster.status import Counts
from slurm_operator.decide.nodes.workers import NodeSetState
from slurm_operator.findings import Condition
from slurm_operator.state.kubernetes import Kubernetes, Pod, Workload
from slurm_operator.state.resources import Cluster, NodeSet
from slurm_operator.state.slurm import Nodes, SlurmNode, Unknown

NOW = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)
CLUSTER = Cluster(
    *("test", "r1", "http://slurm-rest:6820", "slurm-config-wanted", "slurm-config"),
    *("slurm-controller", "slurm-rest", "slurm-login"),
)
BLIND = Unknown("RestUnreachable", "http://slurm-rest:6820: no answer in time")


def node(name: str, *states: str, reason: str = "", user: str = "root", cpus: int = 0) -> SlurmNode:
    return SlurmNode(name, frozenset(states or {"IDLE", "DYNAMIC_NORM"}), reason, user, cpus)


def workload(name: str, size: int = 1, ready: int | None = None, *, current: bool = True) -> Workload:
    return Workload(name, size, size if ready is None else ready, "1", current, size)


def world(size: int = 2, **changes: Any) -> Kubernetes:
    names = [f"cpu-{n}" for n in range(size)]
    return dataclasses.replace(
        Kubernetes(
            cluster=CLUSTER,
            node_sets=(NodeSet("cpu", "test", "cpu", size),),
            workloads={
                "cpu": workload("cpu", size),
                **{name: workload(name) for name in ("slurm-controller", "slurm-login")},
            },
            rest=workload("slurm-rest"),
            pods={name: Pod(name, "worker", ready=True, running=True, created=NOW) for name in names},
            desired_config={"slurm.conf": ""},
            active_config={"slurm.conf": ""},
            ledger_revision="r1",
        ),
        **changes,
    )


def judge(seen: Kubernetes, nodes: Nodes | Unknown, wanted: int | None = None) -> tuple[dict[str, Condition], Counts]:
    node_set = seen.node_sets[0]
    there = seen.workloads.get("cpu")
    size = there.replicas if there and wanted is None else wanted
    asked = node_set if size is None else dataclasses.replace(node_set, replicas=size)
    counts, found = status.node_set(NodeSetState(asked, there, seen.pods, NOW).seen(nodes))
    counts = status.total([counts])
    conditions = status.cluster(seen, nodes, found, counts).conditions("all well")
    return {condition.type: condition for condition in conditions}, counts


def nodes(*there: SlurmNode) -> Nodes:
    return {each.name: each for each in there}


BOTH = nodes(node("cpu-0"), node("cpu-1", "MIXED", "DYNAMIC_NORM", cpus=1))
