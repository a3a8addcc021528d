"""Node sets and records of nodes that may have another size than declared."""

from __future__ import annotations

import dataclasses

from slurm_operator.actions import Action
from slurm_operator.decide.node_sets import records
from slurm_operator.decide.nodes.workers import NodeSetState
from slurm_operator.state.slurm import Facts, FullListing, Reservation, SlurmJob, SlurmNode

from tests.operator.states.sets import NOW, changed
from tests.operator.states.updates import pod
from tests.operator.states.updates import state as template

SMALL, LARGE = Facts(4, 1000), Facts(8, 2000)


def sized(record: SlurmNode, facts: Facts) -> SlurmNode:
    return dataclasses.replace(record, facts=facts)


def of_somebody(nodes: str) -> Reservation:
    return Reservation("later", frozenset({nodes} - {""}), NOW, NOW, users="alice")


def seen(listing: dict[str, SlurmNode], jobs: tuple[SlurmJob, ...], reserved: str) -> FullListing:
    return FullListing(listing, jobs, records.named(jobs, [of_somebody(reserved)]))


def forget(size: NodeSetState, nodes: list[SlurmNode], *jobs: SlurmJob, reserved: str = "") -> list[Action]:
    listing = {each.name: each for each in nodes}
    return records.actions(size.seen(listing, seen(listing, jobs, reserved)))


def declares(facts: Facts | None, revision: str = "cpu-old", **changes: object) -> NodeSetState:
    return changed(template([pod("cpu-0", revision, **changes)]), facts=facts)
