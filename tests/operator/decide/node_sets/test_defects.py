"""Promises about defects of the operator: one in a part of a decision ends no other part, and takes no node away."""

from __future__ import annotations

import datetime
from collections.abc import Callable
from types import ModuleType

import pytest
from slurm_operator import drains
from slurm_operator.actions import Action, Drain, SetEvictable, SetReplicas, Undrain, UpdateNode
from slurm_operator.decide.node_sets import features, k8s_nodes, node_set, records, remediate, scale, undrain, update
from slurm_operator.decide.nodes.workers import NodeSetState
from slurm_operator.state.kubernetes import K8sNode
from slurm_operator.state.resources import KeptDrain, Restart
from slurm_operator.state.slurm import FullListing, SlurmNode

from contract import reasons
from tests.operator.states.sets import NOW, changed, leaving, node, pod, state

CORDONED = K8sNode(cordoned=True)


def seen(size: int = 3, wanted: int = 2) -> NodeSetState:
    """Return a set whose cpu-0 has a drain without a cause, cpu-1 a cordoned Kubernetes node, and cpu-2 leaves."""
    pods = [pod(f"cpu-{n}", uid=str(n), k8s_node=f"k{n}") for n in range(size)]
    over = SlurmNode("cpu-0", frozenset({"IDLE", "DRAIN"}), reasons.SCALE_IN, reason_user="slurm")
    nodes = {"cpu-0": over, "cpu-1": node("cpu-1"), "cpu-2": leaving("cpu-2")}
    own = changed(state(wanted, size, pods), k8s_nodes={"k0": K8sNode(), "k1": CORDONED, "k2": K8sNode()})
    return own.seen(nodes, FullListing(nodes, (), records.named((), ())), ())


def fails(monkeypatch: pytest.MonkeyPatch, module: ModuleType, function: str) -> None:
    def defect(*_: object) -> None:
        raise KeyError("odd")

    monkeypatch.setattr(module, function, defect)


UNDRAIN = Undrain("cpu-0")


def is_scale_in(action: Action) -> bool:
    return isinstance(action, SetReplicas)


@pytest.mark.parametrize(
    ("module", "function", "part", "lifts", "begins", "shrinks"),
    [
        (features, "actions", "features", True, True, True),
        (records, "actions", "records", True, True, True),
        (undrain, "actions", "undrain", False, True, True),
        (k8s_nodes, "actions", "Kubernetes nodes", False, False, True),
        (update, "actions", "update", False, True, True),
        (update, "taken", "update", False, True, True),
        (remediate, "plan", "repairs", False, True, True),
        (scale, "actions", "size", False, True, False),
    ],
    ids=lambda each: each if isinstance(each, str) else "",
)
def test_a_defect_of_one_part_leaves_the_others_and_lifts_no_drain_that_the_part_may_want(
    monkeypatch: pytest.MonkeyPatch,
    module: ModuleType,
    function: str,
    part: str,
    lifts: bool,
    begins: bool,
    shrinks: bool,
) -> None:
    whole = node_set.decide(seen())
    assert not whole.defects
    assert UNDRAIN in whole.actions
    fails(monkeypatch, module, function)
    decided = node_set.decide(seen())
    assert [(defect.part, defect.words) for defect in decided.defects] == [(part, "KeyError: 'odd'")]
    told = UNDRAIN in decided.actions, any(isinstance(each, Drain) for each in decided.actions)
    assert told == (lifts, begins)
    assert any(map(is_scale_in, decided.actions)) == shrinks


def test_without_knowing_whose_drain_a_node_has_nothing_is_taken_away_and_all_is_remembered(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    noted = (Restart("cpu-1", NOW),)
    fails(monkeypatch, drains, "owner")
    fails(monkeypatch, remediate, "plan")
    kept = (KeptDrain("cpu-1", "bad fan", "alice"),)
    decided = node_set.decide(changed(seen(), restarts=noted, updating=frozenset({"cpu-1"}), drains=kept))
    assert decided.defects
    assert decided.actions == []
    assert (decided.updating, decided.plan.restarts, decided.drains) == (frozenset({"cpu-1"}), noted, kept)
    (grows,) = node_set.decide(seen(wanted=5)).actions
    assert is_scale_in(grows), "more pods need nothing of Slurm"


def test_an_update_that_the_status_can_not_remember_begins_on_no_node(monkeypatch: pytest.MonkeyPatch) -> None:
    old = [pod(f"cpu-{n}", uid=str(n), revision="old", created=NOW - datetime.timedelta(hours=1)) for n in range(2)]
    nodes = {each.name: node(each.name) for each in old}
    outdated = changed(state(2, 2, old), revision="new").seen(nodes)
    assert any(isinstance(each, Drain) for each in node_set.decide(outdated).actions)
    fails(monkeypatch, update, "taken")
    assert node_set.decide(outdated).actions == []


def test_what_keeps_jobs_from_an_end_comes_first_and_what_only_informs_last() -> None:
    pods = [pod(f"cpu-{n}", uid=str(n), k8s_node=f"k{n}", evictable=n == 1) for n in range(3)]
    nodes = {f"cpu-{n}": SlurmNode(f"cpu-{n}", frozenset({"IDLE"}), features=frozenset({"cpu"})) for n in range(3)}
    declares = changed(
        state(3, 3, pods), features=("avx512",), k8s_nodes={"k0": CORDONED, "k1": K8sNode(), "k2": K8sNode()}
    )
    kinds: list[Callable[[Action], bool]] = [
        lambda each: isinstance(each, SetEvictable | Drain),
        lambda each: isinstance(each, UpdateNode),
    ]
    decided = node_set.decide(declares.seen(nodes)).actions
    assert [kinds[1](each) for each in decided] == [False, False, True, True, True]
    assert all(kinds[0](each) for each in decided[:2])
