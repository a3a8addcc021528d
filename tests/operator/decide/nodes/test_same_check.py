"""Promises about one check that drains many nodes at once: it is told with its count, and what ends it."""

from __future__ import annotations

from slurm_operator.decide.cluster import status
from slurm_operator.decide.nodes import same_check
from slurm_operator.decide.nodes.workers import NodeSetState
from slurm_operator.state.slurm import SlurmNode

from contract import reasons
from tests.operator.states.repairs import repaired, state, unfit
from tests.operator.states.sets import node


def seen(size: int, *nodes: SlurmNode) -> NodeSetState:
    there = {f"cpu-{n}": node(f"cpu-{n}") for n in range(size)} | {each.name: each for each in nodes}
    return state(size, restart=False).seen(there)


def told(size: int, *nodes: SlurmNode) -> list[str]:
    return [finding.message for finding in same_check.findings(seen(size, *nodes))]


def test_a_check_that_drains_many_nodes_is_told_with_count_and_switch() -> None:
    narrow = [unfit(f"cpu-{n}", "pulumi-slurm:health gpu pcie: GPU 3: 8 of 16 PCIe lanes") for n in range(3)]
    assert told(20, *narrow) == [
        "node set cpu: the check gpu pcie drains 3 of 20 nodes at once, such as cpu-0 (pulumi-slurm:health gpu pcie: "
        "GPU 3: 8 of 16 PCIe lanes); look for what they share: the nodes lift these drains when the check passes; if "
        "the check is wrong, name it in health.checks.disabled: gpu pcie"
    ]
    assert told(30, *narrow) == [], "so few may fail by chance"


def test_nodes_under_repair_count_and_one_node_alone_is_no_pattern() -> None:
    assert len(told(4, unfit("cpu-0"), repaired("cpu-1"))) == 1
    assert told(4, unfit("cpu-0")) == []
    assert told(1, unfit("cpu-0")) == []


def test_different_checks_and_drains_of_others_are_no_pattern() -> None:
    assert told(4, unfit("cpu-0"), unfit("cpu-1", "pulumi-slurm:health space: /tmp is full")) == []
    by_person = node("cpu-1", "IDLE", "DRAIN", reason="pulumi-slurm:health gpus: x", reason_user="alice")
    by_long_check = node("cpu-2", "IDLE", "DRAIN", reason=f"{reasons.LONG_CHECK}disk: slow", reason_user="slurm")
    assert told(4, unfit("cpu-0"), by_person, by_long_check) == []


def test_the_jail_can_not_be_switched_off() -> None:
    (message,) = told(4, *(unfit(f"cpu-{n}", f"{reasons.JAIL}: no answer") for n in range(4)))
    assert "the check jail drains 4 of 4 nodes" in message
    assert "health.checks.disabled" not in message


def test_of_two_checks_the_one_with_more_nodes_is_told_first() -> None:
    full = [unfit(f"cpu-{n}", "pulumi-slurm:health space: /tmp is full") for n in (2, 3, 4)]
    first, second = told(6, unfit("cpu-0"), unfit("cpu-1"), *full)
    assert "the check space drains 3 of 6" in first
    assert "the check gpus drains 2 of 6" in second


def test_degraded_tells_it_before_each_drained_node() -> None:
    _, findings = status.node_set(seen(4, unfit("cpu-0"), unfit("cpu-1")))
    assert [finding.reason for finding in findings.wrong] == ["SameCheckOnManyNodes", "NodesDrained"]
