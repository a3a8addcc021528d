"""Promises about what a removal rests on, and about not asking for it when nothing can come of it."""

from __future__ import annotations

import dataclasses

import pytest
from slurm_operator.decide.cluster import status
from slurm_operator.decide.node_sets import full_listing
from slurm_operator.decide.nodes import slurm_nodes
from slurm_operator.state.resources import UpdatePolicy
from slurm_operator.state.slurm import EVERY_NODE, FullListing, Jobs, SlurmNode, TooDeep, Unknown

from contract import reasons
from tests.operator.states.sets import changed, job, leaving, pod
from tests.operator.states.sets import state as sized

NODES = {"cpu-0": leaving("cpu-0")}
DEEP = TooDeep("TooManyJobs", "there are too many")


def test_records_suffice_in_a_deep_queue_if_memory_counts() -> None:
    assert full_listing.build(NODES, DEEP, counts_memory=True) == FullListing(NODES, (), complete=False)
    assert full_listing.build(NODES, DEEP, counts_memory=False) is None
    some = Jobs((job(7, "SUSPENDED", "cpu-0"),), complete=False)
    assert full_listing.build(NODES, some, counts_memory=True) == FullListing(NODES, some.jobs, complete=False)
    assert full_listing.build(NODES, some, counts_memory=False) is None


def test_a_listing_that_fails_makes_no_full_listing() -> None:
    assert full_listing.build(NODES, Unknown("RestUnreachable", ""), counts_memory=True) is None
    assert full_listing.build(NODES, Jobs(()), counts_memory=False) == FullListing(NODES, ())


def test_a_job_of_unreadable_nodes_is_seen_on_each() -> None:
    lost = dataclasses.replace(job(7, "SUSPENDED", "cpu-0"), nodes=EVERY_NODE)
    seen = slurm_nodes.with_jobs(NODES, (lost,))
    assert seen["cpu-0"].busy


def updating(name: str) -> SlurmNode:
    return dataclasses.replace(leaving(name), reason=reasons.UPDATE)


@pytest.mark.parametrize(
    ("paused", "hold", "needed"), [(False, "", True), (True, "", False), (False, "pulumi up is under way", False)]
)
def test_nothing_is_asked_for_an_update_that_waits(paused: bool, hold: str, needed: bool) -> None:
    old = dataclasses.replace(pod("cpu-0"), revision="old")
    state = changed(sized(1, 1, [old]), revision="new", update=UpdatePolicy(paused=paused))
    assert full_listing.is_needed(dataclasses.replace(state.seen({"cpu-0": updating("cpu-0")}), hold=hold)) is needed


@pytest.mark.parametrize(("flags", "needed"), [((), True), (("RESERVED",), False), (("MIXED",), False)])
def test_nothing_is_asked_for_a_record_that_slurm_would_keep(flags: tuple[str, ...], needed: bool) -> None:
    left = leaving("cpu-0")
    left = dataclasses.replace(left, states=left.states | {*flags})
    assert full_listing.is_needed(sized(0, 0).seen({"cpu-0": left})) is needed


def test_a_record_that_a_reservation_keeps_is_told() -> None:
    left = leaving("cpu-0")
    kept = {"cpu-0": dataclasses.replace(left, states=left.states | {"RESERVED"})}
    _, found = status.node_set(sized(0, 0).seen(kept))
    assert [each.reason for each in found.progressing] == ["NodesKept"]
