"""Decides about a node set whose size changes, with a full listing."""

from __future__ import annotations

from slurm_operator.actions import Action, SetReplicas
from slurm_operator.decide.node_sets import scale, undrain
from slurm_operator.decide.nodes import slurm_nodes
from slurm_operator.decide.nodes.workers import NodeSetState
from slurm_operator.state.slurm import FullListing, SlurmJob, SlurmNode


def lowered(wanted: int, current: int) -> SetReplicas:
    """Of nodes that are looked at once more."""
    return SetReplicas("cpu", wanted, current, "7", tuple(f"cpu-{n}" for n in range(current - 1, wanted - 1, -1)))


def decide(size: NodeSetState, nodes: list[SlurmNode], jobs: list[SlurmJob] | None = None) -> list[Action]:
    """Decide with a full listing that shows the same nodes as the first."""
    listing = slurm_nodes.with_jobs({each.name: each for each in nodes}, jobs or [])
    seen = size.seen(listing, FullListing({each.name: each for each in nodes}, tuple(jobs or [])))
    return [*undrain.actions(seen), *scale.actions(seen)]
