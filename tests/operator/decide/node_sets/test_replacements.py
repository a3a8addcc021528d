"""Promises about pods that leave a Kubernetes node at fault: noted first, under the same brakes as restarts."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
from slurm_operator import drains
from slurm_operator.actions import DeletePod, Drain, Purpose
from slurm_operator.decide.node_sets import remediate
from slurm_operator.decide.nodes.workers import NodeSetState
from slurm_operator.drains import Owner
from slurm_operator.state.kubernetes import K8sNode, Taint
from slurm_operator.state.resources import Restart
from slurm_operator.state.slurm import SlurmNode

from tests.operator.states.repairs import (
    LONG_AGO,
    NOTE,
    REPAIR,
    decide,
    done,
    minutes,
    placed,
    repaired,
    state,
    told,
    unfit,
)
from tests.operator.states.sets import NOW, changed, job, node


def test_a_noted_repair_that_the_policy_no_longer_has_makes_room_for_what_it_has() -> None:
    assert told(decide(state(dry_run=True, restarts=(Restart("cpu-1", NOW),)), unfit("cpu-1"))) == ["WouldRestart"]
    restarts = placed(K8sNode(), NOTE, replace=False, restart=True)
    assert decide(restarts, unfit("cpu-1")) == remediate.Plan(restarts=(Restart("cpu-1", NOW),))
    replaces = placed(K8sNode(), (Restart("cpu-1", NOW),))
    assert decide(replaces, unfit("cpu-1")) == remediate.Plan(restarts=NOTE)


AWAY = K8sNode(away_since=LONG_AGO)
TAINTED = K8sNode(taints=(Taint("maintenance", "NoSchedule"),))


def lost(words: str = "k8s-cpu-1 is not ready", cpus: int = 0) -> SlurmNode:
    """cpu-1 with a drain of the operator's on account of its Kubernetes node."""
    return dataclasses.replace(unfit("cpu-1", f"pulumi-slurm:node {words}", cpus), reason_user="slurm")


def replaced(reason: str, *, cordon: bool = True) -> DeletePod:
    return DeletePod("cpu-1", "7", Purpose.ELSEWHERE, reason, "k8s-cpu-1" if cordon else "")


@pytest.mark.parametrize(
    ("k8s_node", "seen", "cordon"),
    [
        (K8sNode(), unfit("cpu-1"), True),
        (AWAY, lost(), True),
        (TAINTED, lost("k8s-cpu-1 is tainted maintenance"), False),
    ],
    ids=["unfit", "not ready", "tainted by somebody"],
)
def test_a_pod_leaves_a_machine_at_fault_which_is_noted_first(k8s_node: K8sNode, seen: SlurmNode, cordon: bool) -> None:
    first = decide(placed(k8s_node), seen)
    assert first == remediate.Plan(restarts=NOTE)
    second = decide(placed(k8s_node, NOTE), seen)
    if drains.owner(seen) is Owner.UNFIT:
        assert second == remediate.Plan(actions=(Drain("cpu-1", REPAIR),), restarts=NOTE)
        second = decide(placed(k8s_node, NOTE), repaired("cpu-1"))
    assert second == remediate.Plan(actions=(replaced(seen.reason, cordon=cordon),), restarts=NOTE)


@pytest.mark.parametrize(
    ("size", "seen"),
    [
        (placed(K8sNode(), replace=False), unfit("cpu-1")),
        (placed(AWAY, replace=False), lost()),
        (placed(AWAY, replace=False, restart=True), lost()),
        (placed(AWAY), lost(cpus=1)),
        (placed(AWAY), unfit("cpu-1", "a fan is broken")),
        (placed(K8sNode(cordoned=True)), lost("k8s-cpu-1 is cordoned")),
        (dataclasses.replace(placed(AWAY), k8s_nodes=None), lost()),
    ],
    ids=["off", "off, away", "restarts alone", "at work", "an administrator's", "cordoned by somebody", "unseen"],
)
def test_what_is_not_replaced(size: NodeSetState, seen: SlurmNode) -> None:
    assert decide(size, seen) == remediate.Plan()
    noted = changed(size, restarts=NOTE)
    jobs = (job(1, "RUNNING", "cpu-1"),)
    found = decide(changed(noted, reactions=placed(AWAY).node_set.reactions), seen, jobs=jobs).actions
    assert not [each for each in found if isinstance(each, DeletePod)]


def test_a_replacement_that_died_after_its_own_cordon_goes_on() -> None:
    assert decide(placed(K8sNode(cordoned=True), NOTE), lost()).actions == (replaced(lost().reason),)


def test_a_noted_replacement_is_not_done_once_it_is_switched_off() -> None:
    assert decide(placed(AWAY, NOTE, replace=False, restart=True), lost()).actions == ()
    assert decide(placed(K8sNode(), NOTE, replace=False, restart=True), unfit("cpu-1")).actions == ()


def test_restarts_are_tried_before_another_machine_and_then_the_node_is_given_up() -> None:
    def after(*done: bool) -> remediate.Plan:
        tried = tuple(Restart("cpu-1", NOW - minutes(120 - n), each) for n, each in enumerate(done))
        size = placed(K8sNode(), tried, restart=True)
        young = dataclasses.replace(size.pods["cpu-1"], created=NOW - minutes(60))
        return decide(dataclasses.replace(size, pods={**size.pods, "cpu-1": young}), unfit("cpu-1"))

    assert [each.replace for each in after().restarts] == [False]
    assert [each.replace for each in after(False).restarts] == [False, False]
    assert [each.replace for each in after(False, False).restarts] == [False, False, True]
    end = after(False, False, True)
    assert told(end) == ["GaveUp"]
    assert "after 2 restarts and on another Kubernetes node" in end.findings[0].message


def test_what_another_machine_would_not_mend_is_left_to_you() -> None:
    assert told(decide(placed(K8sNode()), unfit("cpu-1", "pulumi-slurm:jail: stale"))) == ["GaveUp"]


def test_replacements_keep_the_same_brakes() -> None:
    assert told(decide(placed(AWAY, dry_run=True), lost())) == ["WouldReplace"]
    asked = decide(placed(AWAY, approval=True), lost())
    assert told(asked) == ["AwaitsApproval"]
    assert asked.restarts == ()
    elsewhere = Restart("cpu-0", NOW - minutes(50))
    assert decide(done(placed(AWAY, (elsewhere,), per_hour=1)), lost()).restarts == (elsewhere,)
    held = decide(placed(AWAY), lost(), *(unfit(f"cpu-{n}") for n in (0, 2)))
    assert told(held) == ["BreakerOpen"]
    assert decide(placed(AWAY), lost(), hold="pulumi up is under way") == remediate.Plan()


@pytest.mark.parametrize(
    ("changes", "seen"),
    [
        ({"terminating": True}, lost()),
        ({"k8s_node": "", "ready": False, "running": False}, lost()),
        ({"k8s_node": "k8s-9", "ready": False}, lost()),
        ({"k8s_node": "k8s-9"}, lost()),
        ({"k8s_node": "k8s-9"}, node("cpu-1", "DOWN")),
        (None, lost()),
    ],
    ids=["it ends", "not scheduled", "it starts", "still drained", "down", "it is made"],
)
def test_a_replaced_node_counts_against_the_budgets_and_for_the_breaker_until_it_works(
    changes: dict[str, Any] | None, seen: SlurmNode
) -> None:
    lately = (Restart("cpu-1", NOW - minutes(1), replace=True),)
    size = placed(AWAY, lately, restart=True, breaker_percent=60)
    moved = {"created": NOW, **(changes or {})}
    pods = {**size.pods, "cpu-1": dataclasses.replace(size.pods["cpu-1"], **moved)}
    if changes is None:
        del pods["cpu-1"]
    size = dataclasses.replace(size, pods=pods, k8s_nodes={**(size.k8s_nodes or {}), "k8s-9": K8sNode()})
    waits = decide(size, seen, unfit("cpu-2"))
    assert waits.restarts == lately
    assert told(waits) == ["RepairWaits"]
    assert told(decide(size, seen, unfit("cpu-2"), unfit("cpu-3"))) == ["BreakerOpen"]
    if changes == {"k8s_node": "k8s-9"}:
        assert len(decide(size, unfit("cpu-2")).restarts) == 2, "it works again"
