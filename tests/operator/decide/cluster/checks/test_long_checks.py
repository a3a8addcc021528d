"""Promises about long checks: no verdict is lost, none is forged, and jobs of others go first."""

from __future__ import annotations

import dataclasses
import datetime

import jsonschema
import pytest
from slurm_operator import drains
from slurm_operator.actions import Drain
from slurm_operator.decide.cluster.checks import ledger as check_ledger
from slurm_operator.decide.cluster.checks import long_checks, selection
from slurm_operator.decide.cluster.checks.changes import Counted, Submitted, changed
from slurm_operator.decide.cluster.checks.ledger import CheckJob, Latest, Ledger, Verdict
from slurm_operator.findings import Finding
from slurm_operator.reconcile.health.long_checks import job
from slurm_operator.state.slurm import SeenCheckJob, SlurmNode

from components.control.crds import long_checks as schema
from contract import reasons
from contract.conditions import Reason
from tests.operator.states.check_samples import CHECK, FAILED, NOW, ended, node, state
from tests.operator.states.long_check_steps import OPEN, decide, ledger_of

DAY = datetime.timedelta(days=1)


@pytest.mark.parametrize(
    ("seen", "verdict", "why"),
    [
        (ended("COMPLETED", 0), Verdict.PASS, ""),
        (ended(), Verdict.FAIL, "job 7 FAILED, exit status 1"),
        (ended(status=52), Verdict.FAIL, "job 7 FAILED, exit status 52"),
        (ended("TIMEOUT", 0), Verdict.FAIL, "job 7 TIMEOUT"),
        (ended("NODE_FAIL", 0), Verdict.FAIL, "job 7 NODE_FAIL"),
        (ended("OUT_OF_MEMORY", 3), Verdict.FAIL, "job 7 OUT_OF_MEMORY"),
        (ended("BOOT_FAIL", None), Verdict.FAIL, "job 7 BOOT_FAIL"),
        (ended("CANCELLED", 0), Verdict.NONE, "CANCELLED"),
        (ended("PREEMPTED", 0), Verdict.NONE, "PREEMPTED"),
        (ended("DEADLINE", 1), Verdict.NONE, "DEADLINE"),
        (ended(status=3), Verdict.UNKNOWN, "it could not look (exit status 3)"),
        (ended(status=127), Verdict.UNKNOWN, "the jail lacks what it needs (exit status 127)"),
        (None, Verdict.UNKNOWN, "slurmctld does not know it any more"),
        # Another's job: slurmctld lost its state, and gave the id away again.
        (ended(user_id=1000), Verdict.UNKNOWN, "slurmctld does not know it any more"),
        (ended(name="mine"), Verdict.UNKNOWN, "slurmctld does not know it any more"),
        (ended(node="cpu-2"), Verdict.UNKNOWN, "slurmctld does not know it any more"),
    ],
)  # fmt: skip
def test_a_job_says_what_its_end_says(seen: SeenCheckJob | None, verdict: Verdict, why: str) -> None:
    assert long_checks.judge(OPEN, seen) == (verdict, why)


@pytest.mark.parametrize(
    ("least", "evidence"),
    [("400 GB/s", "job 7 FAILED, exit status 52 (it reached 42 % of 400 GB/s)"), ("", "job 7 FAILED, exit status 52")],
    ids=["measures", "a site's script"],
)
def test_only_of_a_check_that_measures_an_exit_status_is_a_percentage(least: str, evidence: str) -> None:
    (drain,) = decide(state(), ledger_of(OPEN), {7: ended(status=52)}, dataclasses.replace(CHECK, least=least)).drains
    assert drain.reason == f"{reasons.LONG_CHECK}bandwidth: {evidence}"


@pytest.mark.parametrize("states", ["PENDING", "RUNNING", "COMPLETED COMPLETING", "RUNNING CONFIGURING", "SUSPENDED"])
def test_a_job_that_has_not_ended_says_nothing(states: str) -> None:
    assert long_checks.judge(OPEN, ended(states)) is None


def test_a_node_that_fails_is_drained_with_the_checks_name_and_counts_when_it_is() -> None:
    decided = decide(state(), ledger_of(OPEN), {7: ended()})
    assert decided.drains == [Drain("cpu-1", FAILED)]
    assert not [change for change in decided.changes if isinstance(change, Counted)]
    failed = ledger_of(dataclasses.replace(OPEN, failed="job 7 FAILED, exit status 1"))
    drained = decide(state(8, node("cpu-1", "IDLE DRAIN", FAILED)), failed)
    assert (drained.drains, drained.changes) == ([], [Counted(7, Verdict.FAIL, NOW, "job 7 FAILED, exit status 1")])


def test_a_verdict_waits_for_the_end_of_a_drain_that_others_lift() -> None:
    failed = ledger_of(dataclasses.replace(OPEN, failed="job 7 TIMEOUT"))
    own = node("cpu-1", "IDLE DRAIN", f"{reasons.HEALTH} gpus: 3 of 4", "root")
    decided = decide(state(8, own), failed)
    assert (decided.drains, decided.changes) == ([], [])


def test_a_persons_drain_stays_and_ends_the_check() -> None:
    failed = ledger_of(dataclasses.replace(OPEN, failed="job 7 TIMEOUT"))
    decided = decide(state(8, node("cpu-1", "IDLE DRAIN", "fan", "alice")), failed)
    assert (decided.drains, decided.changes) == ([], [Counted(7, Verdict.FAIL, NOW, "job 7 TIMEOUT")])


def test_a_check_that_only_notes_drains_nothing_and_is_told_of() -> None:
    notes = dataclasses.replace(CHECK, drains=False)
    decided = decide(state(), ledger_of(dataclasses.replace(OPEN, failed="job 7 TIMEOUT")), check=notes)
    assert (decided.drains, decided.changes) == ([], [Counted(7, Verdict.FAIL, NOW, "job 7 TIMEOUT")])
    after = decide(state(), ledger_of(latest={"cpu-1": Latest(Verdict.FAIL, NOW)}), check=notes)
    assert Finding(Reason.LONG_CHECK_FAILED, "long check bandwidth failed: cpu-1") in after.findings
    assert "cpu-1" not in [submission.node for submission in after.submissions]


def test_a_check_that_could_not_look_is_told_of_and_drains_nothing() -> None:
    missing = "the jail lacks what it needs (exit status 127)"
    decided = decide(state(), ledger_of(OPEN), {7: ended(status=127)})
    assert (decided.drains, decided.changes) == ([], [Counted(7, Verdict.UNKNOWN, NOW, missing)])
    counted = check_ledger.written(changed(ledger_of(OPEN), decided.changes), ["bandwidth"])
    jsonschema.validate(counted, schema.told())
    after = decide(state(), check_ledger.read(counted), check=dataclasses.replace(CHECK, needs="iperf3"))
    told = f"long check bandwidth unknown: cpu-1; {missing}: iperf3"
    assert after.findings == [Finding(Reason.LONG_CHECK_UNKNOWN, told)]


def test_a_check_on_which_many_nodes_fail_drains_no_more_and_stops() -> None:
    """A broken check must not empty a cluster."""
    there = state(4, node("cpu-0", "IDLE DRAIN", FAILED), node("cpu-2", "IDLE DRAIN", FAILED))
    decided = decide(there, ledger_of(OPEN), {7: ended()})
    assert (decided.drains, decided.submissions) == ([], [])
    assert [finding.reason for finding in decided.findings] == [Reason.BREAKER_OPEN]
    both = [OPEN, dataclasses.replace(OPEN, job_id=8, node="cpu-2")]
    at_once = decide(state(2, breaker=50), ledger_of(both[0], dataclasses.replace(both[1], node="cpu-0")),
                     {7: ended(), 8: ended(node="cpu-0")})  # fmt: skip
    assert len(at_once.drains) == 1


def test_a_job_begins_only_when_the_status_has_it() -> None:
    held = {7: ended("PENDING", None, held=True)}
    assert decide(state(), ledger_of(OPEN), held).releases == [7]
    assert decide(state(), ledger_of(OPEN), held, told=Ledger()).releases == []
    assert decide(state(), ledger_of(OPEN), {7: ended("PENDING", None)}).releases == []


def test_the_longest_unchecked_idle_nodes_come_first_and_no_more_than_the_share() -> None:
    seen = {f"cpu-{n}": Latest(Verdict.PASS, NOW - DAY * (3 + n)) for n in range(7)}
    busy = node("cpu-6", "MIXED")
    decided = decide(state(8, busy), ledger_of(latest=seen))
    # A quarter of eight; cpu-7 was never checked, and cpu-6 has a job.
    assert [submission.node for submission in decided.submissions] == ["cpu-7", "cpu-5"]
    assert decided.submissions[0].deadline == NOW + datetime.timedelta(minutes=15 + 10)


@pytest.mark.parametrize(
    "other",
    [
        node("cpu-0", "ALLOCATED"),
        node("cpu-0", "IDLE DRAIN", "fan", "alice"),
        node("cpu-0", "IDLE RESERVED"),
        node("cpu-0", "IDLE PLANNED"),
        node("cpu-0", "DOWN"),
        node("cpu-0", "IDLE COMPLETING"),
        dataclasses.replace(node("cpu-0"), allocated_memory=1),
    ],
)
def test_a_node_that_others_use_is_left_to_them(other: SlurmNode) -> None:
    assert decide(state(1, other), Ledger()).submissions == []
    assert len(decide(state(1), Ledger()).submissions) == 1


def test_a_node_has_one_job_at_a_time_whatever_the_checks() -> None:
    second = dataclasses.replace(CHECK, name="diag", share_percent=100)
    checks = [dataclasses.replace(CHECK, share_percent=100), second]
    decided = long_checks.decide(checks, {"cpu": state(3)}, ledger_of(OPEN), Ledger(), {}, NOW, {}, None)
    assert sorted(submission.node for submission in decided.submissions) == ["cpu-0", "cpu-2"]


def test_a_check_that_is_always_due_keeps_no_other_one_from_its_turn() -> None:
    """As many nodes are due for the first as there may be jobs: its `every` is shorter than its round of all nodes."""
    often = dataclasses.replace(CHECK, name="often", every_seconds=600, share_percent=100)
    daily = dataclasses.replace(CHECK, name="daily", share_percent=100)
    there = state(200)
    ledger, now, number, tested = Ledger(), NOW, 0, {"often": 0, "daily": 0}
    for _ in range(60):
        now += datetime.timedelta(minutes=1)
        decided = long_checks.decide([often, daily], {"cpu": there}, ledger, ledger, {}, now, {}, None)
        for wanted in decided.submissions:
            number, of = number + 1, (wanted.check.name, wanted.node, now)
            ledger = changed(ledger, [Submitted(CheckJob(number, *of))])
            tested[wanted.check.name] += 1
        # Each takes ten minutes.
        over = [job.job_id for job in ledger.jobs.values() if now - job.submitted >= datetime.timedelta(minutes=10)]
        ledger = changed(ledger, [Counted(job_id, Verdict.PASS, now) for job_id in over])
    assert tested["daily"] == 200, "each node once"
    assert tested["often"] >= 100


def test_a_node_that_is_seldom_idle_goes_to_the_check_that_waits_longest() -> None:
    often, daily = (dataclasses.replace(CHECK, name=name, every_seconds=600) for name in ("often", "daily"))
    latest = {
        ("often", "cpu-0"): Latest(Verdict.PASS, NOW - DAY / 24),
        ("daily", "cpu-0"): Latest(Verdict.PASS, NOW - DAY),
    }
    for checks in ([often, daily], [daily, often]):
        decided = long_checks.decide(checks, {"cpu": state(1)}, Ledger({}, latest), Ledger(), {}, NOW, {}, None)
        assert [wanted.check.name for wanted in decided.submissions] == ["daily"]


def test_failed_jobs_that_wait_for_their_drain_keep_no_other_check_from_its_jobs() -> None:
    """The breaker forbids their drains until somebody has looked at the check."""
    waiting = [
        CheckJob(number, "bandwidth", f"cpu-{number}", NOW, f"job {number} TIMEOUT")
        for number in range(long_checks.MOST_JOBS)
    ]
    other = dataclasses.replace(CHECK, name="diag")
    ledger = ledger_of(*waiting)
    there = state(200, breaker=1)
    decided = long_checks.decide([CHECK, other], {"cpu": there}, ledger, ledger, {}, NOW, {}, None)
    assert Reason.BREAKER_OPEN in [finding.reason for finding in decided.findings]
    assert {wanted.check.name for wanted in decided.submissions} == {"diag"}


@pytest.mark.parametrize(
    ("said", "is_due"),
    [
        (Latest(Verdict.PASS, NOW - DAY), True),
        (Latest(Verdict.PASS, NOW - DAY + selection.RETRY), False),
        (Latest(Verdict.UNKNOWN, NOW - DAY / 2), False),
        (Latest(Verdict.NONE, NOW - selection.RETRY), True),
        (Latest(Verdict.NONE, NOW - selection.RETRY / 2), False),
        (Latest(Verdict.FAIL, NOW), True),
    ],
    ids=["after a day", "earlier", "unknown", "cancelled", "cancelled just now", "undrained"],
)
def test_when_a_node_is_due_again(said: Latest, is_due: bool) -> None:
    assert bool(decide(state(1), ledger_of(latest={"cpu-0": said})).submissions) == is_due


@pytest.mark.parametrize(
    ("schedule", "said", "is_due"),
    [
        ("0 3 * * *", Latest(Verdict.PASS, NOW - datetime.timedelta(hours=21)), True),
        ("0 3 * * *", Latest(Verdict.PASS, NOW - datetime.timedelta(hours=20, minutes=59)), False),
        ("0 3 * * *", Latest(Verdict.UNKNOWN, NOW - datetime.timedelta(hours=20)), False),
        ("0 3 * * *", Latest(Verdict.NONE, NOW - selection.RETRY), True),
        ("0 3 * * *", Latest(Verdict.FAIL, NOW), True),
        ("0 0 * * thu", Latest(Verdict.PASS, NOW - DAY / 24), True),
        ("0 0 * * 3", Latest(Verdict.PASS, NOW - DAY), True),
        ("1 0 * * 3", Latest(Verdict.PASS, NOW - DAY + datetime.timedelta(minutes=1, seconds=1)), False),
        ("0 3 29 2 *", Latest(Verdict.PASS, NOW - 2 * 365 * DAY), True),
        ("0 3 29 2 *", Latest(Verdict.PASS, NOW - 365 * DAY), False),
    ],
)
def test_a_node_is_due_once_a_tick_has_passed_since_its_last_check(schedule: str, said: Latest, is_due: bool) -> None:
    """It is Thursday, 00:00 in UTC."""
    scheduled = dataclasses.replace(CHECK, every_seconds=0, schedule=schedule)
    assert bool(decide(state(1), ledger_of(latest={"cpu-0": said}), check=scheduled).submissions) == is_due
    assert decide(state(1), Ledger(), check=scheduled).submissions


@pytest.mark.parametrize("schedule", ["0 3 30 2 *", "0 3 5-2 * *"])
def test_a_schedule_that_no_calendar_has_is_told_of_and_tests_no_node_again(schedule: str) -> None:
    """The pattern of the CRD takes it, but no preview does."""
    scheduled = dataclasses.replace(CHECK, every_seconds=0, schedule=schedule)
    decided = decide(state(1), ledger_of(latest={"cpu-0": Latest(Verdict.PASS, NOW - 9000 * DAY)}), check=scheduled)
    told = f"long check bandwidth tests no node again: no day fits its schedule {schedule}"
    assert (decided.submissions, decided.findings) == ([], [Finding(Reason.LONG_CHECK_UNKNOWN, told)])


def test_a_job_has_a_whole_node_the_lowest_priority_and_no_rights() -> None:
    (submission,) = decide(state(1), Ledger()).submissions
    asked = job(submission)
    assert (asked["user_id"], asked["group_id"]) == ("65534", "65534")
    assert (asked["required_nodes"], asked["shared"], asked["hold"]) == (["cpu-0"], ["none"], True)
    assert (asked["requeue"], asked["nice"]) == (False, 2_147_483_645)


def test_only_a_person_lifts_a_long_checks_drain_and_nothing_replaces_it() -> None:
    drained = node("cpu-1", "IDLE DRAIN", FAILED)
    assert drains.owner(drained) is drains.Owner.LONG_CHECK
    assert (drains.is_liftable(drained), drains.is_anothers(drained), drains.is_by_person(drained)) == (
        False,
        True,
        False,
    )
    others = (reasons.UPDATE, reasons.SCALE_IN, reasons.NEW, f"{reasons.NODE}m-1 is cordoned", f"{reasons.REPAIR}x")
    assert not [reason for reason in others if drains.may_be_drained(drained, reason)]
    # A node may write such words as well, and lifts its own drains.
    assert drains.owner(dataclasses.replace(drained, reason_user="root")) is drains.Owner.UNFIT


def test_the_ledger_reads_what_it_wrote_and_fits_its_schema() -> None:
    failed = CheckJob(8, "bandwidth", "cpu-2", NOW, "job 8 TIMEOUT")
    latest = {
        "cpu-0": Latest(Verdict.PASS, NOW),
        "cpu-3": Latest(Verdict.PASS, NOW),
        "cpu-4": Latest(Verdict.NONE, NOW),
    }
    whole = dataclasses.replace(ledger_of(OPEN, failed, latest=latest), counts={("bandwidth", Verdict.PASS): 2})
    rows = check_ledger.written(whole, ["bandwidth"])
    jsonschema.validate(rows, schema.told())
    assert check_ledger.read(rows) == whole
    assert rows[0]["checked"][1] == {"at": "2026-01-01T00:00:00Z", "verdict": "PASS", "nodes": ["cpu-0", "cpu-3"]}


def test_the_ledger_forgets_nodes_and_checks_that_are_gone_but_no_job() -> None:
    there = ledger_of(OPEN, latest={"cpu-0": Latest(Verdict.PASS, NOW), "cpu-9": Latest(Verdict.PASS, NOW)})
    (row,) = check_ledger.written(there, [], {"cpu-0"})
    assert [group["nodes"] for group in row["checked"]] == [["cpu-0"]]
    assert check_ledger.written(ledger_of(latest={"cpu-0": Latest(Verdict.PASS, NOW)}), []) == []
