"""Promises about the warning of fair shares and priorities whose weight is 0."""

from __future__ import annotations

from typing import Any

import pytest

from components.config import parse
from components.preflight import priority_weights
from tests.unit.samples import changed

USERS = [{"name": "alice", "fairshare": 2}]
ACCOUNTS = [{"name": "physics"}, {"name": "optics", "fairshare": 20, "users": USERS}]
QOS = [{"name": "low", "priority": 0}, {"name": "high", "priority": 100}]
ALL = {"accounts": ACCOUNTS, "qos": QOS}
WEIGHTS = {"weightFairshare": 10000, "weightQos": 1}
FACTOR = {"priorityJobFactor": 7}
BASIC = {"PriorityType": "priority/basic"}


def told(accounting: dict[str, Any], options: dict[str, Any], partition: dict[str, Any]) -> list[str]:
    """The sentences about a stack with this accounting, these options and keys of its partition."""
    raw = changed("accounting", {"mode": "mariadb", **accounting} if accounting else {"mode": "off"})
    raw = changed("slurm", {"options": options}, raw)
    rows = [{"name": "main", "nodeSets": ["cpu"], "default": True, **partition}]
    return priority_weights.without_effect(parse(changed("partitions", rows, raw)))


@pytest.mark.parametrize(
    ("accounting", "options", "partition"),
    [
        ({"accounts": ACCOUNTS[:1], "qos": QOS[:1]}, {}, {}),
        ({**ALL, "priority": WEIGHTS}, {}, {}),
        (ALL, {"priorityweightfairshare": "10", "PriorityWeightQOS": "2"}, {}),
        ({}, {"PriorityWeightPartition": "100"}, FACTOR),
        ({"priority": {"decayHalfLife": "1-0"}}, {}, {"options": {"TRESBillingWeights": "CPU=2.0"}}),
        ({}, BASIC, {}),
    ],
    ids=["nothing declared", "weights", "weights as options", "without accounting", "usage has other uses", "basic"],
)
def test_nothing_is_told_where_each_factor_has_a_weight(
    accounting: dict[str, Any], options: dict[str, Any], partition: dict[str, Any]
) -> None:
    assert told(accounting, options, partition) == []


@pytest.mark.parametrize(
    ("accounting", "options", "partition", "path", "weight"),
    [
        (
            {"accounts": ACCOUNTS, "priority": {"weightQos": 1}},
            {},
            {},
            "accounting.accounts[1].fairshare (and 1 more)",
            "accounting.priority.weightFairshare",
        ),
        (
            {"qos": QOS, "priority": {"weightAge": 5}},
            {},
            {},
            "accounting.qos[1].priority",
            "accounting.priority.weightQos",
        ),
        ({"qos": QOS}, {"priorityweightqos": "0"}, {}, "accounting.qos[1].priority", "slurm.options.PriorityWeightQOS"),
        ({"priority": {"maxAge": "1-0"}}, {}, {}, "accounting.priority.maxAge", "accounting.priority.weightAge"),
        ({}, {}, FACTOR, "partitions[0].priorityJobFactor", "slurm.options.PriorityWeightPartition"),
    ],
    ids=["fair shares", "qos", "an option of 0", "age", "a partition without accounting"],
)
def test_what_has_a_weight_of_0_is_told_with_its_path(
    accounting: dict[str, Any], options: dict[str, Any], partition: dict[str, Any], path: str, weight: str
) -> None:
    said = f"{path} does not change which job starts first: set {weight}, which is 0"
    assert told(accounting, options, partition) == [said]


def test_each_weight_has_a_sentence_of_its_own() -> None:
    assert len(told(ALL, {}, FACTOR)) == 3


def test_an_order_by_submission_makes_every_weight_useless() -> None:
    said = "accounting.priority.weightFairshare (and 5 more) decides nothing: leave slurm.options.PriorityType: {} out"
    assert told({**ALL, "priority": WEIGHTS}, BASIC, FACTOR) == [said.format("priority/basic")]
