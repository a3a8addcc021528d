"""Node sets in the midst of an update, and their nodes."""

from __future__ import annotations

import dataclasses
import datetime
from typing import Any

from slurm_operator.actions import Action, DeletePod, Purpose
from slurm_operator.decide.cluster import status
from slurm_operator.decide.node_sets import undrain, update
from slurm_operator.decide.nodes.workers import NodeSetState
from slurm_operator.findings import Findings
from slurm_operator.state.kubernetes import K8sNode, Pod
from slurm_operator.state.resources import UpdatePolicy
from slurm_operator.state.slurm import FullListing, SlurmJob, SlurmNode

from tests.operator.states.sets import NOW, changed, node, node_set

REASON = "pulumi-slurm:update"
OLD, NEW = "cpu-old", "cpu-new"
LOST = K8sNode(away_since=NOW - datetime.timedelta(hours=1))


def pod(name: str, revision: str = OLD, **changes: Any) -> Pod:
    there = Pod(name, "worker", ready=True, running=True, created=NOW, revision=revision, uid="7")
    return dataclasses.replace(there, **changes)


def updating(name: str, *states: str, cpus: int = 0, **more: Any) -> SlurmNode:
    drained = node(name, *(states or ("IDLE",)), "DRAIN", cpus=cpus, reason=REASON, reason_user="slurm")
    return dataclasses.replace(drained, **more)


def state(pods: list[Pod], wanted: int | None = None, current: int | None = None, **policy: Any) -> NodeSetState:
    size = len(pods) if current is None else current
    there = node_set(size if wanted is None else wanted, size, pods, NOW)
    return changed(there, revision=NEW, update=UpdatePolicy(**policy))


def decide(
    size: NodeSetState, nodes: list[SlurmNode], jobs: list[SlurmJob] | None = None, hold: str = ""
) -> list[Action]:
    listing = {each.name: each for each in nodes}
    seen = dataclasses.replace(size.seen(listing, FullListing(listing, tuple(jobs or []))), hold=hold)
    return [*undrain.actions(seen), *update.actions(seen)]


def restarted(name: str) -> DeletePod:
    return DeletePod(name, "7", Purpose.UPDATE, "a new one has the current template")


def remembering(size: NodeSetState, *names: str) -> NodeSetState:
    """The same set when an update was seen to take those nodes, which did not work since."""
    return changed(size, updating=frozenset(names))


def three(**policy: Any) -> NodeSetState:
    return state([pod(f"cpu-{n}") for n in range(3)], **policy)


ALL_IDLE = [node(f"cpu-{n}") for n in range(3)]


def judge(size: NodeSetState, nodes: list[SlurmNode], hold: str = "") -> tuple[status.Counts, Findings]:
    return status.node_set(dataclasses.replace(size.seen({each.name: each for each in nodes}), hold=hold))
