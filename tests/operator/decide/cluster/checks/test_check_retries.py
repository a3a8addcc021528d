"""Promises about nodes that a long check drained: they are tried again without users' jobs, and return if they pass."""

from __future__ import annotations

import dataclasses
import datetime

import hypothesis
import jsonschema
import pytest
from hypothesis import strategies as st
from slurm_operator import drains
from slurm_operator.actions import Action, Drain, EndReservation, Reserve, UndrainReserved
from slurm_operator.decide.cluster.checks import changes, long_checks, retries
from slurm_operator.decide.cluster.checks import ledger as check_ledger
from slurm_operator.decide.cluster.checks.changes import Began, Counted, GaveUp, Over
from slurm_operator.decide.cluster.checks.ledger import Aim, CheckJob, Latest, Ledger, Retry, Verdict
from slurm_operator.decide.cluster.checks.selection import Submission
from slurm_operator.decide.node_sets import preconditions
from slurm_operator.reconcile.health.long_checks import job
from slurm_operator.state.resources import LongCheck
from slurm_operator.state.slurm import EVERY_NODE, Reservation, SlurmNode

from components.control.crds import long_checks as schema
from contract import names, reasons
from tests.operator.played.played_checks import PlayedChecks
from tests.operator.states.check_samples import CHECK, FAILED, NOW, node, state

AGAIN = dataclasses.replace(CHECK, passes=2)
NAME = f"{names.RETRY_PREFIX}cpu-1"
HOUR = datetime.timedelta(hours=1)
RETRY = Retry("bandwidth", "cpu-1", FAILED)
OURS = Reservation(NAME, frozenset({"cpu-1"}), NOW, NOW + retries.LASTS, names.RETRY_USER, "",
                   frozenset({*names.RETRY_FLAGS, "SPEC_NODES"}))  # fmt: skip
ANOTHERS = dataclasses.replace(OURS, name="class", users="alice", flags=frozenset({"SPEC_NODES"}))
DRAINED = dataclasses.replace(node("cpu-1", "IDLE DRAIN", FAILED), reason_set=NOW - 2 * HOUR)
SERVES = node("cpu-1", "IDLE RESERVED MAINTENANCE")


def decide(
    there: SlurmNode,
    retry: Retry | None = RETRY,
    *reservations: Reservation,
    check: LongCheck = AGAIN,
    told: Retry | None = None,
    ledger: Ledger | None = None,
) -> long_checks.Decision:
    """Decide about cpu-1 of four nodes."""
    set_state = state(4, there)
    known = ledger or Ledger(retries={"cpu-1": retry} if retry else {})
    status = Ledger(retries={"cpu-1": told}) if told else known
    nodes = dict.fromkeys((f"cpu-{number}" for number in range(4)), node("x")) | {"cpu-1": there}
    nodes = {name: dataclasses.replace(each, name=name) for name, each in nodes.items()}
    return long_checks.decide([check], {"cpu": set_state}, known, status, {}, NOW, nodes, reservations)


def begins(decided: long_checks.Decision) -> list[Retry]:
    return [change.retry for change in decided.changes if isinstance(change, Began)]


def test_a_node_that_its_check_drained_is_tried_again_after_a_while() -> None:
    assert begins(decide(DRAINED, None)) == [RETRY]
    assert decide(DRAINED, None).actions == [], "the status has it first"


@pytest.mark.parametrize(
    ("there", "check", "reservations"),
    [
        (dataclasses.replace(DRAINED, reason_set=NOW - HOUR / 2), AGAIN, ()),
        (DRAINED, CHECK, ()),
        (DRAINED, dataclasses.replace(AGAIN, drains=False), ()),
        (DRAINED, dataclasses.replace(AGAIN, name="other"), ()),
        (DRAINED, AGAIN, (ANOTHERS,)),
        (DRAINED, AGAIN, (dataclasses.replace(ANOTHERS, nodes=EVERY_NODE, unread="too many nodes"),)),
        (dataclasses.replace(DRAINED, reason_user="alice"), AGAIN, ()),
        (dataclasses.replace(DRAINED, reason="fan"), AGAIN, ()),
        (dataclasses.replace(DRAINED, reason_user="root"), AGAIN, ()),
        (dataclasses.replace(DRAINED, allocated_cpus=1), AGAIN, ()),
        (dataclasses.replace(DRAINED, states=DRAINED.states - {"IDLE"} | {"DOWN"}), CHECK, ()),
    ],
    ids=[
        "too early",
        "no passes",
        "notes",
        "another check",
        "reserved",
        "perhaps reserved",
        "a person",
        "Slurm",
        "the node",
        "work",
        "down",
    ],
)
def test_other_drains_and_other_nodes_are_left_alone(
    there: SlurmNode, check: LongCheck, reservations: tuple[Reservation, ...]
) -> None:
    decided = decide(there, None, *reservations, check=check)
    assert (begins(decided), decided.actions) == ([], [])


def test_a_pair_needs_a_good_partner_before_a_drained_node_is_tried_again() -> None:
    pairs = dataclasses.replace(AGAIN, nodes=2)
    suspects = {("bandwidth", f"cpu-{number}"): Latest(Verdict.SUSPECT, NOW) for number in range(4)}
    assert begins(decide(DRAINED, None, check=pairs, ledger=Ledger(latest=suspects))) == []
    assert begins(decide(DRAINED, None, check=pairs)) == [RETRY]


RESERVES = Reserve(NAME, ("cpu-1",), NOW, NOW + retries.LASTS, names.RETRY_USER, names.RETRY_FLAGS)
PASSED, GIVEN_UP = dataclasses.replace(RETRY, passes=2), dataclasses.replace(RETRY, given_up=True)


@pytest.mark.parametrize(
    ("there", "retry", "reserved", "actions", "noted"),
    [
        (DRAINED, RETRY, False, [RESERVES], []),
        (DRAINED, RETRY, True, [UndrainReserved("cpu-1", FAILED, NAME)], []),
        # It serves the check alone.
        (SERVES, RETRY, True, [], []),
        # Somebody deleted the reservation.
        (node("cpu-1"), RETRY, False, [Drain("cpu-1", FAILED)], [GaveUp("cpu-1")]),
        # It passed: its reservation goes first.
        (SERVES, PASSED, True, [EndReservation(NAME, "long check bandwidth passed 2 times")], []),
        (node("cpu-1"), PASSED, False, [], [Over("cpu-1")]),
        # It did not pass.
        (SERVES, GIVEN_UP, True, [Drain("cpu-1", FAILED)], [GaveUp("cpu-1")]),
        (DRAINED, GIVEN_UP, True, [EndReservation(NAME, "the node is drained again")], []),
        (DRAINED, GIVEN_UP, False, [], [Over("cpu-1")]),
        # Another job drained it meanwhile.
        (dataclasses.replace(DRAINED, reason=f"{FAILED}0"), RETRY, True,
         [EndReservation(NAME, "the node is drained again")], []),
        # A person took it over.
        (node("cpu-1", "IDLE DRAIN", "fan", "alice"), RETRY, True,
         [EndReservation(NAME, "somebody drained the node")], []),
        (node("cpu-1", "IDLE DRAIN", "fan", "alice"), RETRY, False, [], [Over("cpu-1")]),
        # Its own checks drained it, and they may lift that: the reservation stays.
        (node("cpu-1", "IDLE DRAIN", f"{reasons.HEALTH} gpus: 3 of 4", "root"), RETRY, True, [], []),
        (node("cpu-1", "IDLE DRAIN", f"{reasons.HEALTH} gpus: 3 of 4", "root"), GIVEN_UP, True, [], []),
        # Slurm deletes no record in a reservation.
        (node("cpu-1", "IDLE DRAIN", reasons.UPDATE), RETRY, True,
         [EndReservation(NAME, "the node is to be updated or removed")], []),
        (node("cpu-1", "IDLE DRAIN", reasons.UPDATE), RETRY, False, [], []),
    ],
)  # fmt: skip
def test_the_next_step_of_a_retry(
    there: SlurmNode, retry: Retry, reserved: bool, actions: list[Action], noted: list[object]
) -> None:
    decided = decide(there, retry, *([OURS] if reserved else []))
    assert (decided.actions, decided.changes) == (actions, noted)


def test_a_reservation_ends_only_for_passes_that_the_status_has() -> None:
    assert decide(SERVES, PASSED, OURS, told=dataclasses.replace(RETRY, passes=1)).actions == []


def test_a_check_that_is_not_declared_any_more_leaves_the_node_drained() -> None:
    other = dataclasses.replace(AGAIN, name="other")
    assert decide(SERVES, RETRY, OURS, check=other).actions == [Drain("cpu-1", FAILED)]


def test_a_node_that_passed_takes_jobs_also_if_its_check_goes_right_after() -> None:
    other = dataclasses.replace(AGAIN, name="other")
    decided = decide(node("cpu-1"), PASSED, check=other)
    assert (decided.actions, decided.changes) == ([], [Over("cpu-1")])
    assert decide(node("cpu-1"), RETRY, check=other).actions == [Drain("cpu-1", FAILED)], "it had not passed"


def test_a_reservation_that_nobody_remembers_is_ended_behind_a_drain() -> None:
    (retry,) = begins(decide(SERVES, None, OURS))
    assert retry.given_up
    assert decide(SERVES, retry, OURS).actions == [Drain("cpu-1", retry.why)]
    again = node("cpu-1", "IDLE DRAIN", retry.why)
    assert drains.owner(again) is drains.Owner.LONG_CHECK
    assert decide(again, retry, OURS).actions == [EndReservation(NAME, "the node is drained again")]
    assert begins(decide(SERVES, None, ANOTHERS)) == []


def test_the_jobs_of_a_retry_run_in_its_reservation_beside_good_nodes() -> None:
    def jobs(check: LongCheck, *reservations: Reservation) -> list[Submission]:
        good = {("bandwidth", f"cpu-{number}"): Latest(Verdict.PASS, NOW) for number in (0, 2, 3)}
        known = Ledger(latest=good, retries={"cpu-1": RETRY})
        return decide(SERVES, RETRY, *reservations, check=check, ledger=known).submissions

    (alone,) = jobs(AGAIN, OURS)
    assert (alone.nodes, alone.aim, alone.reservation) == (("cpu-1",), Aim.RETRIES, NAME)
    assert job(alone)["reservation"] == NAME
    (pair,) = jobs(dataclasses.replace(AGAIN, nodes=2), OURS)
    assert (pair.nodes, pair.aim) == (("cpu-1", "cpu-0"), Aim.RETRIES)
    kept = dataclasses.replace(ANOTHERS, nodes=frozenset({"cpu-0"}))
    assert [each.nodes for each in jobs(dataclasses.replace(AGAIN, nodes=2), OURS, kept)] == [("cpu-1", "cpu-2")]
    assert jobs(AGAIN) == []


@pytest.mark.parametrize(
    ("verdict", "after"),
    [
        (Verdict.PASS, dataclasses.replace(RETRY, passes=1)),
        (Verdict.NONE, RETRY),
        (Verdict.UNKNOWN, GIVEN_UP),
        (Verdict.FAIL, GIVEN_UP),
    ],
)
def test_a_job_of_a_retry_counts_once(verdict: Verdict, after: Retry) -> None:
    open_job = CheckJob(7, "bandwidth", "cpu-1", NOW, aim=Aim.RETRIES)
    ledger = Ledger({7: open_job}, retries={"cpu-1": RETRY})
    assert changes.changed(ledger, [Counted(7, verdict, NOW)] * 2).retries == {"cpu-1": after}


def test_a_node_that_fails_again_is_drained_whatever_the_breaker_says() -> None:
    failed = CheckJob(7, "bandwidth", "cpu-1", NOW, "job 7 TIMEOUT", aim=Aim.RETRIES)
    drained = [node(f"cpu-{number}", "IDLE DRAIN", FAILED) for number in (0, 2, 3)]
    nodes = {each.name: each for each in (*drained, SERVES)}
    ledger = Ledger({7: failed}, retries={"cpu-1": RETRY})
    there = {"cpu": state(4, *nodes.values(), breaker=1)}
    decided = long_checks.decide([AGAIN], there, ledger, ledger, {}, NOW, nodes, (OURS,))
    assert decided.drains == [Drain("cpu-1", f"{reasons.LONG_CHECK}bandwidth: job 7 TIMEOUT")]


def test_a_drain_is_lifted_only_if_it_is_still_ours_and_the_reservation_is_there() -> None:
    lift = UndrainReserved("cpu-1", FAILED, NAME)
    assert preconditions.hold(lift, DRAINED)
    for other in ({"reason_user": "alice"}, {"reason": "fan"}, {"reason": f"{FAILED}0"}, {"allocated_cpus": 1}):
        assert not preconditions.hold(lift, dataclasses.replace(DRAINED, **other))
    assert preconditions.is_reserved(lift, [ANOTHERS, OURS])
    for changed in (
        {"users": "alice"},
        {"nodes": frozenset({"cpu-2"})},
        {"name": "x"},
        {"flags": frozenset({"MAINT"})},
    ):
        assert not preconditions.is_reserved(lift, [dataclasses.replace(OURS, **changed)])


def test_the_ledger_reads_the_retries_that_it_wrote() -> None:
    ledger = Ledger(retries={"cpu-1": dataclasses.replace(RETRY, passes=1, given_up=True)})
    pair = CheckJob(8, "bandwidth", "cpu-1", NOW, others=("cpu-0",), aim=Aim.RETRIES)
    ledger = dataclasses.replace(ledger, jobs={8: pair})
    rows = check_ledger.written(ledger, [])
    jsonschema.validate(rows, schema.told())
    assert rows[0]["retries"] == [{"node": "cpu-1", "why": FAILED, "passes": 1, "givenUp": True}]
    assert check_ledger.read(rows) == ledger


@hypothesis.given(seed=st.integers(0, 2**32), nodes=st.integers(1, 3))
@hypothesis.settings(max_examples=40, deadline=None)
def test_a_bad_node_has_no_users_jobs_until_it_is_repaired_and_then_returns(seed: int, nodes: int) -> None:
    check = LongCheck("net", "checks", ("cpu",), 3_600, 10, 100, drains=True, script="", nodes=nodes, passes=2)
    played = PlayedChecks(seed, 8, check, {"cpu-3"})
    for _ in range(300):
        played.step()
    assert len(played.drained) > 1, "it was tried again"
    assert {*played.drained} == {"cpu-3"}
    assert not played.exposed
    played.bad.clear()
    for _ in range(200):
        played.step()
    assert not played.is_kept("cpu-3")
    assert (played.reservations, played.ledger.retries) == ({}, {})
