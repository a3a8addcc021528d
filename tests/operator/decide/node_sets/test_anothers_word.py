"""Promises about a node that somebody else took out of service: his word stays until he takes it back."""

from __future__ import annotations

import dataclasses

import pytest
from slurm_operator import drains
from slurm_operator.actions import Action, DeleteRecord, Drain, DrainDown, SetReplicas, Undrain
from slurm_operator.decide.cluster import status
from slurm_operator.decide.node_sets import k8s_nodes, records
from slurm_operator.state.kubernetes import K8sNode
from slurm_operator.state.slurm import SlurmNode

from tests.operator.states.record_sizes import forget
from tests.operator.states.scaling import decide, lowered
from tests.operator.states.sets import NOW, changed, job, leaving, node, pod, state
from tests.operator.states.updates import decide as decide_update
from tests.operator.states.updates import pod as outdated_pod
from tests.operator.states.updates import state as outdated_scale

BY_HAND = [
    node("cpu-0", "IDLE", "DRAIN", reason="bad-fan", reason_user="root"),
    node("cpu-0", "IDLE", "FAIL", reason="rma-123", reason_user="root"),
    node("cpu-0", "DOWN", reason="bad DIMM", reason_user="alice"),
    node("cpu-0", "DOWN", "DRAIN", reason="bad DIMM", reason_user="alice"),
    node("cpu-0", "IDLE", "FAIL", reason="pulumi-slurm:update", reason_user="slurm"),
    node("cpu-0", "IDLE", "DRAIN", reason="pulumi-slurm:scale-in", reason_user="root"),
    node("cpu-0", "IDLE", "DRAIN", reason="pulumi-slurm:health gpus: 3 of 4 GPUs answer", reason_user="alice"),
    node("cpu-0", "IDLE", "DRAIN", reason="pulumi-slurm:new", reason_user="alice"),
    node("cpu-0", "DOWN", reason="pulumi-slurm:health gpus: 3 of 4 GPUs answer", reason_user="alice"),
]
IDS = ["drained", "failing", "down", "down and drained", "failing under our words", "drained with our words"]
IDS += ["unfit says a person", "new says a person", "down and unfit says a person"]
for_each_state = pytest.mark.parametrize("theirs", BY_HAND, ids=IDS)


def touching(actions: list[Action]) -> list[Action]:
    return [action for action in actions if not isinstance(action, DrainDown | SetReplicas)]


@for_each_state
def test_no_update_scale_in_or_machine_writes_over_it(theirs: SlurmNode) -> None:
    assert drains.is_anothers(theirs)
    assert decide_update(outdated_scale([outdated_pod("cpu-0")]), [theirs]) == []
    assert touching(decide(state(0, 1), [theirs])) == []
    assert touching(decide(state(1, 1), [theirs])) == []
    cordoned = dataclasses.replace(state(1, 1, [pod("cpu-0", k8s_node="k8s-0")]), k8s_nodes={"k8s-0": K8sNode(True)})
    assert k8s_nodes.actions(cordoned.seen({"cpu-0": theirs})) == []


@for_each_state
def test_the_record_of_a_removed_node_keeps_it_until_its_set_goes(theirs: SlurmNode) -> None:
    assert forget(state(0, 0), [theirs]) == []
    assert not records.orphans(state(0, 0).seen({"cpu-0": theirs}))
    ending = changed(state(0, 0), deleting=True)
    assert forget(ending, [theirs]) == [DeleteRecord("cpu-0", anothers=True)]


@pytest.mark.parametrize(
    "theirs", [each for each in BY_HAND if each.states & {"DRAIN", "FAIL"}], ids=[IDS[0], IDS[1], *IDS[3:-1]]
)
def test_it_takes_no_jobs_so_its_idle_node_may_go(theirs: SlurmNode) -> None:
    assert decide(state(0, 1), [theirs]) == [lowered(0, 1)]
    assert decide(state(0, 1), [theirs], [job(1, "SUSPENDED", "cpu-0")]) == []


def test_a_node_that_a_person_set_down_is_kept_out_under_his_reason() -> None:
    down = node("cpu-0", "DOWN", reason="bad DIMM", reason_user="root")
    assert decide(state(1, 1), [down]) == [DrainDown("cpu-0")]
    assert decide(state(0, 1), [down]) == [DrainDown("cpu-0")], "Slurm might return it to service as it leaves"
    kept = dataclasses.replace(down, states=down.states | {"DRAIN"})
    assert decide(state(1, 1), [kept]) == []


def test_a_node_stays_down_after_its_reboot_if_somebody_asked_for_that() -> None:
    """`scontrol reboot nextstate=down`: Slurm says so in its own name, and lifts it when the slurmd answers a ping."""
    down = node("cpu-0", "DOWN", reason="reboot complete", reason_user="slurm")
    assert decide(state(1, 1), [down]) == [DrainDown("cpu-0")]
    kept = dataclasses.replace(down, states=down.states | {"DRAIN"}, reason="reboot requested")
    assert decide(state(1, 1), [kept]) == []


@pytest.mark.parametrize(
    ("reason", "user"),
    [
        *(("", ""), ("Not responding", "slurm"), ("pulumi-slurm:update, its deadline has passed", "slurm")),
        ("reboot timed out", "slurm"),
    ],
)
def test_a_node_that_is_down_by_slurms_own_word_is_drained_as_any(reason: str, user: str) -> None:
    silent = node("cpu-0", "DOWN", reason=reason, reason_user=user)
    assert decide(state(0, 1), [silent]) == [Drain("cpu-0")]
    assert decide_update(outdated_scale([outdated_pod("cpu-0")]), [silent]) == [Drain("cpu-0", "pulumi-slurm:update")]


def test_slurms_other_words_about_a_node_that_is_down_stay_and_its_node_may_leave() -> None:
    odd = node("cpu-0", "DOWN", reason="Node unexpectedly rebooted", reason_user="slurm")
    assert decide(state(1, 1), [odd]) == []
    assert decide(state(0, 1), [odd]) == [DrainDown("cpu-0")]
    kept = dataclasses.replace(odd, states=odd.states | {"DRAIN"})
    assert decide(state(0, 1), [kept]) == [lowered(0, 1)]
    reboots = node("cpu-0", "DOWN", "REBOOT_ISSUED", reason="reboot issued", reason_user="slurm")
    assert decide(state(0, 1), [reboots]) == [], "its new slurmd ends that"


def test_a_drain_that_slurm_leaves_after_a_reboot_without_a_slurmd_is_lifted_once_there_is_one() -> None:
    given_up = node("cpu-0", "IDLE", "DRAIN", reason="Reboot ASAP", reason_user="slurm")
    assert decide(state(1, 1), [given_up]) == [Undrain("cpu-0")]
    for states in ("REBOOT_REQUESTED", "REBOOT_ISSUED"):
        waits = dataclasses.replace(given_up, states=given_up.states | {states})
        assert decide(state(1, 1), [waits]) == []
    assert decide(state(1, 1), [dataclasses.replace(given_up, reason_user="alice")]) == []


def test_a_node_of_which_no_slurmd_came_after_a_reboot_asap_is_updated() -> None:
    down = node("cpu-0", "DOWN", "DRAIN", reason="Reboot ASAP", reason_user="slurm")
    pending = outdated_scale([outdated_pod("cpu-0", ready=False, running=False)])
    assert decide_update(pending, [down]) == [Drain("cpu-0", "pulumi-slurm:update")]
    for begun in ("REBOOT_REQUESTED", "REBOOT_ISSUED"):
        reboots = dataclasses.replace(down, states=down.states | {begun})
        assert decide_update(pending, [reboots]) == []
    by_a_person = dataclasses.replace(down, reason_user="alice")
    assert decide_update(pending, [by_a_person]) == []


def test_a_node_that_somebody_set_to_fail_counts_as_drained() -> None:
    size = dataclasses.replace(state(2, 2), now=NOW)
    failing = node("cpu-0", "IDLE", "FAIL", reason="rma-123", reason_user="root")
    counts, found = status.node_set(size.seen({"cpu-0": failing, "cpu-1": node("cpu-1")}))
    assert (counts.drained, counts.ready) == (1, 1)
    assert [each.message for each in found] == ["drained by root: cpu-0 (rma-123)"]
    assert found.blocking == found.wrong == []


def test_a_record_that_serves_or_belongs_to_others_is_no_left_over() -> None:
    serving = [node("cpu-100"), node("cpu-101", "MIXED", cpus=1), node("cpu-102", "DOWN", "EXTERNAL")]
    assert forget(state(0, 0), serving) == []
    assert forget(state(0, 0), [leaving("cpu-100")]) == [DeleteRecord("cpu-100")]
