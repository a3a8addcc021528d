"""Promises about windows: updates begin in them alone, and Slurm's reservation for them is as small as can be."""

from __future__ import annotations

import dataclasses
import datetime
from typing import Any

import pytest
from slurm_operator.actions import Action, ChangeReservation, DeletePod, Drain, EndReservation, Purpose, Reserve
from slurm_operator.decide.cluster import status
from slurm_operator.decide.node_sets import full_listing, records, update, window
from slurm_operator.decide.node_sets.node_set import decide
from slurm_operator.decide.nodes.workers import NodeSetState
from slurm_operator.parse.resources import parse_node_set
from slurm_operator.state.resources import Window
from slurm_operator.state.slurm import EVERY_NODE, FullListing, Reservation, SlurmNode

from contract import names, reasons
from contract.conditions import Reason
from tests.operator.states.record_sizes import LARGE, SMALL, sized
from tests.operator.states.sets import changed, node
from tests.operator.states.updates import NEW, REASON, pod, state, updating

HOUR = datetime.timedelta(hours=1)
SUNDAY = datetime.datetime(2026, 11, 29, 3, 0, tzinfo=datetime.UTC)
WEEKLY = Window(datetime.datetime(2024, 1, 7, 3, 0, tzinfo=datetime.UTC), 4 * HOUR)
ONCE = Window(SUNDAY, 4 * HOUR, weekly=False)
WEEK = datetime.timedelta(weeks=1)
NAME = f"{names.RESERVATION_PREFIX}cpu"
BEFORE, INSIDE = SUNDAY - HOUR, SUNDAY + HOUR


def of_nodes(*nodes: str, starts: datetime.datetime = SUNDAY, **changes: Any) -> Reservation:
    flags = frozenset({*names.RESERVATION_FLAGS, "SPEC_NODES"})
    found = Reservation(NAME, frozenset(nodes), starts, SUNDAY + 4 * HOUR, names.RESERVATION_USER, "", flags)
    return dataclasses.replace(found, **changes)


def at(now: datetime.datetime, *seen: Reservation, **policy: Any) -> NodeSetState:
    """Two nodes of an older template at a time."""
    old = state([pod("cpu-0"), pod("cpu-1")], window=WEEKLY, **policy)
    return dataclasses.replace(old, now=now, reservations=seen)


BOTH = [node("cpu-0"), node("cpu-1")]


def decided(size: NodeSetState, nodes: list[SlurmNode]) -> list[Action]:
    listing = {each.name: each for each in nodes}
    return decide(size.seen(listing, FullListing(listing, (), records.named((), size.reservations or ())))).actions


@pytest.mark.parametrize(
    ("at", "opens"),
    [
        (SUNDAY - datetime.timedelta(seconds=1), SUNDAY),
        (SUNDAY, SUNDAY),
        (SUNDAY + 4 * HOUR - datetime.timedelta(seconds=1), SUNDAY),
        (SUNDAY + 4 * HOUR, SUNDAY + WEEK),
        (SUNDAY + 2 * WEEK + HOUR, SUNDAY + 2 * WEEK),
        (WEEKLY.first - 10 * WEEK, WEEKLY.first - 10 * WEEK),
    ],
)
def test_a_weekly_window_opens_each_week(at: datetime.datetime, opens: datetime.datetime) -> None:
    found = window.opening(WEEKLY, at)
    assert found == window.Opening(opens, opens + 4 * HOUR)


def test_a_window_that_opens_once_is_past_when_it_closes() -> None:
    assert window.opening(ONCE, BEFORE) == window.opening(ONCE, INSIDE) == window.Opening(SUNDAY, SUNDAY + 4 * HOUR)
    assert window.opening(ONCE, SUNDAY + 4 * HOUR) is None


@pytest.mark.parametrize(
    ("start", "seconds", "expected", "words"),
    [
        ("Sun 03:00", 14400, WEEKLY, "Sun 03:00 to 07:00 UTC"),
        ("2026-11-29T03:00Z", 14400, ONCE, "2026-11-29 03:00 to 07:00 UTC"),
        ("Sat 22:00", 28800, Window(WEEKLY.first - 5 * HOUR, 8 * HOUR), "Sat 22:00 to Sun 06:00 UTC"),
    ],
)
def test_a_window_is_read_and_written_as_people_do(start: str, seconds: int, expected: Window, words: str) -> None:
    spec = {"cluster": "c", "statefulSet": "cpu", "update": {"window": {"start": start, "durationSeconds": seconds}}}
    found = parse_node_set({"metadata": {"name": "cpu"}, "spec": spec}).update.window
    assert found
    assert window.opening(found, BEFORE - 5 * HOUR) == window.opening(expected, BEFORE - 5 * HOUR)
    assert window.words(found) == words


def test_updates_begin_while_the_window_is_open_and_at_no_other_time() -> None:
    begin = Drain("cpu-1", REASON)
    assert begin not in decided(at(BEFORE), BOTH)
    assert begin in decided(at(INSIDE), BOTH)
    assert begin not in decided(at(SUNDAY + 4 * HOUR), BOTH)


def test_what_has_begun_goes_on_when_the_window_has_closed() -> None:
    later, drained = at(SUNDAY + 5 * HOUR), [node("cpu-0"), updating("cpu-1")]
    actions = decided(later, drained)
    assert [each.pod for each in actions if isinstance(each, DeletePod)] == ["cpu-1"]
    assert Drain("cpu-0", REASON) not in actions


def test_within_the_window_idle_nodes_come_before_busy_ones() -> None:
    maintained = ("MAINTENANCE", "RESERVED")
    nodes = [node("cpu-0", "IDLE", *maintained), node("cpu-1", "MIXED", *maintained, cpus=1)]
    actions = decided(at(INSIDE, of_nodes("cpu-0", "cpu-1")), nodes)
    assert [each for each in actions if isinstance(each, Drain)] == [Drain("cpu-0", REASON)]


@pytest.mark.parametrize(
    "never", [node("cpu-1", "IDLE", "DRAIN", reason=reasons.NEW, reason_user="root"), node("cpu-1", "DOWN")]
)
def test_a_node_that_never_served_waits_for_no_window(never: SlurmNode) -> None:
    there = pod("cpu-1", ready=False, running=False, k8s_node="m" * ("DRAIN" in never.states))
    size = dataclasses.replace(at(BEFORE), pods={"cpu-0": pod("cpu-0"), "cpu-1": there})
    assert Drain("cpu-1", REASON) in decided(size, [node("cpu-0"), never])


def test_nobody_lists_jobs_for_an_update_that_waits_for_its_window() -> None:
    large = [sized(node("cpu-0"), LARGE), sized(node("cpu-1"), LARGE)]
    listing = {each.name: each for each in large}
    size = changed(at(BEFORE), facts=SMALL)
    assert not update.needs_full_listing(size.seen(listing))
    assert update.needs_full_listing(dataclasses.replace(size, now=INSIDE).seen(listing))
    assert not full_listing.is_needed(size.seen(listing), records_due=False)


def reservations(size: NodeSetState, nodes: list[SlurmNode] = BOTH) -> list[Action]:
    listing = {each.name: each for each in nodes}
    return window.actions(size, update.waiting_for_window(size.seen(listing)))


def test_nodes_that_wait_are_reserved_for_the_next_opening() -> None:
    assert reservations(at(BEFORE)) == [Reserve(NAME, ("cpu-0", "cpu-1"), SUNDAY, SUNDAY + 4 * HOUR)]
    assert reservations(at(INSIDE)) == [Reserve(NAME, ("cpu-0", "cpu-1"), INSIDE, SUNDAY + 4 * HOUR)]
    assert reservations(at(BEFORE, of_nodes("cpu-0", "cpu-1"))) == []
    assert reservations(at(INSIDE, of_nodes("cpu-0", "cpu-1"))) == []


def test_nothing_is_reserved_while_nothing_waits() -> None:
    moved = state([pod("cpu-0", NEW), pod("cpu-1", NEW)], window=WEEKLY)
    there = dataclasses.replace(moved, now=INSIDE, reservations=(of_nodes("cpu-0", "cpu-1"),))
    assert reservations(dataclasses.replace(there, reservations=())) == []
    assert reservations(there) == [EndReservation(NAME, "no node waits for its window")]


@pytest.mark.parametrize("gone", [{"window": None}, {"paused": True}])
def test_without_a_window_or_an_update_the_reservation_goes(gone: dict[str, Any]) -> None:
    policy = dataclasses.replace(at(BEFORE).node_set.update, **gone)
    size = changed(at(BEFORE, of_nodes("cpu-0", "cpu-1")), update=policy)
    assert [type(each) for each in reservations(size)] == [EndReservation]


def test_while_the_newest_template_is_unknown_the_reservation_stays() -> None:
    size = changed(at(BEFORE, of_nodes("cpu-0", "cpu-1")), revision="")
    assert reservations(size) == []
    assert reservations(changed(size, reservations=None, revision=NEW)) == []


def test_a_reservation_loses_what_leaves_moves_or_is_taken_and_gets_what_comes() -> None:
    ends = SUNDAY + 4 * HOUR
    size = at(INSIDE, of_nodes("cpu-0", "cpu-1"))
    smaller = [ChangeReservation(NAME, ("cpu-0",), ends)]
    assert reservations(size, [node("cpu-0"), updating("cpu-1")]) == smaller
    assert reservations(changed(size, replicas=1)) == smaller
    assert reservations(dataclasses.replace(size, pods={**size.pods, "cpu-1": pod("cpu-1", NEW)})) == smaller
    assert reservations(at(INSIDE, of_nodes("cpu-0"))) == [ChangeReservation(NAME, ("cpu-0", "cpu-1"), ends)]
    assert reservations(at(INSIDE, of_nodes("cpu-0", "cpu-1")), [node("cpu-0")]) == smaller, "Slurm knows no other"


def test_an_edited_window_moves_the_reservation() -> None:
    earlier = of_nodes("cpu-0", "cpu-1", starts=SUNDAY + HOUR, ends=SUNDAY + 9 * HOUR)
    moved = ChangeReservation(NAME, ("cpu-0", "cpu-1"), SUNDAY + 4 * HOUR, SUNDAY)
    assert reservations(at(BEFORE, earlier)) == [moved]
    has_begun = of_nodes("cpu-0", "cpu-1", starts=BEFORE - HOUR)
    assert reservations(at(BEFORE, has_begun)) == [EndReservation(NAME, "its window has other times")]
    assert reservations(at(INSIDE, dataclasses.replace(has_begun, ends=INSIDE + HOUR))) == [
        ChangeReservation(NAME, ("cpu-0", "cpu-1"), SUNDAY + 4 * HOUR)
    ], "Slurm takes no other start for one that has begun"


def test_a_reservation_of_a_person_is_told_of_and_left_alone() -> None:
    for other in ({"users": "alice"}, {"accounts": "physics"}, {"flags": frozenset({"SPEC_NODES"})}):
        size = at(BEFORE, of_nodes("cpu-0", **other))
        assert reservations(size) == []
        (told,) = window.findings(size, frozenset({"cpu-0"}))
        assert (told.reason, NAME in told.message) == (Reason.RESERVATION_OF_ANOTHER, True)
    assert window.findings(at(BEFORE, of_nodes("cpu-0")), frozenset({"cpu-0"})) == []


def test_a_node_that_somebody_reserved_for_the_same_time_is_his() -> None:
    class_of = of_nodes("cpu-1", name="class", users="alice", flags=frozenset({"SPEC_NODES"}))
    assert reservations(at(BEFORE, class_of)) == [Reserve(NAME, ("cpu-0",), SUNDAY, SUNDAY + 4 * HOUR)]
    later = dataclasses.replace(class_of, starts=SUNDAY + 4 * HOUR, ends=SUNDAY + 5 * HOUR)
    assert reservations(at(BEFORE, later)) == [Reserve(NAME, ("cpu-0", "cpu-1"), SUNDAY, SUNDAY + 4 * HOUR)]


@pytest.mark.parametrize(
    ("flag", "starts", "meets"),
    [
        ("WEEKLY", SUNDAY - WEEK, True),
        ("WEEKLY", SUNDAY - WEEK - 3 * HOUR, False),
        ("DAILY", SUNDAY - 47 * HOUR, True),
        ("DAILY", SUNDAY - 40 * HOUR, False),
        ("DAILY", SUNDAY + 24 * HOUR, False),
        ("HOURLY", SUNDAY - 47 * HOUR, True),
        ("WEEKEND", SUNDAY - 23 * HOUR, True),
        ("SPEC_NODES", SUNDAY - WEEK, False),
    ],
)
def test_so_is_a_node_of_a_reservation_that_comes_again_by_then(
    flag: str, starts: datetime.datetime, meets: bool
) -> None:
    theirs = of_nodes(
        "cpu-1", name="class", users="alice", starts=starts, ends=starts + HOUR / 2, flags=frozenset({flag})
    )
    nodes = ("cpu-0",) if meets else ("cpu-0", "cpu-1")
    assert reservations(at(BEFORE, theirs)) == [Reserve(NAME, nodes, SUNDAY, SUNDAY + 4 * HOUR)]


def test_a_series_of_reservations_is_compared_with_a_window_at_the_end_of_the_calendar() -> None:
    last = datetime.datetime(9999, 12, 31, 23, 49, tzinfo=datetime.UTC)
    theirs = of_nodes("cpu-1", name="class", users="alice", flags=frozenset({"WEEKLY"}))
    policy = dataclasses.replace(at(BEFORE).node_set.update, window=Window(last, HOUR / 6, weekly=False))
    assert reservations(changed(at(BEFORE, theirs), update=policy)) == [
        Reserve(NAME, ("cpu-0", "cpu-1"), last, last + HOUR / 6)
    ]


def test_reservations_of_node_sets_that_are_gone_go() -> None:
    gone, mine = of_nodes("gpu-0", name=f"{names.RESERVATION_PREFIX}gpu"), of_nodes("cpu-0")
    anothers = dataclasses.replace(gone, users="alice")
    assert window.left_over([gone, mine], ["cpu"]) == [EndReservation(gone.name, "its node set is gone")]
    assert window.left_over([anothers, mine], ["cpu"]) == []


def test_a_reservation_whose_nodes_cannot_be_read_may_have_any_at_its_time() -> None:
    flags = frozenset({"SPEC_NODES"})
    odd = of_nodes(name="odd", users="alice", flags=flags, nodes=EVERY_NODE, unread="too many nodes")
    assert reservations(at(BEFORE, odd)) == []
    assert reservations(at(BEFORE, odd, of_nodes("cpu-0"))) == [], "ours stays as it is"
    later = dataclasses.replace(odd, starts=SUNDAY + 4 * HOUR, ends=SUNDAY + 5 * HOUR)
    assert reservations(at(BEFORE, later)) == [Reserve(NAME, ("cpu-0", "cpu-1"), SUNDAY, SUNDAY + 4 * HOUR)]
    named = records.named((), (odd, of_nodes("cpu-0")))
    assert named.by_any is named.awaited is EVERY_NODE
    (told,) = window.unread([odd, of_nodes("cpu-0")])
    assert (told.reason, "odd (too many nodes);" in told.message) == (Reason.RESERVATION_UNREADABLE, True)
    assert window.unread([of_nodes("cpu-0")]) == []


def test_a_reservation_with_our_name_whose_nodes_cannot_be_read_is_not_taken_for_ours() -> None:
    odd = of_nodes(nodes=EVERY_NODE, unread="too many nodes")
    assert reservations(at(BEFORE, odd)) == []
    assert not window.holds(at(INSIDE, odd), "cpu-0")
    assert window.left_over([odd], []) == []


def test_a_record_of_another_size_goes_once_our_reservation_has_let_it_go() -> None:
    drained = [sized(node("cpu-0"), LARGE), sized(updating("cpu-1"), LARGE)]
    held = changed(at(INSIDE, of_nodes("cpu-0", "cpu-1")), facts=SMALL)
    free = dataclasses.replace(held, reservations=(of_nodes("cpu-0"),))
    deleted = DeletePod("cpu-1", "7", Purpose.UPDATE, "a new one has the current template", forget=True)
    assert [each for each in decided(held, drained) if isinstance(each, DeletePod)] == []
    assert ChangeReservation(NAME, ("cpu-0",), SUNDAY + 4 * HOUR) in decided(held, drained)
    assert deleted in decided(free, drained)


def test_our_own_reservation_keeps_no_update_from_its_node() -> None:
    named = records.named((), (of_nodes("cpu-0"), of_nodes("cpu-1", name="class", users="alice")))
    assert (named.by_any, named.awaited) == (frozenset({"cpu-0", "cpu-1"}), frozenset({"cpu-1"}))


def told_of(size: NodeSetState, *nodes: SlurmNode) -> dict[Reason, str]:
    _, found = status.node_set(size.seen({each.name: each for each in nodes}))
    return {each.reason: each.message for each in found.progressing}


def test_who_waits_for_a_window_is_told_until_when() -> None:
    waits = "the others wait for the window Sun 03:00 to 07:00 UTC, which opens at 2026-11-29 03:00"
    said = told_of(at(BEFORE), *BOTH)
    assert said == {Reason.UPDATE_WAITS_FOR_WINDOW: f"node set cpu: 0 of 2 nodes have the current template; {waits}"}
    assert [*told_of(at(INSIDE), *BOTH)] == [Reason.UPDATING]
    works = dataclasses.replace(updating("cpu-1", "MIXED"), allocated_cpus=1)
    said = told_of(at(BEFORE), node("cpu-0"), works)
    assert said[Reason.UPDATE_WAITS_FOR_JOBS].endswith(f"cpu-1 when its jobs have ended; {waits}")


def test_a_window_that_is_past_asks_for_another() -> None:
    size = changed(at(SUNDAY + 5 * HOUR), update=dataclasses.replace(at(BEFORE).node_set.update, window=ONCE))
    _, found = status.node_set(size.seen({each.name: each for each in BOTH}))
    assert [each.reason for each in found.wrong] == [Reason.UPDATE_WINDOW_PAST]
    assert reservations(size) == []
