"""Promises about scaling: out at once, in without touching a job or somebody else's drain."""

from __future__ import annotations

import dataclasses
import datetime

import pytest
from slurm_operator.actions import Action, Drain, RequeueJobs, SetReplicas, Undrain
from slurm_operator.decide.node_sets import scale
from slurm_operator.decide.nodes import slurm_nodes
from slurm_operator.decide.nodes.workers import UNREGISTERED_PATIENCE, NodeSetState
from slurm_operator.state.resources import RemovalPolicy
from slurm_operator.state.slurm import FullListing, SlurmNode

from tests.operator.states.scaling import decide, lowered
from tests.operator.states.sets import NOW, OURS, changed, job, leaving, node, pod, state


def test_scale_out_raises_the_size_at_once() -> None:
    assert decide(state(5, 2), [node("cpu-0"), node("cpu-1")]) == [SetReplicas("cpu", 5, 2, "7")]


def test_a_steady_set_is_left_alone() -> None:
    assert decide(state(2, 2), [node("cpu-0"), node("cpu-1", "ALLOCATED", cpus=4)]) == []


def test_scale_in_begins_with_drains_of_the_highest_nodes_only() -> None:
    nodes = [node(f"cpu-{n}") for n in range(4)]
    assert decide(state(2, 4), nodes) == [Drain("cpu-3"), Drain("cpu-2")]


def test_scale_in_lowers_when_the_highest_nodes_are_drained_and_idle() -> None:
    assert decide(state(1, 3), [node("cpu-0"), leaving("cpu-1"), leaving("cpu-2")]) == [lowered(1, 3)]


def overdue(name: str, *states: str, cpus: int = 0, reason: str = OURS["reason"], user: str = "slurm") -> SlurmNode:
    drained = node(name, *(states or ("MIXED",)), "DRAIN", cpus=cpus, reason=reason, reason_user=user)
    return dataclasses.replace(drained, reason_set=NOW - datetime.timedelta(hours=1))


@pytest.mark.parametrize(("deadline", "taken"), [(None, []), (3601, []), (3599, [RequeueJobs("cpu-0")])])
def test_jobs_of_nodes_that_go_are_taken_only_after_the_users_deadline(
    deadline: int | None, taken: list[Action]
) -> None:
    size = changed(state(0, 1), removal=RemovalPolicy(deadline))
    assert decide(size, [overdue("cpu-0", cpus=1)], [job(1, "RUNNING", "cpu-0")]) == taken
    suspended = [overdue("cpu-0", "IDLE")], [job(1, "SUSPENDED", "cpu-0")]
    assert decide(size, *suspended) == taken, "a suspended job shows in the listing of jobs alone"


@pytest.mark.parametrize(
    "theirs",
    [
        overdue("cpu-0", cpus=1, reason="bad disk", user="root"),
        overdue("cpu-0", cpus=1, user="root"),
        overdue("cpu-0", cpus=1, reason="pulumi-slurm:scale-in, its deadline has passed"),
    ],
    ids=["an administrator's drain", "our words in another's mouth", "done already"],
)
def test_no_deadline_takes_jobs_under_a_drain_that_is_not_ours_or_twice(theirs: SlurmNode) -> None:
    size = changed(state(0, 1), removal=RemovalPolicy(0))
    assert decide(size, [theirs], [job(1, "RUNNING", "cpu-0")]) == []


def test_the_deadline_of_a_removal_does_not_count_from_the_drain_for_an_update() -> None:
    size = changed(state(0, 1), removal=RemovalPolicy(60))
    updating = overdue("cpu-0", cpus=1, reason="pulumi-slurm:update")
    assert decide(size, [updating], [job(1, "RUNNING", "cpu-0")]) == [Drain("cpu-0")]
    assert scale.until(size.seen({"cpu-0": updating})).startswith(", but 60 s after the drain")
    theirs = overdue("cpu-0", cpus=1, reason="pulumi-slurm:update", user="root")
    assert decide(size, [theirs], [job(1, "RUNNING", "cpu-0")]) == []


@pytest.mark.parametrize(
    ("reason", "user"),
    [("node k8s-0 is cordoned", "slurm"), ("health gpus: 3 of 4", "root"), ("jail: stale", "root"), ("new", "slurm")],
)
def test_the_deadline_of_a_removal_also_ends_the_wait_for_a_node_that_was_drained_for_its_machine_or_as_unfit(
    reason: str, user: str
) -> None:
    size = changed(state(0, 1), removal=RemovalPolicy(60))
    before = overdue("cpu-0", cpus=1, reason=f"pulumi-slurm:{reason}", user=user)
    assert decide(size, [before], [job(1, "RUNNING", "cpu-0")]) == [Drain("cpu-0")], "from there on it counts"


@pytest.mark.parametrize(("reason", "user"), [("bad disk", "root"), ("pulumi-slurm:scale-in", "root")])
def test_of_a_node_that_somebody_else_drained_no_end_is_promised(reason: str, user: str) -> None:
    size = changed(state(0, 1), removal=RemovalPolicy(60))
    theirs = overdue("cpu-0", cpus=1, reason=reason, user=user)
    assert scale.until(size.seen({"cpu-0": theirs})) == ""


def test_a_node_whose_jobs_were_taken_is_given_back_when_it_stays_after_all() -> None:
    taken = node("cpu-0", "DRAIN", "IDLE", reason="pulumi-slurm:scale-in, its deadline has passed", reason_user="slurm")
    assert decide(state(1, 1), [taken]) == [Undrain("cpu-0")]


def test_scale_in_to_zero() -> None:
    assert decide(state(0, 1), [leaving("cpu-0")]) == [lowered(0, 1)]


def test_an_idle_node_below_a_busy_one_stays_since_pods_go_from_the_top() -> None:
    nodes = [node("cpu-0"), leaving("cpu-1"), leaving("cpu-2", "MIXED", cpus=1)]
    assert decide(state(1, 3), nodes) == []


def test_the_highest_idle_nodes_go_while_a_lower_one_still_works() -> None:
    nodes = [leaving("cpu-0", "MIXED", cpus=1), leaving("cpu-1"), leaving("cpu-2")]
    assert decide(state(0, 3), nodes) == [lowered(1, 3)]


@pytest.mark.parametrize("is_now", ["RUNNING", "SUSPENDED", "COMPLETING", "CONFIGURING", "SOME_NEW_STATE"])
def test_a_node_that_reads_idle_but_is_named_by_a_job_stays(is_now: str) -> None:
    assert decide(state(0, 1), [leaving("cpu-0")], [job(1, is_now, "cpu-0")]) == []


@pytest.mark.parametrize("is_now", ["COMPLETED", "CANCELLED", "PENDING", "TIMEOUT"])
def test_a_job_without_processes_does_not_hold_a_node(is_now: str) -> None:
    assert decide(state(0, 1), [leaving("cpu-0")], [job(1, is_now, "cpu-0")]) == [lowered(0, 1)]


@pytest.mark.parametrize("flag", ["COMPLETING", "RESERVED", "PLANNED", "ALLOCATED", "MIXED", "A_FLAG_OF_TOMORROW"])
def test_a_drained_node_with_any_sign_of_work_stays(flag: str) -> None:
    assert decide(state(0, 1), [leaving("cpu-0", "IDLE", flag)]) == []


def test_a_drained_node_goes_although_an_exclusive_job_on_others_blocks_it() -> None:
    assert decide(state(0, 1), [leaving("cpu-0", "IDLE", "BLOCKED")]) == [lowered(0, 1)]
    assert not slurm_nodes.is_idle(node("cpu-0", "IDLE", "BLOCKED")), "no long check would start there"


def test_a_node_with_allocated_cpus_stays() -> None:
    assert decide(state(0, 1), [leaving("cpu-0", cpus=1)]) == []


def test_nothing_is_removed_without_a_full_listing() -> None:
    nodes = {"cpu-0": leaving("cpu-0"), "cpu-7": leaving("cpu-7")}
    assert scale.needs_full_listing(state(0, 1).seen(nodes))
    assert scale.actions(state(0, 1).seen(nodes)) == []


def test_nothing_is_removed_if_the_drain_was_not_there_before_the_full_listing() -> None:
    before, after = {"cpu-0": node("cpu-0")}, {"cpu-0": leaving("cpu-0")}
    assert scale.actions(state(0, 1).seen(before, FullListing(after, ()))) == [Drain("cpu-0")]


def test_a_drain_by_somebody_else_is_kept_and_its_idle_node_may_go() -> None:
    theirs = node("cpu-0", "IDLE", "DRAIN", reason="bad disk", reason_user="root")
    assert decide(state(0, 1), [theirs]) == [lowered(0, 1)]


def test_scaling_out_again_in_the_middle_undrains_only_our_own_drains() -> None:
    nodes = [
        node("cpu-0", "IDLE", "DRAIN", reason="bad disk", reason_user="root"),
        node("cpu-1", "IDLE", "DRAIN", reason="pulumi-slurm:scale-in", reason_user="root"),
        leaving("cpu-2", "MIXED", cpus=1),
    ]
    assert decide(state(3, 3), nodes) == [Undrain("cpu-2")]


def test_a_node_whose_pod_is_ending_is_not_undrained() -> None:
    pods = [pod("cpu-0"), pod("cpu-1", terminating=True)]
    assert decide(state(2, 2, pods), [node("cpu-0"), leaving("cpu-1")]) == []
    assert decide(state(2, 2, pods[:1]), [node("cpu-0"), leaving("cpu-1")]) == []


def test_a_record_of_the_pod_before_is_undrained_only_when_the_pod_is_ready() -> None:
    def again(started: int | None, **changes: object) -> list[Action]:
        at = None if started is None else NOW + datetime.timedelta(seconds=started)
        return decide(state(1, 1, [pod("cpu-0", **changes)]), [dataclasses.replace(leaving("cpu-0"), started=at)])

    assert again(None, ready=False, running=False, k8s_node="") == [], "scaled in, ended, and scaled out again"
    assert again(-60, ready=False) == []
    assert again(-60) == [Undrain("cpu-0")]
    as_new = [Drain("cpu-0", "pulumi-slurm:new")]
    assert again(5, ready=False) == as_new, "it is this pod's, and a sick node then says what it lacks"


def test_a_node_above_the_current_size_is_undrained_only_after_the_size_was_raised() -> None:
    pods = [pod("cpu-0"), pod("cpu-1")]
    assert decide(state(2, 1, pods), [node("cpu-0"), leaving("cpu-1")]) == [SetReplicas("cpu", 2, 1, "7")]


def test_records_of_other_node_sets_are_not_ours() -> None:
    others = ["cpu-1-0", "gpu-5", "cpu-05", "cpux-3", "cpu-"]
    assert decide(state(0, 0), [node(name) for name in others]) == []


def test_a_pod_that_never_started_is_removed_without_a_record() -> None:
    stuck = pod("cpu-0", ready=False, running=False)
    assert decide(state(0, 1, [stuck]), []) == [lowered(0, 1)]


def test_a_pod_that_may_be_about_to_register_stays_for_a_while() -> None:
    starting = pod("cpu-0", ready=False)
    assert decide(state(0, 1, [starting]), []) == []
    old = dataclasses.replace(starting, created=NOW - UNREGISTERED_PATIENCE)
    assert decide(state(0, 1, [old]), []) == [lowered(0, 1)]
    unlisted = FullListing({}, (), complete=False)
    assert scale.actions(state(0, 1, [old]).seen({}, unlisted)) == [], "only a job itself tells that it is there"
    pending = dataclasses.replace(old, running=False)
    assert scale.actions(state(0, 1, [pending]).seen({}, unlisted)) == [lowered(0, 1)]


def test_half_a_listing_removes_nothing() -> None:
    assert decide(state(0, 2), []) == [], "ready pods must have records"
    full = {"cpu-0": leaving("cpu-0"), "cpu-1": leaving("cpu-1")}
    half = FullListing({"cpu-0": leaving("cpu-0")}, ())
    assert scale.actions(state(0, 2).seen(full, half)) == []


def test_the_listings_of_jobs_are_spared_while_the_first_node_to_go_is_at_work() -> None:
    nodes = {"cpu-0": leaving("cpu-0"), "cpu-1": leaving("cpu-1", "MIXED", cpus=1)}
    assert not scale.needs_full_listing(state(0, 2).seen(nodes))
    assert not scale.needs_full_listing(state(2, 2).seen(nodes))


@pytest.mark.parametrize(
    ("size", "expected"),
    [
        (state(3, 2), [SetReplicas("cpu", 3, 2, "7")]),
        (state(0, 1, [pod("cpu-0", running=False, ready=False)]), [SetReplicas("cpu", 0, 1, "7")]),
        (state(0, 1), []),
        (state(1, 2, [pod("cpu-0"), pod("cpu-1", running=False, ready=False)]), []),
        (state(0, 0), []),
    ],
)
def test_without_sight_of_slurm_a_set_only_grows_or_ends_when_none_of_its_pods_runs(
    size: NodeSetState, expected: list[Action]
) -> None:
    assert scale.actions_unseen(size) == expected


def test_a_new_node_takes_jobs_when_its_pod_is_ready() -> None:
    new = node("cpu-0", "IDLE", "DRAIN", reason="pulumi-slurm:new", reason_user="root")
    assert decide(state(1, 1), [new]) == [Undrain("cpu-0")]
    assert decide(state(1, 1, [pod("cpu-0", ready=False)]), [new]) == []
    assert decide(state(1, 1, [pod("cpu-0", terminating=True)]), [new]) == []
    assert decide(state(0, 1), [new]) == [Drain("cpu-0")], "what it finds of itself may still replace that"


@pytest.mark.parametrize("reason", ["jail: stale", "health gpus: 3 of 4", "new"])
def test_a_node_that_may_lift_its_own_drain_goes_only_after_ours_was_seen(reason: str) -> None:
    own = node("cpu-0", "IDLE", "DRAIN", reason=f"pulumi-slurm:{reason}", reason_user="root")
    assert decide(state(0, 1), [own]) == [Drain("cpu-0")]
    ours = leaving("cpu-0")
    for before, after in ((own, ours), (ours, own)):
        actions = scale.actions(state(0, 1).seen({"cpu-0": before}, FullListing({"cpu-0": after}, ())))
        assert not [action for action in actions if isinstance(action, SetReplicas)]
    assert decide(state(0, 1), [ours]) == [lowered(0, 1)]
