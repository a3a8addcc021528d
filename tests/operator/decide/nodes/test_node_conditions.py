"""Promises about conditions of Kubernetes nodes that others write: they count as checks, and UNKNOWN is never PASS."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
from slurm_operator.actions import Action, Comment, Drain, Undrain
from slurm_operator.decide.node_sets import k8s_nodes, remediate, undrain
from slurm_operator.decide.nodes.workers import NodeSetState
from slurm_operator.parse.k8s_nodes import K8sNodeParser
from slurm_operator.state.kubernetes import K8sNode, Taint
from slurm_operator.state.resources import NodeCondition
from slurm_operator.state.slurm import SlurmNode

from contract.policies import ReactionPolicy
from tests.operator.states.sets import NOW, changed, node, node_set, pod

DEADLOCK, GPU_READY = NodeCondition("KernelDeadlock"), NodeCondition("GpuReady", fails_when=False)
WELL = (("KernelDeadlock", "False", "KernelHasNoDeadlock"), ("GpuReady", "True", ""))
SAYS = "pulumi-slurm:node k8s-0 says "
FAILS = f"{SAYS}KernelDeadlock=True (DockerHung)"


def says(status: str, reason: str = "DockerHung") -> tuple[tuple[str, str, str], ...]:
    """Conditions of which KernelDeadlock has that status, or is absent without one."""
    return ((("KernelDeadlock", status, reason),) if status else ()) + WELL[1:]


def state(told: tuple[tuple[str, str, str], ...] = WELL, /, **changes: Any) -> NodeSetState:
    """A set of one pod, whose Kubernetes node has those conditions."""
    there = [pod("cpu-0", k8s_node="k8s-0", uid="7", revision="now")]
    made = node_set(1, 1, there, NOW, revision="now", k8s_nodes={"k8s-0": K8sNode(conditions=told)})
    return changed(made, **{"conditions": (DEADLOCK, GPU_READY), **changes})


def drained(reason: str = FAILS, user: str = "slurm") -> SlurmNode:
    return dataclasses.replace(node("cpu-0", "IDLE", "DRAIN", reason=reason, reason_user=user), reason_set=NOW)


def decide(size: NodeSetState, record: SlurmNode | None = None) -> list[Action]:
    seen = size.seen({"cpu-0": record or node("cpu-0")})
    return [*undrain.actions(seen), *k8s_nodes.actions(seen)]


@pytest.mark.parametrize(
    ("conditions", "reason"),
    [
        (says("True"), FAILS),
        (says("True", "two words\n"), f"{SAYS}KernelDeadlock=True"),
        ((*WELL[:1], ("GpuReady", "False", "Lost")), f"{SAYS}GpuReady=False (Lost)"),
        (
            (("KernelDeadlock", "True", "A"), ("GpuReady", "False", "B")),
            f"{SAYS}KernelDeadlock=True (A), GpuReady=False (B)",
        ),
    ],
    ids=["a fault", "words that are none", "no health", "both"],
)
def test_a_condition_that_fails_drains_the_node_at_once_with_its_words(
    conditions: tuple[tuple[str, str, str], ...], reason: str
) -> None:
    assert decide(state(conditions)) == [Drain("cpu-0", reason)]
    assert decide(state(conditions), drained(reason)) == []


def test_a_condition_that_nobody_listed_says_nothing() -> None:
    assert decide(state(says("True"), conditions=())) == []
    assert decide(state(says("True"), conditions=(GPU_READY,))) == []


def test_the_drain_goes_with_the_fault() -> None:
    assert decide(state(), drained()) == [Undrain("cpu-0")]
    assert decide(state(conditions=()), drained()) == [Undrain("cpu-0")], "nobody asks for it any more"


@pytest.mark.parametrize(("status", "words"), [("Unknown", "KernelDeadlock=Unknown"), ("", "no KernelDeadlock")])
def test_a_condition_that_nobody_knows_is_noted_and_lifts_no_drain_that_names_it(status: str, words: str) -> None:
    unknown = state(says(status))
    note = Comment("cpu-0", SAYS + words)
    assert decide(unknown) == [note]
    noted = dataclasses.replace(node("cpu-0"), comment=note.text)
    assert decide(unknown, noted) == []
    assert decide(state(), noted) == [Comment("cpu-0", "")]
    assert decide(unknown, drained()) == [note], "who failed last is not well yet"
    assert Undrain("cpu-0") in decide(unknown, drained(f"{SAYS}GpuReady=False (Lost)"))
    assert Undrain("cpu-0") in decide(unknown, drained("pulumi-slurm:node k8s-0 is cordoned"))
    assert Undrain("cpu-0") in decide(unknown, drained(FAILS.replace("k8s-0", "k8s-9"))), "that one was another"


def test_a_drain_names_some_of_many_conditions_and_none_that_it_may_leave_out_lifts_it() -> None:
    many = tuple(NodeCondition(f"{'Fault' * 12}{n}") for n in range(32))
    all_fail = tuple((each.type, "True", "x" * 64) for each in many)
    (drain,) = decide(state(all_fail, conditions=many))
    assert isinstance(drain, Drain)
    assert drain.reason.endswith(" and 27 more")
    assert len(drain.reason) < 1000
    all_but_the_last = tuple((each.type, "False", "") for each in many[:-1])
    last_unknown = (*all_but_the_last, (many[-1].type, "Unknown", ""))
    left = decide(state(last_unknown, conditions=many), drained(drain.reason))
    assert not any(isinstance(each, Undrain) for each in left)
    well = (*all_but_the_last, (many[-1].type, "False", ""))
    assert decide(state(well, conditions=many), drained(drain.reason)) == [Undrain("cpu-0")]


@pytest.mark.parametrize(("status", "words"), [("Unknown", "KernelDeadlock=Unknown"), ("", "no KernelDeadlock")])
def test_the_policy_may_drain_for_what_nobody_knows(status: str, words: str) -> None:
    strict = (dataclasses.replace(DEADLOCK, unknown_drains=True),)
    assert decide(state(says(status), conditions=strict)) == [Drain("cpu-0", SAYS + words)]
    assert decide(state(says(status)), drained(SAYS + words)) == [Comment("cpu-0", SAYS + words)], "it is not known yet"
    assert decide(state(), drained(SAYS + words)) == [Undrain("cpu-0")]


def test_what_a_person_said_of_the_node_stays() -> None:
    assert decide(state(says("True")), drained("bad fan", "alice")) == []
    others = dataclasses.replace(node("cpu-0"), comment="lent to Bob")
    assert decide(state(says("Unknown")), others) == []


def test_a_nodes_own_drain_becomes_the_conditions_so_that_it_cannot_return_meanwhile() -> None:
    own = drained("pulumi-slurm:health gpus: 3 of 4", "root")
    assert decide(state(says("True")), own) == [Drain("cpu-0", FAILS)]


def test_a_cordon_or_a_taint_is_told_first_and_a_silent_kubelet_last() -> None:
    for k8s_node, words in (
        (K8sNode(cordoned=True), "is cordoned"),
        (K8sNode(taints=(Taint("maintenance", "NoSchedule"),)), "is tainted maintenance"),
        (K8sNode(away_since=NOW), "says KernelDeadlock=True (DockerHung)"),
    ):
        there = {"k8s-0": dataclasses.replace(k8s_node, conditions=says("True"))}
        assert decide(changed(state(), k8s_nodes=there)) == [Drain("cpu-0", f"pulumi-slurm:node k8s-0 {words}")]


@pytest.mark.parametrize("replace", [True, False])
def test_its_pod_leaves_a_kubernetes_node_that_fails_where_the_policy_replaces(replace: bool) -> None:
    size = state(says("True"), reactions=ReactionPolicy(replace=replace, after_seconds=0))
    noted = remediate.plan(size.seen({"cpu-0": drained()})).restarts
    assert [each.replace for each in noted] == [True] * replace
    assert (
        remediate.plan(changed(size, reactions=ReactionPolicy(restart=True)).seen({"cpu-0": drained()})).restarts == ()
    )


def test_of_a_kubernetes_node_only_the_conditions_that_count_are_kept_and_no_heartbeat() -> None:
    rows = [
        {
            "type": "KernelDeadlock",
            "status": "True",
            "reason": "DockerHung",
            "message": "much",
            "lastHeartbeatTime": "x",
        },
        {"type": "Other", "status": "True"},
    ]
    body = {"metadata": {"name": "a"}, "status": {"conditions": rows}}
    reader = K8sNodeParser(conditions=frozenset({"KernelDeadlock"}))
    assert reader(body) == K8sNode(conditions=(("KernelDeadlock", "True", "DockerHung"),))
    assert K8sNodeParser()(body) == K8sNode()
