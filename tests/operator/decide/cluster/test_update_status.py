"""Promises about what is told of a node set during an update, and when it is then unavailable."""

from __future__ import annotations

import dataclasses
import datetime

import pytest
from slurm_operator.findings import under_way
from slurm_operator.state.resources import UpdatePolicy
from slurm_operator.state.slurm import SlurmNode

from contract.conditions import Reason
from tests.operator.states.sets import NOW, changed, node
from tests.operator.states.updates import (
    ALL_IDLE,
    LOST,
    NEW,
    judge,
    pod,
    remembering,
    state,
    three,
    updating,
)


def test_an_update_within_its_budget_blocks_nothing_and_says_how_far_it_is() -> None:
    size = state([pod("cpu-0"), pod("cpu-1", NEW)], current=3)
    _, found = judge(size, [node("cpu-0"), node("cpu-1")])
    assert found.blocking == []
    assert found.progressing[0] == under_way(Reason.UPDATING, "node set cpu: 1 of 3 nodes have the current template")
    _, worse = judge(state([pod("cpu-0")], current=3), [node("cpu-0")])
    assert [each.reason for each in worse.blocking] == ["NodesNotReady"]


def test_an_update_says_which_nodes_others_keep_from_it() -> None:
    size = state([pod("cpu-0"), pod("cpu-1"), pod("cpu-2"), pod("cpu-3", NEW), pod("cpu-4")], current=5)
    failing = node("cpu-0", "IDLE", "FAIL", reason="rma-123", reason_user="alice")
    down = node("cpu-2", "DOWN", "RESERVED", reason="rma-123", reason_user="alice")
    silent = node("cpu-4", "DOWN", reason="Not responding", reason_user="slurm")
    _, found = judge(size, [failing, node("cpu-1", "IDLE", "RESERVED"), down, node("cpu-3"), silent])
    kept = "left until nobody else keeps them out of service: cpu-2, cpu-0; left until their reservation ends: cpu-1"
    share = "node set cpu: 1 of 5 nodes have the current template"
    assert under_way(Reason.UPDATING, f"{share}; {kept}") in found.progressing


def test_a_new_pod_that_does_not_come_up_under_its_predecessors_record_is_told_and_blocks() -> None:
    size = state([pod("cpu-0", NEW), pod("cpu-1", NEW, ready=False)])
    before = updating("cpu-1", "DOWN", started=NOW - datetime.timedelta(hours=1), reason_set=NOW)
    _, found = judge(size, [node("cpu-0"), before])
    assert [each.reason for each in (*found.blocking, *found.progressing)] == ["NodesNotReady", "NodesStarting"]
    assert judge(state([pod("cpu-0", NEW), pod("cpu-1", NEW)]), [node("cpu-0"), before])[1].blocking == []


@pytest.mark.parametrize(
    ("age", "taken", "record", "blocks"),
    [
        (0, ["cpu-1"], updating("cpu-1", "DOWN"), False),
        (299, ["cpu-1"], None, False),
        (300, ["cpu-1"], updating("cpu-1", "DOWN"), True),
        (0, [], updating("cpu-1", "DOWN"), True),
        (0, ["cpu-0", "cpu-1"], None, True),
    ],
    ids=["starts", "starts with a new record", "does not come up", "was not taken", "more than room"],
)
def test_the_last_node_of_an_update_blocks_nothing_while_its_new_pod_starts(
    age: int, taken: list[str], record: SlurmNode | None, blocks: bool
) -> None:
    made = {"created": NOW - datetime.timedelta(seconds=age), "ready": False}
    first = pod("cpu-0", NEW, ready="cpu-0" not in taken)
    size = remembering(state([first, pod("cpu-1", NEW, **made)]), *taken)
    found = judge(size, [node("cpu-0"), *([record] if record else [])])[1]
    assert [each.reason for each in found.blocking] == ["NodesNotReady"] * blocks
    assert "NodesStarting" in {each.reason for each in found.progressing}


@pytest.mark.parametrize("paused", [False, True])
def test_an_update_is_under_way_until_its_last_node_works(paused: bool) -> None:
    ready, starts = pod("cpu-1", NEW), pod("cpu-1", NEW, running=False, ready=False)
    steps = [
        ([], updating("cpu-1"), "1 of 2 nodes have the current template; cpu-1 comes back from its update"),
        ([starts], updating("cpu-1"), "cpu-1 not yet registered and usable"),
        ([ready], updating("cpu-1"), "2 of 2 nodes have the current template; cpu-1 comes back from its update"),
        ([ready], node("cpu-1"), None),
    ]
    for pods, record, expected in steps:
        size = state([pod("cpu-0", NEW), *pods], current=2, paused=paused)
        told = [each.message for each in judge(size, [node("cpu-0"), record])[1].progressing]
        assert told == ([f"node set cpu: {expected}"] if expected else [])


def test_an_update_that_waits_says_for_what() -> None:
    busy = [node("cpu-0"), node("cpu-1"), updating("cpu-2", "MIXED", cpus=1)]
    reasons = [
        judge(three(), busy)[1].progressing[0].reason,
        judge(three(paused=True), ALL_IDLE)[1].progressing[0].reason,
        judge(three(), ALL_IDLE, "slurmctld first")[1].progressing[0].reason,
    ]
    assert reasons == ["UpdateWaitsForJobs", "UpdatePaused", "UpdateHeld"]


def test_whom_an_update_passes_by_is_told() -> None:
    pending = pod("cpu-1", ready=False, running=False, trouble="Unschedulable: 0/9 nodes are available")
    size = state([pod("cpu-0"), pending, pod("cpu-2", k8s_node="k8s-2", ready=False)])
    size = dataclasses.replace(size, k8s_nodes={"k8s-2": LOST})
    said = "cpu-1 (Pending: Unschedulable: 0/9 nodes are available), cpu-2 (k8s-2 is lost)"
    told = under_way(Reason.UPDATE_PASSES_BY, f"node set cpu: the update passes by {said} and goes on with the others")
    assert judge(size, [node("cpu-0"), node("cpu-2", "DOWN")])[1].progressing[1] == told
    paused = changed(size, update=UpdatePolicy(paused=True))
    assert told not in judge(paused, [node("cpu-0"), node("cpu-2", "DOWN")])[1].progressing
