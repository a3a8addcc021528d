"""Promises about warnings of preemption: long checks for which jobs of users wait, and grace times without effect."""

from __future__ import annotations

from typing import Any

import pytest

from components.config import parse
from components.preflight import preemption
from tests.unit.samples import SMALL, changed

BY_TIER = {"PreemptType": "preempt/partition_prio", "PreemptMode": "CANCEL"}
MAIN = {"name": "main", "nodeSets": ["cpu"], "default": True}
CHECKS = {"name": "checks", "nodeSets": ["cpu"], "hidden": True, "priorityTier": 0, "preemptMode": "CANCEL"}
OTHER = {"name": "other", "replicas": 1, "resources": {"cpu": 1, "memory": "1Gi"}}


def told(partitions: list[dict[str, Any]], options: dict[str, str], partition: str = "checks") -> list[str]:
    """The sentences about a check of that partition, in a stack with these partitions and options."""
    raw = changed("nodeSets", [SMALL["nodeSets"][0], OTHER])
    raw = changed("health.longChecks", [{"name": "site", "partition": partition, "script": "/opt/check"}], raw)
    raw = changed("slurm", {"options": options}, raw)
    rows = [{key: value for key, value in row.items() if value is not None} for row in partitions]
    return preemption.lasting(parse(changed("partitions", rows, raw) if rows else raw))


@pytest.mark.parametrize(
    ("partitions", "options"),
    [
        ([MAIN, CHECKS], BY_TIER),
        ([MAIN, {**CHECKS, "preemptMode": "REQUEUE"}], BY_TIER),
        (
            [MAIN, {**CHECKS, "preemptMode": None}],
            {"PreemptType": "preempt/partition_prio", "preemptmode": "cancel,gang"},
        ),
        ([{**MAIN, "priorityTier": 6}, {**CHECKS, "priorityTier": 5}], BY_TIER),
        ([MAIN, CHECKS, {"name": "gpus", "nodeSets": ["other"], "priorityTier": 0}], BY_TIER),
        ([MAIN, {**CHECKS, "preemptMode": None}], {"PreemptType": "preempt/qos", "PreemptMode": "CANCEL"}),
    ],
    ids=["as documented", "requeue", "the cluster's mode", "higher tiers", "a partition of other nodes", "by QOS"],
)
def test_nothing_is_told_where_each_job_may_preempt_or_nobody_knows(
    partitions: list[dict[str, Any]], options: dict[str, str]
) -> None:
    assert told(partitions, options) == []


@pytest.mark.parametrize(
    ("partitions", "options", "waiting"),
    [
        ([], {}, "main"),
        ([MAIN, {**CHECKS, "preemptMode": None}], {}, "main, checks"),
        ([MAIN, {**CHECKS, "preemptMode": "OFF"}], BY_TIER, "main, checks"),
        ([MAIN, {**CHECKS, "preemptMode": "SUSPEND"}], {**BY_TIER, "PreemptMode": "SUSPEND,GANG"}, "main, checks"),
        ([MAIN, {**CHECKS, "priorityTier": None}], BY_TIER, "main"),
        ([CHECKS], BY_TIER, "checks"),
    ],
    ids=["one for all", "no preemption", "off", "memory stays", "the same tier", "nobody else"],
)
def test_jobs_that_wait_for_a_check_are_told_of(
    partitions: list[dict[str, Any]], options: dict[str, str], waiting: str
) -> None:
    (sentence,) = told(partitions, options, "checks" if partitions else "main")
    assert sentence == (
        f"health.longChecks[0].partition: jobs of {waiting} wait up to 10m for a job of site: give the checks a "
        "partition of their own with preemptMode: CANCEL and a priorityTier below theirs, and set "
        "slurm.options to PreemptType: preempt/partition_prio and PreemptMode: CANCEL"
    )


@pytest.mark.parametrize(
    ("exempt", "waits"), [("0", False), ("-1", False), ("00:00:00", False), ("5", True), ("1-0", True)]
)
def test_a_time_for_which_no_job_is_preempted_is_told_of(exempt: str, waits: bool) -> None:
    sentences = told([MAIN, CHECKS], {**BY_TIER, "PreemptExemptTime": exempt})
    assert bool(sentences) == waits
    for sentence in sentences:
        assert sentence.startswith(
            "health.longChecks[0].partition: jobs of main, checks wait up to 10m for a job of site"
        )
        assert sentence.endswith(f"PreemptMode: CANCEL, without PreemptExemptTime: {exempt}")


@pytest.mark.parametrize(
    ("mode", "by", "grace_time", "warnings"),
    [
        ("SUSPEND,GANG", "preempt/partition_prio", 60, 1),
        ("cancel,gang", "PREEMPT/partition_prio", 60, 1),
        ("CANCEL", "preempt/partition_prio", 60, 0),
        ("SUSPEND,GANG", "preempt/partition_prio", 0, 0),
        ("SUSPEND,GANG", "preempt/partition_prio", None, 0),
    ],
)
def test_a_grace_time_beside_gang_is_told(mode: str, by: str, grace_time: int | None, warnings: int) -> None:
    low = {"name": "low", "nodeSets": ["cpu"], "preemptMode": "CANCEL"}
    rows = [MAIN, low if grace_time is None else {**low, "graceTime": grace_time}]
    raw = changed("slurm", {"options": {"PreemptType": by, "preemptmode": mode}}, changed("partitions", rows))
    sentences = preemption.without_grace(parse(raw))
    assert len(sentences) == warnings, sentences
    assert all(line.startswith(f"partitions[1].graceTime: with PreemptMode: {mode} Slurm ends") for line in sentences)
