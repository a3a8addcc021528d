"""Promises about the active configuration: an exact copy, let through only when no job would die of it."""

from __future__ import annotations

import datetime

from slurm_operator.decisions import config
from slurm_operator.decisions.config import Hold, Memory, Promote, Reconfigure, Wait
from slurm_operator.seen import SlurmJob, Unknown

NOW = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)
LATER = NOW + config.SEEN_BY_PODS_AFTER
TWO = {"slurm.conf": "ClusterName=a\nPartitionName=main Nodes=ns_cpu\n partitionname=Side,third Nodes=ns_cpu # x\n"}
ONE = {
    "slurm.conf": "ClusterName=a\nPartitionName=DEFAULT MaxTime=1\nPartitionName=main Nodes=ns_cpu\n#PartitionName=z\n"
}
BLIND = Unknown("RestUnreachable", "no answer in time")


def job(number: int, partition: str, state: str = "RUNNING") -> SlurmJob:
    return SlurmJob(number, frozenset({state}), frozenset(partition.split(",")), frozenset({"cpu-0"}))


def test_partitions_are_read_as_slurm_reads_them() -> None:
    assert config.partitions(TWO) == {"main", "side", "third"}
    assert config.partitions(ONE) == {"main"}


def test_the_first_configuration_is_copied_without_questions() -> None:
    assert config.promotion(TWO, None, declared=False, jobs=BLIND) == Promote(TWO)
    assert config.promotion(None, None, declared=True, jobs=()) is None


def test_an_exact_copy_is_left_alone_and_any_other_is_replaced() -> None:
    assert config.promotion(TWO, dict(TWO), declared=True, jobs=()) is None
    assert config.promotion(TWO, TWO | {"more.conf": ""}, declared=True, jobs=()) == Promote(TWO)
    assert config.promotion(TWO, {"slurm.conf": TWO["slurm.conf"] + " "}, declared=True, jobs=()) == Promote(TWO)


def test_nothing_is_replaced_while_a_declaration_is_under_way() -> None:
    assert config.promotion(ONE, TWO, declared=False, jobs=()) is None


def test_a_partition_with_jobs_is_not_removed() -> None:
    held = config.promotion(ONE, TWO, declared=True, jobs=[job(7, "side"), job(8, "main")])
    assert isinstance(held, Hold)
    assert "partition side" in held.message
    assert "jobs 7:" in held.message


def test_waiting_jobs_count_and_ended_ones_do_not() -> None:
    assert isinstance(config.promotion(ONE, TWO, declared=True, jobs=[job(1, "main,third", "PENDING")]), Hold)
    assert config.promotion(ONE, TWO, declared=True, jobs=[job(1, "side", "COMPLETED")]) == Promote(ONE)


def test_a_partition_is_not_removed_blindly_but_a_mending_edit_goes_through() -> None:
    assert isinstance(config.promotion(ONE, TWO, declared=True, jobs=BLIND), Hold)
    assert config.promotion(TWO, ONE, declared=True, jobs=BLIND) == Promote(TWO)


def test_slurmctld_is_told_when_its_pod_must_have_the_file() -> None:
    old = Memory(config.content_hash(ONE), NOW - datetime.timedelta(days=1), config.content_hash(ONE))
    fresh = config.remember(TWO, old, now=NOW, reconfigured=False)
    assert fresh == Memory(config.content_hash(TWO), NOW, config.content_hash(ONE))
    assert isinstance(config.reconfiguration(TWO, fresh, now=NOW, jobs=()), Wait)
    assert config.reconfiguration(TWO, fresh, now=LATER, jobs=()) == Reconfigure()
    assert isinstance(config.reconfiguration(TWO, fresh, now=LATER, jobs=BLIND), Wait)
    told = config.remember(TWO, fresh, now=LATER, reconfigured=True)
    assert config.reconfiguration(TWO, told, now=LATER, jobs=()) is None


def test_a_job_that_came_after_the_copy_holds_the_reconfigure() -> None:
    memory = Memory(config.content_hash(ONE), NOW, config.content_hash(TWO))
    assert isinstance(config.reconfiguration(ONE, memory, now=LATER, jobs=[job(9, "side")]), Hold)


def test_the_configuration_that_slurmctld_started_with_needs_no_telling() -> None:
    memory = config.remember(TWO, None, now=NOW, reconfigured=False)
    assert config.reconfiguration(TWO, memory, now=LATER, jobs=()) is None
    assert not config.jobs_needed(TWO, TWO, memory)


def test_content_is_told_apart() -> None:
    assert config.content_hash({"a": "bc"}) != config.content_hash({"ab": "c"})
    assert config.content_hash({"a": "1", "b": "2"}) == config.content_hash({"b": "2", "a": "1"})
