"""Promises about a changed pod template: nodes move as they fall idle, a few at a time, and no job notices."""

from __future__ import annotations

import dataclasses
import datetime

import pytest
from slurm_operator.actions import Action, Drain, RequeueJobs, Undrain
from slurm_operator.decide.cluster import daemons
from slurm_operator.decide.node_sets import node_set as whole
from slurm_operator.decide.node_sets import update
from slurm_operator.decide.nodes import slurm_nodes
from slurm_operator.decide.nodes.workers import NodeSetState
from slurm_operator.state.kubernetes import K8sNode, Pod
from slurm_operator.state.resources import RemovalPolicy, Restart, UpdatePolicy
from slurm_operator.state.slurm import FullListing, Running, SlurmNode

from contract import reasons
from tests.operator.states.seen_clusters import world
from tests.operator.states.sets import NOW, changed, job, node
from tests.operator.states.updates import (
    ALL_IDLE,
    NEW,
    REASON,
    decide,
    judge,
    pod,
    remembering,
    restarted,
    state,
    three,
    updating,
)


def test_a_set_of_the_newest_template_is_left_alone() -> None:
    current = state([pod("cpu-0", NEW)])
    assert decide(current, [node("cpu-0")]) == []
    assert not update.needs_full_listing(current.seen({"cpu-0": node("cpu-0")}))


def test_as_long_as_the_newest_template_is_unknown_nothing_moves() -> None:
    unknown = changed(three(), revision="")
    assert decide(unknown, ALL_IDLE) == []
    assert decide(unknown, [updating("cpu-0", "MIXED", cpus=1), *ALL_IDLE[1:]]) == [], "its drain stays"


@pytest.mark.parametrize(("cpus", "action"), [(0, Drain("cpu-0", REASON)), (1, Undrain("cpu-0"))])
def test_a_node_that_stays_after_all_gets_one_action_its_update_if_it_is_idle(cpus: int, action: Action) -> None:
    base = "MIXED" if cpus else "IDLE"
    there = {"cpu-0": node("cpu-0", base, "DRAIN", cpus=cpus, reason=reasons.SCALE_IN, reason_user="slurm")}
    seen = state([pod("cpu-0")]).seen(there, FullListing(there, ()))
    assert whole.decide(seen).actions == [action]


def test_idle_nodes_move_before_those_with_work() -> None:
    nodes = [node("cpu-0", "MIXED", cpus=1), node("cpu-1"), node("cpu-2", "ALLOCATED", cpus=2)]
    assert decide(three(), nodes) == [Drain("cpu-1", REASON)]


def test_an_idle_drained_nodes_pod_is_restarted() -> None:
    nodes = [node("cpu-0"), node("cpu-1"), updating("cpu-2")]
    assert update.needs_full_listing(three().seen({each.name: each for each in nodes}))
    assert decide(three(), nodes) == [restarted("cpu-2")]


def test_a_node_with_a_job_is_drained_and_waited_for() -> None:
    nodes = [node("cpu-0"), node("cpu-1"), updating("cpu-2", "MIXED", cpus=1)]
    assert not update.needs_full_listing(three().seen({each.name: each for each in nodes}))
    assert decide(three(), nodes, [job(1, "RUNNING", "cpu-2")]) == []


@pytest.mark.parametrize("is_now", ["RUNNING", "SUSPENDED", "COMPLETING", "CONFIGURING", "SOME_NEW_STATE"])
def test_a_node_that_reads_idle_but_is_named_by_a_job_keeps_its_pod(is_now: str) -> None:
    assert decide(state([pod("cpu-0")]), [updating("cpu-0")], [job(1, is_now, "cpu-0")]) == []


def test_no_pod_is_restarted_without_a_full_listing_or_on_a_drain_that_it_alone_shows() -> None:
    size = state([pod("cpu-0")])
    assert update.actions(size.seen({"cpu-0": updating("cpu-0")})) == []
    later = FullListing({"cpu-0": updating("cpu-0")}, ())
    assert update.actions(size.seen({"cpu-0": node("cpu-0")}, later)) == [Drain("cpu-0", REASON)]
    undrained = FullListing({"cpu-0": node("cpu-0")}, ())
    assert update.actions(size.seen({"cpu-0": updating("cpu-0")}, undrained)) == []


def test_a_node_that_somebody_drained_keeps_pod_and_drain_and_holds_up_no_other() -> None:
    theirs = node("cpu-2", "IDLE", "DRAIN", reason="bad disk", reason_user="root")
    assert decide(three(), [node("cpu-0"), node("cpu-1"), theirs]) == [Drain("cpu-1", REASON)]
    same_words = dataclasses.replace(theirs, reason=REASON)
    assert decide(state([pod("cpu-2")], 3, 3), [same_words]) == []


@pytest.mark.parametrize(
    ("there", "record"),
    [
        ([pod("cpu-2", NEW, ready=False)], []),
        ([pod("cpu-2", NEW)], []),
        ([pod("cpu-2", NEW, ready=False)], [node("cpu-2")]),
        ([pod("cpu-2", NEW)], [node("cpu-2", "DOWN")]),
        ([pod("cpu-2", NEW)], [node("cpu-2", "IDLE", "DRAIN", reason="pulumi-slurm:jail: x", reason_user="root")]),
        ([pod("cpu-2", terminating=True)], [updating("cpu-2")]),
        ([], []),
    ],
    ids=["starting", "not registered", "not ready", "down", "its jail fails", "ending", "gone"],
)
def test_the_next_node_waits_until_the_one_before_works(there: list[Pod], record: list[SlurmNode]) -> None:
    size = state([pod("cpu-0"), pod("cpu-1"), *there], current=3)
    assert decide(remembering(size, "cpu-2"), [node("cpu-0"), node("cpu-1"), *record]) == []


def test_the_next_node_moves_when_the_one_before_works() -> None:
    size = remembering(state([pod("cpu-0"), pod("cpu-1"), pod("cpu-2", NEW)]), "cpu-2")
    assert not update.taken(size.seen({each.name: each for each in ALL_IDLE}))
    assert decide(size, ALL_IDLE) == [Drain("cpu-1", REASON)]


def test_a_broken_template_that_is_repaired_replaces_the_pods_that_never_came_up() -> None:
    broken = pod("cpu-1", "cpu-broken", ready=False, running=False)
    size = remembering(state([pod("cpu-0", "cpu-broken"), broken]), "cpu-1")
    assert update.needs_full_listing(size.seen({"cpu-0": node("cpu-0")}))
    assert decide(size, [node("cpu-0")]) == [restarted("cpu-1")]


def by_itself(name: str, reason: str, *states: str, cpus: int = 0) -> SlurmNode:
    return node(name, *(states or ("IDLE",)), "DRAIN", cpus=cpus, reason=f"pulumi-slurm:{reason}", reason_user="root")


@pytest.mark.parametrize("reason", ["new", "jail: stale", "health gpus: no driver"])
def test_a_broken_template_that_is_repaired_replaces_the_pods_that_registered_and_found_themselves_unfit(
    reason: str,
) -> None:
    seen = [node("cpu-0"), by_itself("cpu-1", reason)]
    broken = state([pod("cpu-0", NEW), pod("cpu-1", "cpu-broken", ready=False)])
    assert decide(broken, seen) == [Drain("cpu-1", REASON)], "the path of every update from there on"
    assert decide(broken, seen, hold="pulumi up is under way") == []
    assert decide(changed(broken, update=UpdatePolicy(paused=True)), seen) == []
    assert decide(broken, [node("cpu-0"), by_itself("cpu-1", reason, "MIXED", cpus=1)]) == []
    assert decide(broken, [updating("cpu-0", "MIXED", cpus=1), seen[1]])[1:] == [], "there is no room"
    noted = changed(broken, restarts=(Restart("cpu-1", NOW),))
    assert decide(noted, seen) == [], "its repair brings the template, too"


def test_a_repaired_template_replaces_a_pod_that_never_came_up_under_the_record_of_one_that_was_to_go() -> None:
    broken = state([pod("cpu-0", NEW), pod("cpu-1", "cpu-broken", ready=False, running=False)])
    before = NOW - datetime.timedelta(hours=1)
    orphaned_record = node("cpu-1", "DOWN", "DRAIN", reason="pulumi-slurm:scale-in", reason_user="slurm")
    orphaned_record = dataclasses.replace(orphaned_record, started=before)
    assert decide(broken, [node("cpu-0"), orphaned_record]) == [Drain("cpu-1", REASON)]
    relabelled = updating("cpu-1", "DOWN", started=before, reason_set=NOW)
    assert decide(broken, [node("cpu-0"), relabelled]) == [restarted("cpu-1")]


def test_a_node_that_never_worked_moves_first_and_an_unfit_one_last_which_would_hold_up_the_others() -> None:
    def first(*records: SlurmNode) -> list[Action]:
        return [action for action in decide(three(), [*records]) if isinstance(action, Drain)]

    assert first(by_itself("cpu-0", "new"), node("cpu-1"), node("cpu-2")) == [Drain("cpu-0", REASON)]
    for reason in ("jail: stale", "health space: /tmp is full", "health gpus: 3 of 4"):
        unfit = by_itself("cpu-2", reason)
        assert first(node("cpu-0"), node("cpu-1"), unfit) == [Drain("cpu-1", REASON)]
        assert first(node("cpu-0", "MIXED", cpus=1), node("cpu-1", "MIXED", cpus=1), unfit) == [Drain("cpu-1", REASON)]
        assert first(*(by_itself(f"cpu-{n}", reason) for n in range(3))) == [Drain("cpu-2", REASON)]


def test_a_node_whose_machine_is_away_moves_last_for_its_pod_cannot_end() -> None:
    pods = [pod(f"cpu-{n}", k8s_node=f"k8s-{n}") for n in range(3)]
    away = dataclasses.replace(state(pods), k8s_nodes={"k8s-2": K8sNode(away_since=NOW)})
    silent = node("cpu-2", "DOWN", "NOT_RESPONDING")
    assert decide(away, [node("cpu-0"), node("cpu-1", "MIXED", cpus=1), silent]) == [Drain("cpu-0", REASON)]
    assert decide(dataclasses.replace(away, k8s_nodes={}), [*ALL_IDLE[:2], silent]) == [Drain("cpu-2", REASON)]


def test_no_update_begins_on_a_node_that_is_reserved_unless_for_maintenance() -> None:
    reserved, serviced = node("cpu-2", "IDLE", "RESERVED"), node("cpu-0", "IDLE", "RESERVED", "MAINTENANCE")
    assert decide(three(), [node("cpu-0"), node("cpu-1", "MIXED", cpus=1), reserved]) == [Drain("cpu-0", REASON)]
    assert decide(three(), [serviced, node("cpu-1"), reserved]) == [Drain("cpu-0", REASON)], "for that it is reserved"
    assert decide(state([pod("cpu-2")]), [reserved]) == []
    unfit, new = (by_itself("cpu-0", reason, "IDLE", "RESERVED") for reason in ("health gpus: 3 of 4", "new"))
    assert decide(state([pod("cpu-0")]), [unfit]) == [], "it may lift its own drain at any moment"
    assert decide(state([pod("cpu-0", ready=False)]), [new]) == [Drain("cpu-0", REASON)], "it serves nobody as it is"


@pytest.mark.parametrize("flags", [("RESERVED",), ("RESERVED", "MAINTENANCE"), ("MAINTENANCE",)])
def test_a_reservation_does_not_keep_a_drained_pod_from_its_update_for_the_record_stays(flags: tuple[str, ...]) -> None:
    assert decide(state([pod("cpu-0")]), [updating("cpu-0", "IDLE", *flags)]) == [restarted("cpu-0")]
    assert decide(state([pod("cpu-0")]), [updating("cpu-0", "MIXED", *flags, cpus=1)]) == []
    assert decide(state([pod("cpu-0")]), [updating("cpu-0", "IDLE", *flags)], [job(1, "SUSPENDED", "cpu-0")]) == []


def test_half_a_listing_restarts_nothing() -> None:
    assert decide(state([pod("cpu-0")]), []) == [], "a ready pod must have a record"


def test_a_template_that_is_changed_back_gives_the_node_back() -> None:
    size = state([pod("cpu-0", NEW)])
    assert decide(size, [updating("cpu-0", "MIXED", cpus=1)]) == [Undrain("cpu-0")]
    assert decide(state([pod("cpu-0", NEW, ready=False)]), [updating("cpu-0")]) == [], (
        "perhaps its predecessor's record"
    )


def test_an_unfit_node_whose_update_is_taken_back_or_paused_tells_again_what_it_lacks() -> None:
    since = NOW + datetime.timedelta(minutes=1)
    relabelled = updating("cpu-0", started=since, reason_set=since)
    as_new = [Drain("cpu-0", "pulumi-slurm:new")]
    assert decide(state([pod("cpu-0", NEW, ready=False)]), [relabelled]) == as_new, "it takes no job meanwhile"
    assert decide(state([pod("cpu-0", ready=False)], paused=True), [relabelled]) == as_new
    predecessors = dataclasses.replace(relabelled, started=NOW - datetime.timedelta(minutes=1))
    assert decide(state([pod("cpu-0", NEW, ready=False)]), [predecessors]) == []


def test_a_new_slurmd_on_its_predecessors_record_is_given_back_when_its_pod_is_ready() -> None:
    size = state([pod("cpu-0", NEW, created=NOW + datetime.timedelta(seconds=50))])
    taken_over = updating("cpu-0", reason_set=NOW, started=NOW + datetime.timedelta(seconds=60))
    assert decide(size, [taken_over]) == [Undrain("cpu-0")]


@pytest.mark.parametrize("size", [state([pod("cpu-0")], paused=True), state([pod("cpu-0", NEW)])])
def test_a_slurmd_that_only_read_another_configuration_under_its_drain_is_given_back(size: NodeSetState) -> None:
    since = NOW + datetime.timedelta(hours=1)
    read = updating("cpu-0", reason_set=since, started=since + datetime.timedelta(hours=1))
    assert decide(size, [read]) == [Undrain("cpu-0")]


def test_a_pause_starts_nothing_and_gives_drained_nodes_back() -> None:
    assert decide(three(paused=True), [node("cpu-0"), node("cpu-1"), updating("cpu-2")]) == [Undrain("cpu-2")]


def test_while_newer_daemons_come_first_nothing_begins_and_drains_stay() -> None:
    assert decide(three(), [node("cpu-0"), node("cpu-1"), updating("cpu-2")], hold="slurmctld first") == []


def test_the_deadline_takes_jobs_only_after_it_and_only_if_there_is_one() -> None:
    busy = [updating("cpu-0", "MIXED", cpus=1, reason_set=NOW - datetime.timedelta(hours=1))]
    running = [job(1, "RUNNING", "cpu-0")]
    one = [pod("cpu-0")]
    assert decide(state(one), busy, running) == []
    assert decide(state(one, deadline_seconds=3601), busy, running) == []
    assert decide(state(one, deadline_seconds=3599), busy, running) == [RequeueJobs("cpu-0")]


def test_a_suspended_job_counts_as_work_where_jobs_were_listed() -> None:
    drained = updating("cpu-0", reason_set=NOW - datetime.timedelta(hours=1))
    suspended = [job(1, "SUSPENDED", "cpu-0")]
    seen = slurm_nodes.with_jobs({"cpu-0": drained}, suspended)
    size = state([pod("cpu-0")], deadline_seconds=60)
    assert update.actions(size.seen(seen, FullListing({"cpu-0": drained}, tuple(suspended)))) == [RequeueJobs("cpu-0")]
    assert judge(size, [*seen.values()])[1].progressing[0].reason == "UpdateWaitsForJobs"
    leaving = changed(size, replicas=0, removal=RemovalPolicy(deadline_seconds=7200))
    gone = [dataclasses.replace(seen["cpu-0"], reason="pulumi-slurm:scale-in")]
    told = judge(leaving, gone)[1].progressing[1].message
    assert "cpu-0 leaves when its jobs have ended, but at 2026-01-01 01:00:00" in told


def test_an_update_that_died_holds_workers_and_says_so_and_repairs_only_what_is_current() -> None:
    half = dataclasses.replace(world(), ledger_revision="r2")
    read = Running("", NOW)
    assert daemons.holds_workers(half, read, "run pulumi up --refresh") == "run pulumi up --refresh"
    assert daemons.holds_workers(world(), read, "run pulumi up --refresh") == ""
    assert [*update.without_outdated(state([pod("cpu-0"), pod("cpu-1", NEW)])).pods] == ["cpu-1"]


def test_nodes_that_leave_are_not_updated() -> None:
    assert decide(state([pod("cpu-0", NEW), pod("cpu-1")], wanted=1), [node("cpu-0"), node("cpu-1")]) == []
