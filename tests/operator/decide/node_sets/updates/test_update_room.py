"""Promises about the room of an update: how many nodes it takes at once, and what holds a slot of it."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
from slurm_operator.actions import Drain
from slurm_operator.decide.node_sets import update
from slurm_operator.parse.resources import parse_node_set
from slurm_operator.state.kubernetes import K8sNode, Pod, Taint
from slurm_operator.state.resources import Restart, UpdatePolicy
from slurm_operator.state.slurm import Facts, SlurmNode

from contract import reasons
from tests.operator.states.sets import NOW, changed, node
from tests.operator.states.updates import (
    ALL_IDLE,
    LOST,
    NEW,
    REASON,
    decide,
    pod,
    remembering,
    state,
    three,
    updating,
)


def test_a_repair_that_was_noted_takes_no_room_and_brings_the_template() -> None:
    noted = changed(state([pod("cpu-0"), pod("cpu-1")]), restarts=(Restart("cpu-1", NOW),))
    unfit = node("cpu-1", "IDLE", "DRAIN", reason="pulumi-slurm:health gpus: 3 of 4", reason_user="root")
    assert decide(noted, [node("cpu-0"), unfit]) == [Drain("cpu-0", REASON)]


def test_as_many_nodes_are_drained_as_may_be_out_of_service() -> None:
    assert decide(three(), ALL_IDLE) == [Drain("cpu-2", REASON)]
    assert decide(three(max_unavailable=2), ALL_IDLE) == [Drain("cpu-2", REASON), Drain("cpu-1", REASON)]
    assert decide(three(max_unavailable=9), ALL_IDLE) == [Drain(f"cpu-{n}", REASON) for n in (2, 1, 0)]


@pytest.mark.parametrize(
    ("percent", "size", "room"), [(25, 10, 3), (25, 8, 2), (1, 3, 1), (34, 3, 2), (100, 3, 3), (7, 10_000, 700)]
)
def test_a_percentage_is_one_of_the_wanted_nodes_rounded_up(percent: int, size: int, room: int) -> None:
    pods = [pod(f"cpu-{n}") for n in range(size)]
    found = decide(state(pods, percent=percent), [node(each.name) for each in pods])
    assert len(found) == room


def test_a_percentage_is_read_from_the_resource() -> None:
    spec = {"cluster": "test", "statefulSet": "cpu", "update": {"maxUnavailable": "25%", "paused": True}}
    body = {"metadata": {"name": "cpu"}, "spec": spec, "status": {"updating": ["cpu-1"]}}
    read = parse_node_set(body)
    assert read.update == UpdatePolicy(percent=25, paused=True)
    assert read.updating == {"cpu-1"}
    assert parse_node_set({**body, "spec": {**spec, "update": {"maxUnavailable": 3}}}).update == UpdatePolicy(3)


UNFIT: dict[str, Any] = {"reason": "pulumi-slurm:health gpus: 3 of 4", "reason_user": "root"}
BY_MACHINE: dict[str, Any] = {"reason": "pulumi-slurm:node k8s-3 is tainted a", "reason_user": "slurm"}
UNDER_REPAIR: dict[str, Any] = {"reason": f"{reasons.REPAIR}health gpus: 3 of 4", "reason_user": "slurm"}


@pytest.mark.parametrize(
    ("bad", "seen", "memory"),
    [
        (pod("cpu-2", NEW), node("cpu-2", "IDLE", "DRAIN", **UNFIT), []),
        (pod("cpu-2", NEW), node("cpu-2", "IDLE", "DRAIN", **UNFIT), ["cpu-2"]),
        (pod("cpu-2", NEW), node("cpu-2", "IDLE", "DRAIN", reason="pulumi-slurm:jail: x", reason_user="root"), []),
        (pod("cpu-2", NEW, k8s_node="k8s-3"), node("cpu-2", "IDLE", "DRAIN", **BY_MACHINE), ["cpu-2"]),
        (pod("cpu-2", NEW), node("cpu-2", "IDLE", "DRAIN", reason="bad disk", reason_user="alice"), ["cpu-2"]),
        (pod("cpu-2", NEW), node("cpu-2", "DOWN"), []),
        (pod("cpu-2", NEW, ready=False, running=False), None, []),
        (pod("cpu-2", k8s_node="k8s-2", ready=False), updating("cpu-2", "DOWN"), ["cpu-2"]),
        (pod("cpu-2", NEW, k8s_node="k8s-2", ready=False), node("cpu-2", "DOWN"), ["cpu-2"]),
        (pod("cpu-2", k8s_node="k8s-2", ready=False), node("cpu-2", "DOWN", reason="Not responding"), []),
    ],
    ids=[
        *("unfit", "its host is at fault", "its jail fails later", "its host is emptied", "drained by somebody"),
        *("down later", "never scheduled", "drained and lost", "updated and lost", "lost"),
    ],
)
def test_what_an_update_has_not_taken_or_does_not_keep_out_holds_up_no_other(
    bad: Pod, seen: SlurmNode | None, memory: list[str]
) -> None:
    size = remembering(state([pod("cpu-0"), pod("cpu-1"), bad]), *memory)
    size = dataclasses.replace(size, k8s_nodes={"k8s-2": LOST, "k8s-3": K8sNode(taints=(Taint("a", "NoSchedule"),))})
    there = [node("cpu-0"), node("cpu-1"), *([seen] if seen else [])]
    assert [action for action in decide(size, there) if isinstance(action, Drain)] == [Drain("cpu-1", REASON)]


@pytest.mark.parametrize("drain", [BY_MACHINE, UNDER_REPAIR])
def test_a_node_that_its_machine_or_its_repair_gives_back_holds_its_slot_at_once(drain: dict[str, Any]) -> None:
    size = remembering(state([pod("cpu-0"), pod("cpu-1"), pod("cpu-2", NEW)]), "cpu-2")
    size = changed(size, restarts=(Restart("cpu-2", NOW, uid="6"),))
    size = dataclasses.replace(size, k8s_nodes={"k8s-3": K8sNode()}, first_checks=("bandwidth",))
    there = [*ALL_IDLE[:2], node("cpu-2", "IDLE", "DRAIN", **drain)]
    assert decide(size, there) == [Drain("cpu-2", f"{reasons.UNTESTED}bandwidth")], "and none of cpu-1"


def test_a_node_that_slurm_refuses_for_want_of_hardware_holds_no_slot() -> None:
    size = remembering(state([pod("cpu-0"), pod("cpu-1"), pod("cpu-2", NEW)]), "cpu-2")
    lacking = node("cpu-2", "IDLE", "DRAIN", "INVALID_REG", reason="gres/gpu count reported lower", reason_user="slurm")
    for declared, begun in ((Facts(2, 8), ["cpu-1"]), (Facts(2, 4), [])):
        there = [*ALL_IDLE[:2], dataclasses.replace(lacking, facts=Facts(2, 8))]
        found = decide(changed(size, facts=declared), there)
        assert [each.node for each in found if isinstance(each, Drain) and each.node != "cpu-2"] == begun


def test_nodes_that_break_together_under_a_new_template_hold_their_slots() -> None:
    pods = [pod("cpu-0"), *(pod(f"cpu-{n}", NEW) for n in (1, 2))]
    size = remembering(state(pods), "cpu-1", "cpu-2")
    assert decide(size, [node("cpu-0"), *(node(f"cpu-{n}", "IDLE", "DRAIN", **UNFIT) for n in (1, 2))]) == []


def test_a_pod_that_the_update_deleted_and_that_finds_no_machine_holds_its_slot() -> None:
    pending = pod("cpu-2", NEW, ready=False, running=False)
    size = state([pod("cpu-0"), pod("cpu-1"), pending])
    assert decide(remembering(size, "cpu-2"), [*ALL_IDLE[:2], updating("cpu-2", "DOWN")]) == []
    assert decide(remembering(size, "cpu-2"), ALL_IDLE[:2]) == [], "its record went, for it had another size"


def test_a_pod_without_a_machine_moves_to_the_template_beside_the_others() -> None:
    size = state([pod("cpu-0"), pod("cpu-1"), pod("cpu-2", ready=False, running=False)])
    found = decide(size, [*ALL_IDLE[:2], node("cpu-2", "DOWN", reason="Not responding", reason_user="slurm")])
    assert found == [Drain("cpu-2", REASON), Drain("cpu-1", REASON)]
    assert update.begun(size, found) == {"cpu-1"}


def test_a_node_is_taken_from_its_drain_until_it_works() -> None:
    def taken(there: Pod, *seen: SlurmNode, before: bool = True) -> bool:
        size = remembering(state([there]), *["cpu-0"] * before)
        return update.taken(size.seen({each.name: each for each in seen})) == {"cpu-0"}

    new = node("cpu-0", "IDLE", "DRAIN", reason="pulumi-slurm:new", reason_user="slurm")
    broken = node("cpu-0", "IDLE", "DRAIN", reason="pulumi-slurm:jail: x", reason_user="root")
    assert not taken(pod("cpu-0"), node("cpu-0"), before=False)
    assert taken(pod("cpu-0"), updating("cpu-0"), before=False)
    assert taken(pod("cpu-0", NEW, ready=False, running=False))
    assert taken(pod("cpu-0", NEW, ready=False), new)
    assert taken(pod("cpu-0", NEW, ready=False), broken)
    assert taken(pod("cpu-0", NEW, ready=False), node("cpu-0"))
    assert not taken(pod("cpu-0", NEW), node("cpu-0"))
    assert not taken(pod("cpu-0", NEW, ready=False), broken, before=False)
