"""Node sets as a pass sees them, for tests of what is decided."""

from __future__ import annotations

import dataclasses
import datetime
from collections.abc import Iterable
from typing import Any

from slurm_operator.decide.nodes.workers import NodeSetState
from slurm_operator.state.kubernetes import Pod, Workload
from slurm_operator.state.resources import NodeSet
from slurm_operator.state.slurm import SlurmJob, SlurmNode

NOW = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)
OURS = {"reason": "pulumi-slurm:scale-in", "reason_user": "slurm"}
_OF_SET = {field.name for field in dataclasses.fields(NodeSet)}
_OF_WORKLOAD = {"revision", "facts", "weights"}


def node_set(wanted: int, current: int, pods: Iterable[Pod], now: datetime.datetime, **more: Any) -> NodeSetState:
    """NodeSet and StatefulSet `cpu` with those pods."""
    there = {pod.name: pod for pod in pods}
    state = NodeSetState(NodeSet("cpu", "c", "cpu", wanted), Workload("cpu", current, current, "7"), there, now)
    return changed(state, **more)


def changed(state: NodeSetState, **changes: Any) -> NodeSetState:
    """The same with other fields, also of its NodeSet (`replicas`) or its StatefulSet (`revision`, `facts`)."""
    of_set = {key: value for key, value in changes.items() if key in _OF_SET}
    of_workload = {key: value for key, value in changes.items() if key in _OF_WORKLOAD}
    own = {key: value for key, value in changes.items() if key not in of_set | of_workload}
    assert state.workload
    workload = dataclasses.replace(state.workload, **of_workload)
    return dataclasses.replace(state, node_set=dataclasses.replace(state.node_set, **of_set), workload=workload, **own)


def node(name: str, *states: str, cpus: int = 0, reason: str = "", reason_user: str = "") -> SlurmNode:
    return SlurmNode(name, frozenset(states or {"IDLE"}), reason, reason_user, cpus)


def leaving(name: str, *states: str, cpus: int = 0) -> SlurmNode:
    return node(name, *(states or ("IDLE",)), "DRAIN", cpus=cpus, **OURS)


def job(number: int, state: str, *nodes: str) -> SlurmJob:
    return SlurmJob(number, frozenset({state}), frozenset({"main"}), frozenset(nodes))


def pod(name: str, **changes: Any) -> Pod:
    return dataclasses.replace(Pod(name, "worker", ready=True, running=True, created=NOW), **changes)


def state(wanted: int, current: int, pods: list[Pod] | None = None) -> NodeSetState:
    there = [pod(f"cpu-{n}") for n in range(current)] if pods is None else pods
    return node_set(wanted, current, there, NOW)
