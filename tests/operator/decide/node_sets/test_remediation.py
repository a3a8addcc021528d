"""Promises about unfit nodes: they have time to recover, and idle pods start anew, noted first."""

from __future__ import annotations

import dataclasses

import pytest
from slurm_operator import drains, report
from slurm_operator.actions import Action, DeletePod, Drain, Purpose, Undrain
from slurm_operator.decide.node_sets import remediate, undrain
from slurm_operator.decide.nodes.workers import NodeSetState
from slurm_operator.parse.resources import parse_node_set
from slurm_operator.state.resources import Restart
from slurm_operator.state.slurm import FullListing, SlurmNode

from contract import reasons
from contract.policies import ReactionPolicy
from tests.operator.states.repairs import LONG_AGO, REPAIR, UNFIT, decide, done, minutes, repaired, state, unfit
from tests.operator.states.sets import NOW, changed, job, node


def test_a_restart_is_noted_first_and_done_by_a_later_pass() -> None:
    first = decide(state(), unfit("cpu-1"))
    assert first == remediate.Plan(restarts=(Restart("cpu-1", NOW),))
    second = decide(state(restarts=first.restarts), unfit("cpu-1"))
    assert second == remediate.Plan(actions=(Drain("cpu-1", REPAIR),), restarts=first.restarts)
    third = decide(state(restarts=first.restarts), repaired("cpu-1"))
    assert third == remediate.Plan(actions=(DeletePod("cpu-1", "7", Purpose.ANEW, UNFIT),), restarts=first.restarts)


@pytest.mark.parametrize("shown", [("its own", "ours"), ("ours", "its own"), ("its own", "its own")])
def test_a_pod_goes_only_under_a_drain_of_the_operators_in_both_listings(shown: tuple[str, str]) -> None:
    kinds = {"its own": unfit("cpu-1"), "ours": repaired("cpu-1")}
    others = {f"cpu-{n}": node(f"cpu-{n}") for n in (0, 2, 3)}
    before, after = ({**others, "cpu-1": kinds[each]} for each in shown)
    noted = state(restarts=(Restart("cpu-1", NOW),))
    found = remediate.plan(noted.seen(before, FullListing(after, ()))).actions
    assert not [each for each in found if isinstance(each, DeletePod)]


@pytest.mark.parametrize("user", ["alice", "root"])
def test_the_words_of_a_repair_in_another_name_are_no_drain_of_the_operators(user: str) -> None:
    theirs = dataclasses.replace(repaired("cpu-1"), reason_user=user)
    assert drains.is_anothers(theirs)
    assert decide(state(restarts=(Restart("cpu-1", NOW),)), theirs) == remediate.Plan()


def back(size: NodeSetState, seen: SlurmNode) -> list[Action]:
    """Return what is done to end a drain."""
    return [*undrain.actions(size.seen({seen.name: seen}))]


def test_a_repaired_node_serves_when_its_new_pod_is_ready_and_else_says_what_it_lacks() -> None:
    registered = dataclasses.replace(repaired("cpu-1"), started=NOW)
    noted = state(restarts=(Restart("cpu-1", NOW - minutes(1)),))
    assert back(noted, registered) == [], "its pod is the old one, ready or not"
    size = done(noted)
    young = dataclasses.replace(size.pods["cpu-1"], created=NOW - minutes(0.5))
    for pod, expected in (
        (young, [Undrain("cpu-1")]),
        (dataclasses.replace(young, ready=False), [Drain("cpu-1", reasons.NEW)]),
    ):
        assert back(dataclasses.replace(size, pods={**size.pods, "cpu-1": pod}), registered) == expected
    starts = dataclasses.replace(size.pods["cpu-1"], created=NOW, ready=False)
    unregistered = dataclasses.replace(repaired("cpu-1"), started=LONG_AGO)
    assert back(dataclasses.replace(size, pods={"cpu-1": starts}), unregistered) == []


def test_a_repair_that_nobody_wants_any_more_gives_the_node_back_once_readiness_can_be_believed() -> None:
    assert back(state(), repaired("cpu-1", since=NOW - minutes(0.5))) == []
    assert back(state(), repaired("cpu-1", since=NOW - minutes(2))) == [Undrain("cpu-1")]


def test_a_clock_that_runs_ahead_restarts_no_pod_twice_and_holds_no_budget_for_long() -> None:
    (noted,) = decide(changed(state(), now=NOW + minutes(90)), unfit("cpu-0")).restarts
    body = {"metadata": {"name": "cpu"}, "spec": {"cluster": "c", "statefulSet": "cpu"}}
    (read,) = parse_node_set({**body, "status": {"restarts": [report.restart(noted)]}}).restarts
    again = decide(done(state(restarts=(read,))), repaired("cpu-0"))
    assert not [each for each in again.actions if isinstance(each, DeletePod)]
    assert [each.at for each in again.restarts] == [NOW], "its hour and its day begin now, not when that clock said"
    went = decide(state(restarts=(read,)), repaired("cpu-0"))
    assert [each.pod for each in went.actions if isinstance(each, DeletePod)] == ["cpu-0"]


def test_a_restart_that_was_done_is_not_done_again() -> None:
    size = state(restarts=(Restart("cpu-1", NOW - minutes(1)),))
    young = dataclasses.replace(size.pods["cpu-1"], created=NOW)
    again = dataclasses.replace(size, pods={**size.pods, "cpu-1": young})
    assert decide(again, unfit("cpu-1")).actions == ()
    assert not remediate.needs_full_listing(again.seen({"cpu-1": unfit("cpu-1")}))


def starting() -> NodeSetState:
    size = state()
    return dataclasses.replace(
        size, pods={**size.pods, "cpu-1": dataclasses.replace(size.pods["cpu-1"], running=False)}
    )


@pytest.mark.parametrize(
    ("size", "seen"),
    [
        (state(), node("cpu-1")),
        (state(), unfit("cpu-1", "a fan is broken")),
        (state(), unfit("cpu-1", "pulumi-slurm:update")),
        (state(), unfit("cpu-1", cpus=1)),
        (state(), unfit("cpu-1", since=NOW - minutes(4))),
        (state(), unfit("cpu-9")),
        (state(restart=False), unfit("cpu-1")),
        (dataclasses.replace(state(), pods={}), unfit("cpu-1")),
        (starting(), unfit("cpu-1")),
    ],
    ids=[
        *("fit", "an administrator's", "the operator's", "at work", "not for long", "no member", "off", "no pod"),
        "a pod that has not looked yet",
    ],
)
def test_what_is_left_alone(size: NodeSetState, seen: SlurmNode) -> None:
    assert decide(size, seen) == remediate.Plan()


def test_while_pulumi_is_at_work_nothing_is_restarted() -> None:
    assert decide(state(restarts=(Restart("cpu-1", NOW),)), unfit("cpu-1"), hold="pulumi up is under way").actions == ()


def test_a_noted_restart_waits_for_what_its_node_works_on() -> None:
    noted = (Restart("cpu-1", NOW),)
    assert decide(state(restarts=noted), unfit("cpu-1", cpus=1)) == remediate.Plan(restarts=noted)


def test_a_repair_that_waits_for_jobs_is_told_with_their_ends_if_it_is_to_come() -> None:
    runs = dataclasses.replace(job(7, "RUNNING", "cpu-1"), ends=NOW)

    def told(size: NodeSetState, record: SlurmNode) -> list[str]:
        return [each.message for each in remediate.findings(size.seen({"cpu-1": record}, jobs=(runs,)))]

    working, tried = unfit("cpu-1", cpus=1), (Restart("cpu-1", NOW - minutes(60)),)
    ends = "it is repaired when its jobs have ended: job 7 (ends by 2026-01-01 00:00 UTC)"
    assert told(state(), working) == [f"cpu-1 is unfit ({UNFIT}); {ends}"]
    assert told(state(), unfit("cpu-1")) == []
    for size in (state(restart=False), state(dry_run=True), done(state(restarts=tried, attempts=1))):
        assert told(size, working) == []
    assert told(dataclasses.replace(state(), hold="pulumi up is under way"), working) == []


@pytest.mark.parametrize(
    "becomes",
    [
        unfit("cpu-1", "a fan is broken"),
        unfit("cpu-1", "pulumi-slurm:update"),
        node("cpu-1"),
        unfit("cpu-1", since=NOW),
    ],
    ids=["an administrator took over", "an update did", "it recovered", "it recovered and failed again"],
)
def test_a_noted_restart_is_void_when_the_drain_that_it_is_for_is_gone(becomes: SlurmNode) -> None:
    noted = state(restarts=(Restart("cpu-1", NOW - minutes(5)),))
    assert decide(noted, becomes) == remediate.Plan(), "and the next one has its patience and budgets again"
    assert decide(noted, becomes, hold="pulumi up is under way") == remediate.Plan()
    off = changed(noted, reactions=ReactionPolicy())
    assert decide(off, becomes) == remediate.Plan()


def test_a_note_outlives_half_a_listing_and_counts_once_its_pod_ends() -> None:
    noted = (Restart("cpu-1", NOW - minutes(20)),)
    size = state(restarts=noted)
    assert remediate.plan(size.seen({})).restarts == noted
    ending = dataclasses.replace(size.pods["cpu-1"], terminating=True)
    assert decide(dataclasses.replace(size, pods={**size.pods, "cpu-1": ending}), node("cpu-1")).restarts == noted
    assert decide(done(size), node("cpu-1")).restarts == noted


def test_a_noted_restart_waits_for_a_job_that_only_the_listing_of_jobs_shows() -> None:
    noted = state(restarts=(Restart("cpu-1", NOW),))
    assert decide(noted, repaired("cpu-1"), jobs=(job(1, "SUSPENDED", "cpu-1"),)).actions == ()
    listing = {"cpu-1": repaired("cpu-1")}
    assert remediate.plan(noted.seen(listing)).actions == ()
    assert remediate.needs_full_listing(noted.seen(listing))
    assert not remediate.needs_full_listing(noted.seen({"cpu-1": unfit("cpu-1")})), (
        "nothing goes before its drain is ours"
    )
