"""A long check, nodes and jobs for tests of what is decided about them."""

from __future__ import annotations

import dataclasses
import datetime
from typing import Any

from slurm_operator.decide.nodes.workers import NodeSetState
from slurm_operator.state.kubernetes import Pod
from slurm_operator.state.resources import LongCheck
from slurm_operator.state.slurm import SeenCheckJob, SlurmNode

from contract import names, reasons
from contract.policies import ReactionPolicy
from tests.operator.states.sets import node_set

NOW = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)
CHECK = LongCheck("bandwidth", "checks", ("cpu",), 86_400, 10, 25, drains=True, script="#!/bin/sh\n")
IDLE = frozenset({"IDLE", "DYNAMIC_NORM"})
FAILED = f"{reasons.LONG_CHECK}bandwidth: job 7 FAILED, exit status 1"


def node(name: str, states: str = "", reason: str = "", user: str = "slurm") -> SlurmNode:
    return SlurmNode(name, IDLE - {"IDLE"} | frozenset(states.split() or ["IDLE"]), reason, user)


def state(size: int = 8, *others: SlurmNode, breaker: int = 50) -> NodeSetState:
    """A set of idle nodes, but for some."""
    pods = [Pod(f"cpu-{n}", "worker", ready=True, running=True, created=NOW) for n in range(size)]
    nodes = {pod.name: node(pod.name) for pod in pods} | {other.name: other for other in others}
    return node_set(size, size, pods, NOW, nodes=nodes, reactions=ReactionPolicy(breaker_percent=breaker))


def ended(state: str = "FAILED", status: int | None = 1, node: str = "cpu-1", **other: Any) -> SeenCheckJob:
    mine = SeenCheckJob(
        "pulumi-slurm-check-bandwidth", names.LONG_CHECK_USER_ID, frozenset({node}), frozenset(state.split()), status
    )
    return dataclasses.replace(mine, **other)
