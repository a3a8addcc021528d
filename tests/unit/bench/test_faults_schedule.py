"""A schedule of faults follows from its seed, and has no two faults at one time that exclude each other."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.faults.injections import EDITS, INJECTIONS, PATHS
from bench.faults.kinds import KINDS, Part, exclude_each_other
from bench.faults.schedule import (
    NIGHTLY_MINUTES,
    NIGHTLY_SEEDS,
    SHORT_MINUTES,
    SHORT_SEED,
    SHORTEST_MINUTES,
    Fault,
    most_at_once,
    plan,
    shared_seconds,
)
from bench.faults.verdict import report
from devcluster.machine.bootstrap import CHECKOUT

seeds = st.integers(0, 2**32)
minutes = st.integers(SHORTEST_MINUTES, 30)


def overlapping(faults: list[Fault]) -> list[tuple[Fault, Fault]]:
    pairs = itertools.combinations(faults, 2)
    return [(one, other) for one, other in pairs if one.start < other.end and other.start < one.end]


@given(seeds, minutes)
def test_the_same_seed_gives_the_same_schedule(seed: int, minutes: int) -> None:
    assert plan(seed, minutes) == plan(seed, minutes)


def test_other_seeds_give_other_schedules() -> None:
    drawn = [tuple((each.kind, each.start) for each in plan(seed, 10)) for seed in range(20)]
    assert len(set(drawn)) == len(drawn)


@given(seeds, minutes)
def test_no_two_faults_that_exclude_each_other_are_at_one_time(seed: int, minutes: int) -> None:
    assert not [
        (one.title, other.title)
        for one, other in overlapping(plan(seed, minutes))
        if exclude_each_other((one.kind, one.target), (other.kind, other.target))
    ]


@given(seeds, minutes)
def test_all_faults_begin_after_the_start_and_are_over_before_the_end(seed: int, minutes: int) -> None:
    faults = plan(seed, minutes)
    assert faults
    assert min(each.start for each in faults) > 0
    assert max(each.end for each in faults) <= minutes * 60


@given(seeds, st.integers(5, 30))
def test_two_faults_are_at_one_time_for_a_third_of_a_schedule_and_never_three(seed: int, minutes: int) -> None:
    faults = plan(seed, minutes)
    assert most_at_once(faults) == 2
    assert shared_seconds(faults) > minutes * 60 / 3


def test_every_kind_occurs_over_the_ten_nightly_seeds_and_at_least_fifteen_in_each() -> None:
    drawn = {seed: {fault.kind for fault in plan(seed, NIGHTLY_MINUTES)} for seed in NIGHTLY_SEEDS}
    assert len(drawn) == 10
    assert set().union(*drawn.values()) == set(KINDS)
    assert min(map(len, drawn.values())) >= 15


def test_the_short_schedule_meets_the_operator_slurmctld_a_drift_a_size_and_a_persons_word() -> None:
    drawn = {fault.kind for fault in plan(SHORT_SEED, SHORT_MINUTES)}
    assert {"operator-stopped", "slurmctld-killed", "object-deleted", "workers-orphaned", "scaled-in"} <= drawn
    assert {"person-drained", "slurmrestd-killed", "status-contested", "api-server-stopped"} <= drawn


@given(seeds)
def test_no_kind_comes_again_before_all_others_had_room(seed: int) -> None:
    kinds = [fault.kind for fault in plan(seed, 30)]
    assert len(set(kinds[: len(KINDS)])) == len(KINDS)


def test_each_kind_can_be_injected_on_each_of_its_targets() -> None:
    assert set(INJECTIONS) == set(KINDS)
    assert len(KINDS) >= 15
    objects = [target for kind in KINDS.values() for target in kind.targets if Part.OBJECTS in kind.takes]
    assert {target.partition(" ")[0] for target in objects} <= set(PATHS)
    edited = [*KINDS["object-edited"].targets, *KINDS["template-edited"].targets]
    assert {target.partition(" ")[0] for target in edited} == set(EDITS)


@pytest.mark.parametrize(
    ("one", "other", "excluded"),
    [
        (("slurmctld-stopped", ""), ("person-drained", "cpu-1"), True),
        (("operator-killed", ""), ("operator-stopped", ""), True),
        (("operator-killed", ""), ("node-cordoned", ""), True),
        (("scaled-in", "cpu-1"), ("check-failed", "cpu-1"), True),
        (("scaled-in", "cpu-1"), ("check-failed", "cpu-0"), False),
        (("person-drained", "cpu-1"), ("check-failed", "cpu-1"), True),
        (("person-drained", "cpu-1"), ("person-failed", "cpu-0"), False),
        (("person-drained", "cpu-1"), ("node-cordoned", ""), False),
        (("person-drained", "cpu-1"), ("scaled-in", "cpu-1"), False),
        (("slurmctld-stopped", ""), ("operator-stopped", ""), False),
    ],
)
def test_faults_exclude_each_other_by_what_they_take_and_need(
    one: tuple[str, str], other: tuple[str, str], excluded: bool
) -> None:
    assert exclude_each_other(one, other) is excluded
    assert exclude_each_other(other, one) is excluded


def test_a_schedule_is_told_with_a_line_for_each_fault() -> None:
    faults = plan(1, 5)
    told = report.schedule(faults)
    assert len(told) == len(faults) + 1
    assert all(fault.title in line for fault, line in zip(faults, told, strict=False))


def test_the_page_names_each_kind_and_the_nightly_seeds() -> None:
    page = (CHECKOUT / "docs" / "faults.md").read_text()
    rows = [line.split("|")[1] for line in page.splitlines() if line.startswith("| `")]
    assert set("".join(rows).replace("`", " ").replace(",", " ").split()) == set(KINDS)
    *first, last = map(str, NIGHTLY_SEEDS)
    assert f"Seeds {', '.join(first)} and {last}, twelve minutes each" in page
    assert f"Seed {SHORT_SEED} for three minutes" in page
    assert (NIGHTLY_MINUTES, SHORT_MINUTES) == (12, 3)
