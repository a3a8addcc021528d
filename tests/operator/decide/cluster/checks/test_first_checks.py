"""Promises about long checks before jobs: a new or repaired node takes none until it has passed."""

from __future__ import annotations

import dataclasses
import datetime
from typing import Any

import hypothesis
import pytest
from hypothesis import strategies as st
from slurm_operator import drains
from slurm_operator.actions import Action, Drain, EndReservation, Reserve, Undrain, UndrainReserved
from slurm_operator.decide.cluster import status
from slurm_operator.decide.cluster.checks import changes, long_checks, retries
from slurm_operator.decide.cluster.checks.changes import Began, Counted, GaveUp, Over
from slurm_operator.decide.cluster.checks.ledger import Aim, CheckJob, Latest, Ledger, Retry, Verdict
from slurm_operator.decide.node_sets import node_set, undrain
from slurm_operator.decide.nodes import slurm_nodes
from slurm_operator.findings import Severity
from slurm_operator.state.kubernetes import Pod
from slurm_operator.state.resources import LongCheck
from slurm_operator.state.slurm import Reservation, SlurmNode

from contract import names, reasons
from contract.conditions import Reason
from tests.operator.played.played_checks import PlayedChecks
from tests.operator.states import sets
from tests.operator.states.check_samples import CHECK, NOW, ended, node, state

FIRST = dataclasses.replace(CHECK, comes_first=True, passes=2)
SECOND = dataclasses.replace(FIRST, name="disk")
WHY, NEXT = f"{reasons.UNTESTED}bandwidth", f"{reasons.UNTESTED}disk"
NAME = f"{names.RETRY_PREFIX}cpu-1"
HOUR = datetime.timedelta(hours=1)
RETRY = Retry("bandwidth", "cpu-1", WHY)
PASSED = dataclasses.replace(RETRY, passes=1)
OURS = Reservation(NAME, frozenset({"cpu-1"}), NOW, NOW + retries.LASTS, names.RETRY_USER, "",
                   frozenset(names.RETRY_FLAGS))  # fmt: skip
UNTESTED = dataclasses.replace(node("cpu-1", "IDLE DRAIN", WHY), reason_set=NOW)
SERVES = node("cpu-1", "IDLE RESERVED MAINTENANCE")


def lifted(seen: SlurmNode, *first: str, ready: bool = True, **more: Any) -> list[Action]:
    """Return what the node set does about a drain whose cause is over."""
    pod = Pod("cpu-0", "worker", ready=ready, running=True, created=NOW - HOUR)
    seen = dataclasses.replace(seen, name="cpu-0", started=NOW)
    there = sets.node_set(1, 1, [pod], NOW, nodes={"cpu-0": seen}, first_checks=first, **more)
    return [*undrain.actions(there)]


K8S_NODE, REPAIRED = f"{reasons.NODE}k-1 is cordoned", f"{reasons.REPAIR}health gpus: 3 of 4"


@pytest.mark.parametrize(
    ("seen", "expected"),
    [
        (node("cpu-0", "IDLE DRAIN", reasons.NEW, "root"), Drain("cpu-0", WHY)),
        (dataclasses.replace(node("cpu-0", "IDLE DRAIN", REPAIRED), reason_set=NOW - HOUR), Drain("cpu-0", WHY)),
        (node("cpu-0", "IDLE DRAIN", K8S_NODE), Drain("cpu-0", WHY)),
        # Its jobs ran on, so nobody repaired it meanwhile.
        (node("cpu-0", "MIXED DRAIN", K8S_NODE), Undrain("cpu-0")),
        (node("cpu-0", "IDLE DRAIN", reasons.SCALE_IN), Undrain("cpu-0")),
        # The check that it waits for comes before jobs no more, and another one does.
        (node("cpu-0", "IDLE DRAIN", NEXT), Drain("cpu-0", WHY)),
    ],
    ids=["new", "repaired", "back", "worked on", "stays", "another check"],
)  # fmt: skip
def test_a_node_that_comes_is_untested_before_it_serves(seen: SlurmNode, expected: Action) -> None:
    assert lifted(seen, "bandwidth") == [expected]
    assert lifted(seen) == [Undrain("cpu-0")], "no check comes before jobs"


def test_an_untested_node_stays_so_until_its_check_passes_and_counts_as_coming() -> None:
    assert lifted(UNTESTED, "bandwidth") == []
    assert lifted(UNTESTED, "bandwidth", ready=False) == []
    assert slurm_nodes.standing(UNTESTED, pod_ready=True) is slurm_nodes.Standing.WAITING
    there = sets.changed(state(4, UNTESTED), first_checks=("bandwidth",))
    findings = status.node_set(there)[1]
    (told,) = (finding for finding in findings if finding.reason is Reason.NODES_UNTESTED)
    assert (told.message, told.severity) == (
        "nodes take jobs when their long check has passed: cpu-1 (bandwidth)",
        Severity.PROGRESSING,
    )
    assert not findings.blocking


def test_a_person_keeps_an_untested_node_or_takes_it_into_service() -> None:
    theirs = dataclasses.replace(UNTESTED, reason="fan", reason_user="alice")
    assert lifted(theirs, "bandwidth") == []
    assert decide(theirs, RETRY).changes == [Over("cpu-1")]
    assert decide(node("cpu-1"), None).actions == []


def decide(
    there: SlurmNode,
    retry: Retry | None,
    *reservations: Reservation,
    checks: tuple[LongCheck, ...] = (FIRST,),
    ledger: Ledger | None = None,
) -> long_checks.Decision:
    """Decide about cpu-1 of four nodes."""
    known = dataclasses.replace(ledger or Ledger(), retries={"cpu-1": retry} if retry else {})
    seen = {f"cpu-{number}": node(f"cpu-{number}") for number in range(4)} | {"cpu-1": there}
    return long_checks.decide(checks, {"cpu": state(4, there)}, known, known, {}, NOW, seen, reservations)


def begins(decided: long_checks.Decision) -> list[Retry]:
    return [change.retry for change in decided.changes if isinstance(change, Began)]


RESERVES = Reserve(NAME, ("cpu-1",), NOW, NOW + retries.LASTS, names.RETRY_USER, names.RETRY_FLAGS)


@pytest.mark.parametrize(
    ("there", "retry", "reserved", "actions", "noted"),
    [
        (UNTESTED, RETRY, False, [RESERVES], []),
        (UNTESTED, RETRY, True, [UndrainReserved("cpu-1", WHY, NAME)], []),
        (SERVES, RETRY, True, [], []),
        # Its reservation went, as for an update: it is untested still.
        (node("cpu-1"), RETRY, False, [Drain("cpu-1", WHY)], [GaveUp("cpu-1")]),
        # One pass does.
        (SERVES, PASSED, True, [EndReservation(NAME, "long check bandwidth passed 1 times")], []),
        (node("cpu-1"), PASSED, False, [], [Over("cpu-1")]),
        # Nobody knows how good it is, so it stays out.
        (SERVES, dataclasses.replace(RETRY, given_up=True), True, [Drain("cpu-1", WHY)], [GaveUp("cpu-1")]),
        (UNTESTED, dataclasses.replace(RETRY, given_up=True), True,
         [EndReservation(NAME, "the node is drained again")], []),
    ],
)  # fmt: skip
def test_the_next_step_of_a_first_test(
    there: SlurmNode, retry: Retry, reserved: bool, actions: list[Action], noted: list[object]
) -> None:
    decided = decide(there, retry, *([OURS] if reserved else []))
    assert (decided.actions, decided.changes) == (actions, noted)


def test_all_untested_nodes_are_tested_at_once_whatever_the_share() -> None:
    every = [dataclasses.replace(UNTESTED, name=f"cpu-{number}") for number in range(4)]
    nodes = {each.name: each for each in every}
    one_percent = dataclasses.replace(FIRST, share_percent=1)
    known = Ledger()
    decided = long_checks.decide([one_percent], {"cpu": state(4, *every)}, known, known, {}, NOW, nodes, ())
    assert [retry.node for retry in begins(decided)] == [*nodes]


def test_checks_before_jobs_follow_each_other() -> None:
    both = (FIRST, SECOND)
    assert begins(decide(UNTESTED, None, checks=both)) == [RETRY]
    assert decide(SERVES, PASSED, OURS, checks=both).actions == [Drain("cpu-1", NEXT)]
    second = dataclasses.replace(UNTESTED, reason=NEXT)
    assert decide(second, PASSED, OURS, checks=both).actions == [
        EndReservation(NAME, "long check bandwidth passed 1 times")
    ]
    assert begins(decide(second, None, checks=both)) == [Retry("disk", "cpu-1", NEXT)]
    last = Retry("disk", "cpu-1", NEXT, passes=1)
    assert decide(SERVES, last, OURS, checks=both).actions == [EndReservation(NAME, "long check disk passed 1 times")]


def test_a_check_that_comes_first_no_more_lets_the_node_serve() -> None:
    later = (dataclasses.replace(FIRST, comes_first=False),)
    assert decide(SERVES, RETRY, OURS, checks=later).actions == [EndReservation(NAME, "it is not to be tested")]
    assert decide(SERVES, RETRY, OURS, checks=(*later, SECOND)).actions == [Drain("cpu-1", NEXT)]


def test_a_new_node_that_fails_is_drained_for_that_and_one_that_could_not_look_waits_an_hour() -> None:
    job = CheckJob(7, "bandwidth", "cpu-1", NOW, aim=Aim.RETRIES)
    known = Ledger({7: job}, retries={"cpu-1": RETRY})
    nodes = {"cpu-1": SERVES}
    seen = {7: ended()}
    decided = long_checks.decide([FIRST], {"cpu": state(4, SERVES, breaker=1)}, known, known, seen, NOW, nodes, (OURS,))
    (drain,) = decided.drains
    assert drain.reason == f"{reasons.LONG_CHECK}bandwidth: job 7 FAILED, exit status 1"
    after = changes.changed(known, [Counted(7, Verdict.UNKNOWN, NOW)])
    assert after.retries["cpu-1"].given_up
    for minutes, due in ((0, False), (59, False), (60, True)):
        said = {("bandwidth", "cpu-1"): Latest(Verdict.UNKNOWN, NOW - datetime.timedelta(minutes=minutes))}
        assert bool(begins(decide(UNTESTED, None, ledger=Ledger(latest=said)))) is due


@pytest.mark.parametrize("why", [WHY, f"{reasons.LONG_CHECK}bandwidth: job 6 TIMEOUT"], ids=["new", "tried again"])
def test_a_person_lifts_the_drain_of_a_failure_as_soon_as_that_counts(why: str) -> None:
    job = CheckJob(7, "bandwidth", "cpu-1", NOW, "job 7 TIMEOUT", aim=Aim.RETRIES)
    known = Ledger({7: job}, retries={"cpu-1": Retry("bandwidth", "cpu-1", why)})
    failed = node("cpu-1", "IDLE DRAIN", f"{reasons.LONG_CHECK}bandwidth: job 7 TIMEOUT")
    check = dataclasses.replace(FIRST, share_percent=100)

    def decided(there: SlurmNode, ledger: Ledger, *reservations: Reservation) -> long_checks.Decision:
        sets_there = {"cpu": state(4, there)}
        return long_checks.decide([check], sets_there, ledger, ledger, {}, NOW, {"cpu-1": there}, reservations)

    first = decided(failed, known, OURS)
    assert first.changes == [Counted(7, Verdict.FAIL, NOW, "job 7 TIMEOUT"), Over("cpu-1")]
    assert first.actions == [EndReservation(NAME, "the node is drained again")]
    then = decided(node("cpu-1"), changes.changed(known, first.changes))
    assert (then.drains, then.actions) == ([], [])
    assert "cpu-1" in {submission.node for submission in then.submissions}, "it is the next to be tested"


def test_a_node_that_fails_again_under_its_drain_stays_the_one_that_is_tried() -> None:
    failed = node("cpu-1", "IDLE DRAIN", f"{reasons.LONG_CHECK}bandwidth: job 6 TIMEOUT")
    job = CheckJob(7, "bandwidth", "cpu-1", NOW, "job 7 TIMEOUT", aim=Aim.RETRIES)
    known = Ledger({7: job}, retries={"cpu-1": Retry("bandwidth", "cpu-1", failed.reason)})
    check = dataclasses.replace(FIRST, share_percent=100)
    decided = long_checks.decide([check], {"cpu": state(4, failed)}, known, known, {}, NOW, {"cpu-1": failed}, (OURS,))
    assert decided.changes == [Counted(7, Verdict.FAIL, NOW, "job 7 TIMEOUT")]
    assert decided.drains == []


def test_a_failure_that_was_seen_late_drains_an_untested_node() -> None:
    failed = CheckJob(7, "bandwidth", "cpu-1", NOW, "job 7 TIMEOUT")
    known = Ledger({7: failed})
    decided = long_checks.decide([FIRST], {"cpu": state(4, UNTESTED)}, known, known, {}, NOW, {"cpu-1": UNTESTED}, ())
    assert decided.drains == [Drain("cpu-1", f"{reasons.LONG_CHECK}bandwidth: job 7 TIMEOUT")]
    assert drains.may_be_drained(UNTESTED, decided.drains[0].reason)


def test_a_repair_does_not_end_the_test_of_a_node_that_failed() -> None:
    why = f"{reasons.LONG_CHECK}bandwidth: job 7 TIMEOUT"
    failed = Retry("bandwidth", "cpu-1", why)
    assert decide(UNTESTED, failed, OURS).actions == [UndrainReserved("cpu-1", WHY, NAME)]


def test_an_untested_node_may_be_removed_and_its_pod_updated() -> None:
    outdated = sets.changed(state(2, UNTESTED), revision="8", first_checks=("bandwidth",))
    assert Drain("cpu-1", reasons.UPDATE) in node_set.decide(outdated).actions
    smaller = sets.changed(state(2, UNTESTED), replicas=1, first_checks=("bandwidth",))
    assert Drain("cpu-1", reasons.SCALE_IN) in node_set.decide(smaller).actions


@hypothesis.given(seed=st.integers(0, 2**32))
@hypothesis.settings(max_examples=40, deadline=None)
def test_no_node_has_users_jobs_before_its_first_pass_and_a_good_one_soon_has_them(seed: int) -> None:
    check = LongCheck("net", "checks", ("cpu",), 3_600, 10, 25, drains=True, script="", passes=2, comes_first=True)
    played = PlayedChecks(seed, 8, check, {"cpu-3"})
    for name in played.nodes:
        played.drain(name, reasons.NEW, "root")
    for _ in range(150):
        played.step()
    kept = set(filter(played.is_kept, played.nodes))
    assert (kept, {*played.drained}, played.exposed) == ({"cpu-3"}, {"cpu-3"}, set())
    # One comes back from a repair that did not help.
    played.bad = {"cpu-5"}
    played.drain("cpu-5", f"{reasons.REPAIR}health gpus: 3 of 4", names.SLURM_USER)
    for _ in range(200):
        played.step()
    assert not played.exposed
    assert {*played.drained} == {"cpu-3", "cpu-5"}
    assert not played.is_kept("cpu-3")
    played.bad.clear()
    for _ in range(200):
        played.step()
    assert not any(map(played.is_kept, played.nodes))
    assert (played.reservations, played.ledger.retries) == ({}, {})
