"""Promises about the active configuration: an exact copy of one that slurmctld takes and of which no job dies."""

from __future__ import annotations

import dataclasses
import datetime
from typing import Any

import pytest
from slurm_operator.decide.cluster import config, config_keys
from slurm_operator.decide.cluster.config import CLOSING, HELD, Promote, Reconfigure, TryConfig, Verdict
from slurm_operator.findings import Finding
from slurm_operator.state.slurm import Running, SlurmJob, SlurmNode, Unknown

from components.config.slurm_keys import slurm_options
from contract.conditions import Reason

NOW = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)
PARAMETERS = "SlurmctldParameters=enable_configless,pulumi_slurm={}\n"
TWO = {
    "slurm.conf": PARAMETERS.format("22")
    + "PartitionName=main Nodes=ns_cpu\n partitionname=Side,third Nodes=ns_cpu # x\n"
}
ONE = {
    "slurm.conf": PARAMETERS.format("11")
    + "PartitionName=DEFAULT MaxTime=1\nPartitionName=main Nodes=ns_cpu\n#PartitionName=z\n"
}
BLIND = Unknown("RestUnreachable", "no answer in time")
TAKEN = Verdict(True, "")
LOST = frozenset({"Side", "third"})
"""Partitions that ONE has no more."""
WITH_ONE = Running("enable_configless,pulumi_slurm=11", NOW)
WITH_TWO = Running("enable_configless,pulumi_slurm=22", NOW)


def job(number: int, partition: str, state: str = "RUNNING") -> SlurmJob:
    return SlurmJob(number, frozenset({state}), frozenset(partition.split(",")), frozenset({"cpu-0"}))


def promotion(wanted: Any, active: Any, **given: Any) -> TryConfig | Promote | Finding | None:
    return config.promotion(wanted, active, **{"declared": True, "verdict": TAKEN, "jobs": (), "closed": LOST, **given})


def is_held(decided: object) -> bool:
    return isinstance(decided, Finding) and decided.reason == HELD


def test_partitions_are_read_as_slurm_reads_them() -> None:
    assert config.partitions(TWO) == {"main", "Side", "third"}
    assert config.partitions(ONE) == {"main"}


def test_the_first_configuration_is_tried_and_waits_for_nothing_else() -> None:
    assert promotion(TWO, None, declared=False, verdict=None, jobs=BLIND) == TryConfig(TWO)
    assert promotion(TWO, None, declared=False, jobs=BLIND, closed=frozenset()) == Promote(TWO)
    refused = promotion(TWO, None, declared=False, verdict=Verdict(False, "Bad value"), jobs=BLIND)
    assert isinstance(refused, Finding)
    assert refused.reason == Reason.CONFIGURATION_REFUSED
    assert promotion(None, None) is None


def test_an_exact_copy_is_left_alone_and_any_other_is_replaced() -> None:
    assert promotion(TWO, dict(TWO)) is None
    assert promotion(TWO, TWO | {"more.conf": ""}) == Promote(TWO)
    assert promotion(TWO, {"slurm.conf": TWO["slurm.conf"] + " "}) == Promote(TWO)


def test_nothing_is_replaced_while_a_declaration_is_under_way() -> None:
    assert promotion(ONE, TWO, declared=False, verdict=None) is None


def test_nothing_is_used_that_a_slurmctld_has_not_tried() -> None:
    assert promotion(TWO, ONE, verdict=None) == TryConfig(TWO)


def test_a_refused_configuration_is_not_used_and_slurmctlds_words_are_told() -> None:
    refused = promotion(TWO, ONE, verdict=Verdict(False, "Bad value"))
    assert isinstance(refused, Finding)
    assert refused.reason == Reason.CONFIGURATION_REFUSED
    assert refused.message.endswith("slurmctld refuses it: Bad value")


def test_words_about_an_accepted_configuration_are_kept() -> None:
    assert promotion(TWO, ONE, verdict=Verdict(True, "Invalid bf_interval")) == Promote(TWO, "Invalid bf_interval")


def test_a_partition_with_jobs_is_not_removed_and_takes_no_more() -> None:
    runs = dataclasses.replace(job(7, "Side"), ends=NOW)
    held = promotion(ONE, TWO, jobs=[runs, job(8, "main"), job(9, "third", "PENDING")])
    assert isinstance(held, Finding)
    assert held.reason == HELD
    assert "partition Side" in held.message
    assert "kill its jobs 7 (ends by 2026-01-01 00:00 UTC), 9 (waits):" in held.message
    assert config.closing(ONE, TWO, held, WITH_TWO, frozenset()) == LOST


def test_a_partition_goes_only_when_it_was_seen_empty_after_it_was_closed() -> None:
    first = promotion(ONE, TWO, closed=frozenset({"Side"}))
    assert isinstance(first, Finding)
    assert (first.reason, "partition third " in first.message) == (CLOSING, True)
    assert config.closing(ONE, TWO, first, WITH_TWO, frozenset()) == LOST
    assert promotion(ONE, TWO, closed=LOST) == Promote(ONE)
    assert is_held(promotion(ONE, TWO, closed=LOST, jobs=[job(9, "third")])), "one came before it was closed"


def test_a_closed_partition_stays_so_until_it_is_gone_or_wanted_again() -> None:
    closed = frozenset({"Side"})
    assert config.closing(ONE, ONE, promotion(ONE, TWO), WITH_TWO, closed) == closed, "copied, not yet read"
    assert config.closing(ONE, ONE, None, WITH_ONE, closed) == frozenset(), "read"
    assert config.closing(TWO, TWO, None, WITH_TWO, closed) == frozenset(), "wanted again"
    assert config.closing(TWO, ONE, promotion(TWO, ONE, verdict=None), WITH_TWO, closed) == closed, (
        "goes before it comes"
    )
    assert config.closing(ONE, TWO, promotion(ONE, TWO), WITH_TWO, closed) == LOST, "the copy failed"
    assert config.closing(None, None, None, BLIND, closed) == closed


def test_a_partition_that_is_being_emptied_stays_closed_during_an_update_and_while_the_config_dry_run_is_away() -> None:
    for undecided in (promotion(ONE, TWO, declared=False), promotion(ONE, TWO, verdict=None)):
        assert config.closing(ONE, TWO, undecided, WITH_TWO, LOST) == LOST
        assert config.closing(ONE, TWO, undecided, WITH_TWO, frozenset()) == frozenset(), "it is not closed for that"
    refused = promotion(ONE, TWO, verdict=Verdict(False, "Bad value"))
    assert config.closing(ONE, TWO, refused, WITH_TWO, LOST) == frozenset(), "it stays after all"


def test_a_partition_of_another_case_is_another_partition() -> None:
    renamed = {"slurm.conf": TWO["slurm.conf"].replace("Side", "side")}
    assert is_held(promotion(renamed, TWO, jobs=[job(7, "Side")]))


def test_waiting_jobs_count_and_ended_ones_do_not() -> None:
    assert is_held(promotion(ONE, TWO, jobs=[job(1, "main,third", "PENDING")]))
    assert promotion(ONE, TWO, jobs=[job(1, "Side", "COMPLETED")]) == Promote(ONE)


def test_a_key_that_costs_jobs_waits_until_there_is_none() -> None:
    other = {"slurm.conf": TWO["slurm.conf"] + "switchTYPE=switch/hpe_slingshot # x\n"}
    held = promotion(other, TWO, jobs=[job(7, "main"), job(8, "Side", "PENDING")])
    assert isinstance(held, Finding)
    assert held.reason == HELD
    assert held.message.startswith("switchtype changes: slurmctld may forget all jobs.")
    assert held.message.endswith(": jobs 7 (no known end), 8 (waits)")
    assert is_held(promotion(other, TWO, jobs=BLIND))
    assert promotion(other, TWO, jobs=[job(7, "main", "COMPLETED")]) == Promote(other)
    assert config.jobs_needed(other, TWO, frozenset())


@pytest.mark.parametrize("key", sorted(config_keys.COSTS))
def test_the_costs_are_of_keys_that_slurm_knows(key: str) -> None:
    assert key in slurm_options.ALLOWED.keys() | slurm_options.OWNED.keys()


def test_a_partition_is_not_removed_blindly_but_a_mending_edit_goes_through() -> None:
    assert is_held(promotion(ONE, TWO, jobs=BLIND))
    assert promotion(TWO, ONE, jobs=BLIND) == Promote(TWO)


def test_slurmctld_is_told_until_it_runs_with_the_active_files() -> None:
    assert config.reconfiguration(TWO, WITH_ONE, ()) == Reconfigure()
    assert config.reconfiguration(TWO, WITH_TWO, ()) is None, "whoever told it, and however often"
    assert config.reconfiguration(TWO, BLIND, BLIND) is None
    assert config.reconfiguration(TWO, WITH_ONE, BLIND) is None
    assert config.reconfiguration(None, WITH_ONE, ()) is None


def test_a_job_that_came_after_the_copy_holds_the_reconfigure() -> None:
    assert is_held(config.reconfiguration(ONE, WITH_TWO, [job(9, "Side")]))


@pytest.mark.parametrize(
    ("wanted", "active", "known", "needed"),
    [
        (ONE, TWO, [], True),
        (TWO, TWO, ["main", "Side"], False),
        (TWO, TWO, ["main", "Side", "by-hand"], True),
        (TWO, ONE, ["main"], False),
        (TWO, TWO, [], False),
    ],
)
def test_jobs_are_listed_only_when_some_could_be_lost(wanted: Any, active: Any, known: list[str], needed: bool) -> None:
    assert config.jobs_needed(wanted, active, frozenset(known)) is needed


def node(name: str, seconds: float, *states: str) -> SlurmNode:
    started = NOW + datetime.timedelta(seconds=seconds)
    return SlurmNode(name, frozenset(states or {"IDLE"}), started=started)


def test_a_node_whose_slurmd_is_older_than_slurmctld_has_the_files_of_before() -> None:
    nodes = [
        node("read", 1),
        node("skewed", -3),
        node("missed", -60),
        node("busy", -60, "MIXED", "DRAIN"),
        node("away", -60, "DOWN", "NOT_RESPONDING"),
        SlurmNode("never", frozenset({"IDLE"})),
    ]
    assert config.outdated({each.name: each for each in nodes}, WITH_TWO) == ["busy", "missed"]


def test_content_is_told_apart() -> None:
    assert config.content_hash({"a": "bc"}) != config.content_hash({"ab": "c"})
    assert config.content_hash({"a": "1", "b": "2"}) == config.content_hash({"b": "2", "a": "1"})
