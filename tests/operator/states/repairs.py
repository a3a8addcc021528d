"""Node sets with unfit nodes, and what remediation decides about them."""

from __future__ import annotations

import dataclasses
import datetime
from typing import Any

from slurm_operator.decide.node_sets import remediate
from slurm_operator.decide.nodes.workers import NodeSetState
from slurm_operator.state.kubernetes import K8sNode, Pod
from slurm_operator.state.resources import Restart
from slurm_operator.state.slurm import FullListing, SlurmJob, SlurmNode

from contract.policies import ReactionPolicy
from tests.operator.states.sets import NOW, changed, node, node_set

UNFIT = "pulumi-slurm:health gpus: 3 of 4 GPUs answer"
REPAIR = "pulumi-slurm:repair health gpus: 3 of 4 GPUs answer"
LONG_AGO = NOW - datetime.timedelta(hours=10)


def minutes(number: float) -> datetime.timedelta:
    return datetime.timedelta(minutes=number)


def unfit(name: str, reason: str = UNFIT, cpus: int = 0, since: datetime.datetime = LONG_AGO) -> SlurmNode:
    drained = node(name, "IDLE", "DRAIN", cpus=cpus, reason=reason, reason_user="root")
    return dataclasses.replace(drained, reason_set=since)


def repaired(name: str, cpus: int = 0, since: datetime.datetime = NOW) -> SlurmNode:
    """A node whose own drain the operator has made its own."""
    return dataclasses.replace(unfit(name, REPAIR, cpus, since), reason_user="slurm")


def state(
    size: int = 4, restarts: tuple[Restart, ...] = (), approved: tuple[str, ...] = (), **policy: Any
) -> NodeSetState:
    pods = {f"cpu-{n}": Pod(f"cpu-{n}", "worker", True, True, created=LONG_AGO, uid="7") for n in range(size)}
    wanted = ReactionPolicy(**{"restart": True, **policy})
    more = {"restarts": restarts, "approved": frozenset(approved)}
    return changed(node_set(size, size, pods.values(), NOW), reactions=wanted, **more)


def decide(size: NodeSetState, *nodes: SlurmNode, jobs: tuple[SlurmJob, ...] = (), hold: str = "") -> remediate.Plan:
    listing = {f"cpu-{n}": node(f"cpu-{n}") for n in range(size.wanted)} | {each.name: each for each in nodes}
    return remediate.plan(dataclasses.replace(size.seen(listing, FullListing(listing, jobs)), hold=hold))


def done(size: NodeSetState) -> NodeSetState:
    """The same with other pods, younger than each note: every repair was done."""
    pods = {name: dataclasses.replace(pod, created=NOW - minutes(10), uid="8") for name, pod in size.pods.items()}
    return dataclasses.replace(size, pods=pods)


def told(plan: remediate.Plan) -> list[str]:
    return [finding.reason for finding in plan.findings]


def placed(k8s_node: K8sNode | None, restarts: tuple[Restart, ...] = (), **policy: Any) -> NodeSetState:
    """A set that may replace nodes. Each pod has its own Kubernetes node; that of cpu-1 is given."""
    size = state(4, restarts, **{"replace": True, "restart": False, **policy})
    pods = {name: dataclasses.replace(pod, k8s_node=f"k8s-{name}") for name, pod in size.pods.items()}
    k8s_nodes = {f"k8s-{name}": K8sNode() for name in pods} | ({"k8s-cpu-1": k8s_node} if k8s_node else {})
    return dataclasses.replace(size, pods=pods, k8s_nodes=k8s_nodes)


NOTE = (Restart("cpu-1", NOW, replace=True),)
