"""Promises about unfit nodes: they have time to recover, idle pods start anew within budgets, and the end is told."""

from __future__ import annotations

import dataclasses
import datetime
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule
from slurm_operator import drains
from slurm_operator.actions import Action, DeletePod, Drain, Purpose, Undrain
from slurm_operator.decide.node_sets import remediate, undrain
from slurm_operator.decide.nodes.workers import NodeSetState, Worker
from slurm_operator.drains import Owner
from slurm_operator.state.kubernetes import K8sNode, Pod, Taint
from slurm_operator.state.resources import Restart
from slurm_operator.state.slurm import FullListing, SlurmJob, SlurmNode

from contract import reasons
from contract.policies import ReactionPolicy
from tests.operator.sets import changed, node_set
from tests.operator.test_scale import NOW, job, node

UNFIT = "pulumi-slurm:health gpus: 3 of 4 GPUs answer"
LONG_AGO = NOW - datetime.timedelta(hours=10)


def minutes(number: float) -> datetime.timedelta:
    return datetime.timedelta(minutes=number)


def unfit(name: str, reason: str = UNFIT, cpus: int = 0, since: datetime.datetime = LONG_AGO) -> SlurmNode:
    drained = node(name, "IDLE", "DRAIN", cpus=cpus, reason=reason, reason_user="root")
    return dataclasses.replace(drained, reason_set=since)


REPAIR = "pulumi-slurm:repair health gpus: 3 of 4 GPUs answer"


def repaired(name: str, cpus: int = 0, since: datetime.datetime = NOW) -> SlurmNode:
    """A node whose own drain the operator has made its own."""
    return dataclasses.replace(unfit(name, REPAIR, cpus, since), reason_user="slurm")


def by_slurm(name: str, reason: str, *flags: str) -> SlurmNode:
    return node(name, "IDLE", "DRAIN", *flags, reason=reason, reason_user="slurm")


def state(
    size: int = 4, restarts: tuple[Restart, ...] = (), approved: tuple[str, ...] = (), **policy: object
) -> NodeSetState:
    pods = {f"cpu-{n}": Pod(f"cpu-{n}", "worker", True, True, created=LONG_AGO, uid="7") for n in range(size)}
    wanted = ReactionPolicy(**{"restart": True, **policy})  # type: ignore[arg-type]
    more = {"restarts": restarts, "approved": frozenset(approved)}
    return changed(node_set(size, size, pods.values(), NOW), reactions=wanted, **more)


def decide(size: NodeSetState, *nodes: SlurmNode, jobs: tuple[SlurmJob, ...] = (), hold: str = "") -> remediate.Plan:
    listing = {f"cpu-{n}": node(f"cpu-{n}") for n in range(size.wanted)} | {each.name: each for each in nodes}
    return remediate.plan(dataclasses.replace(size.seen(listing, FullListing(listing, jobs)), hold=hold))


def done(size: NodeSetState) -> NodeSetState:
    """The same with pods that are younger than each note: every repair was done."""
    pods = {name: dataclasses.replace(pod, created=NOW - minutes(10)) for name, pod in size.pods.items()}
    return dataclasses.replace(size, pods=pods)


def told(plan: remediate.Plan) -> list[str]:
    return [finding.reason for finding in plan.findings]


@pytest.mark.parametrize(
    ("seen", "whose"),
    [
        (node("a"), None),
        (dataclasses.replace(node("a"), reason=UNFIT), None),
        (node("a"), None),
        (unfit("a"), Owner.UNFIT),
        (unfit("a", "pulumi-slurm:jail: stale"), Owner.UNFIT),
        (unfit("a", "pulumi-slurm:healthy"), Owner.FOREIGN),
        (dataclasses.replace(unfit("a", "pulumi-slurm:node k is not ready"), reason_user="slurm"), Owner.K8S_NODE),
        (unfit("a", "pulumi-slurm:node k is not ready"), Owner.FOREIGN),
        (unfit("a", "pulumi-slurm:update"), Owner.FOREIGN),
        (unfit("a", "pulumi-slurm:scale-in"), Owner.FOREIGN),
        (repaired("a"), Owner.REPAIR),
        (dataclasses.replace(repaired("a"), reason_user="root"), Owner.FOREIGN),
        (unfit("a", "a fan is broken"), Owner.FOREIGN),
        (unfit("a", ""), Owner.FOREIGN),
        (by_slurm("a", reasons.UPDATE), Owner.UPDATE),
        (by_slurm("a", f"{reasons.UPDATE}{reasons.DEADLINE_PASSED}"), Owner.UPDATE),
        (by_slurm("a", f"{reasons.UPDATE} of mine"), Owner.FOREIGN),
        (by_slurm("a", reasons.SCALE_IN), Owner.SCALE_IN),
        (by_slurm("a", reasons.NEW), Owner.NEW),
        (by_slurm("a", "Low RealMemory", "INVALID_REG"), Owner.SLURM),
        (by_slurm("a", "Low RealMemory"), Owner.FOREIGN),
        (by_slurm("a", reasons.UPDATE, "FAIL"), Owner.FOREIGN),
    ],
)
def test_a_drain_is_told_by_its_reason(seen: SlurmNode, whose: Owner | None) -> None:
    assert drains.owner(seen) is whose


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


def test_as_many_are_restarted_as_the_budgets_allow() -> None:
    failing = [unfit(f"cpu-{n}") for n in range(3)]
    assert [each.node for each in decide(state(8), *failing).restarts] == ["cpu-0"]
    assert [each.node for each in decide(state(8, at_once=2), *failing).restarts] == ["cpu-0", "cpu-1"]
    # One that was restarted and is still unfit counts as under way, for ten minutes.
    lately, earlier = Restart("cpu-0", NOW - minutes(9)), Restart("cpu-0", NOW - minutes(20))
    assert decide(state(8, restarts=(lately,)), *failing).restarts == (lately,)
    assert len(decide(state(8, restarts=(earlier,)), *failing).restarts) == 2
    hour = tuple(Restart(f"cpu-{n}", NOW - minutes(50)) for n in (5, 6))
    assert decide(done(state(8, restarts=hour, per_hour=2)), *failing).restarts == hour
    assert len(decide(done(state(8, restarts=hour, per_hour=3)), *failing).restarts) == 3


def test_what_a_budget_keeps_from_its_repair_is_told_with_the_budget_and_the_next_time() -> None:
    failing = [unfit(f"cpu-{n}") for n in range(3)]
    waits = decide(state(8), *failing)
    assert told(waits) == ["RepairWaits"]
    assert waits.findings[0].message == (
        "unfit and not repaired yet: cpu-1, cpu-2; node set cpu has reactions.atOnce 1, and cpu-0 taken; a repair that "
        "does not help counts for 10 minutes"
    )
    hour = tuple(Restart(f"cpu-{n}", NOW - minutes(50 - n)) for n in (5, 6, 7))
    spent = decide(done(state(8, restarts=hour, per_hour=3, at_once=3)), *failing)
    assert told(spent) == ["BudgetSpent"]
    assert "cpu-0, cpu-1, cpu-2; node set cpu has reactions.perHour 3" in spent.findings[0].message
    assert f"may be at {NOW + minutes(15):%H:%M:%S} UTC" in spent.findings[0].message
    lowered = decide(done(state(8, restarts=hour, per_hour=2, at_once=3)), *failing)
    assert f"may be at {NOW + minutes(16):%H:%M:%S} UTC" in lowered.findings[0].message
    assert told(decide(state(8, dry_run=True), *failing)) == ["WouldRestart"]


def test_many_that_fail_together_open_the_breaker_and_are_told() -> None:
    failing = [unfit(f"cpu-{n}") for n in range(3)]
    opened = decide(state(4, restarts=(Restart("cpu-0", NOW),)), *failing)
    assert opened.actions == ()
    assert told(opened) == ["BreakerOpen"]
    assert "3 of 4 nodes are unfit at once" in opened.findings[0].message
    assert told(decide(state(6, at_once=3), *failing)) == []
    assert told(decide(state(1), unfit("cpu-0"))) == [], "one node alone is no pattern"


def test_a_node_that_restarts_do_not_mend_is_given_up_loudly_and_forgiven_after_a_day() -> None:
    tried = tuple(Restart("cpu-1", NOW - datetime.timedelta(hours=each)) for each in (5, 3))
    given_up = decide(state(restarts=tried), unfit("cpu-1"))
    # Its pod is older than both notes here, so the second is still to be done; a younger pod shows the end.
    young = state(restarts=tried)
    pods = {**young.pods, "cpu-1": dataclasses.replace(young.pods["cpu-1"], created=NOW - minutes(60))}
    given_up = decide(dataclasses.replace(young, pods=pods), unfit("cpu-1"))
    assert told(given_up) == ["GaveUp"]
    assert "cpu-1 is unfit after 2 restarts" in given_up.findings[0].message
    assert given_up.restarts == tried
    old = tuple(Restart("cpu-1", NOW - datetime.timedelta(hours=each)) for each in (30, 26))
    assert decide(state(restarts=old), unfit("cpu-1")).restarts == (Restart("cpu-1", NOW),)


def test_a_dry_run_only_tells() -> None:
    plan = decide(state(dry_run=True), unfit("cpu-1"))
    assert told(plan) == ["WouldRestart"]
    assert plan.restarts == ()
    assert decide(state(dry_run=True, restarts=(Restart("cpu-1", NOW),)), unfit("cpu-1")).actions == ()


def test_a_noted_repair_that_the_policy_no_longer_has_makes_room_for_what_it_has() -> None:
    assert told(decide(state(dry_run=True, restarts=(Restart("cpu-1", NOW),)), unfit("cpu-1"))) == ["WouldRestart"]
    restarts = placed(K8sNode(), NOTE, replace=False, restart=True)
    assert decide(restarts, unfit("cpu-1")) == remediate.Plan(restarts=(Restart("cpu-1", NOW),))
    replaces = placed(K8sNode(), (Restart("cpu-1", NOW),))
    assert decide(replaces, unfit("cpu-1")) == remediate.Plan(restarts=NOTE)


def test_an_approval_is_for_one_failure_of_one_node() -> None:
    asked = decide(state(approval=True), unfit("cpu-1"))
    assert told(asked) == ["AwaitsApproval"]
    word = remediate.approval(Worker("cpu-1", True, True, node=unfit("cpu-1")))
    assert f"pulumi-slurm.dev/approve={word}" in asked.findings[0].message
    assert asked.restarts == ()
    assert decide(state(approval=True, approved=(word,)), unfit("cpu-1")).restarts == (Restart("cpu-1", NOW),)
    later = unfit("cpu-1", since=NOW - minutes(30))
    assert told(decide(state(approval=True, approved=(word,)), later)) == ["AwaitsApproval"]


AWAY = K8sNode(away_since=LONG_AGO)
TAINTED = K8sNode(taints=(Taint("maintenance", "NoSchedule"),))


def placed(k8s_node: K8sNode | None, restarts: tuple[Restart, ...] = (), **policy: Any) -> NodeSetState:
    """A set that may replace nodes. Each pod has its own Kubernetes node; that of cpu-1 is given."""
    size = state(4, restarts, **{"replace": True, "restart": False, **policy})
    pods = {name: dataclasses.replace(pod, k8s_node=f"k8s-{name}") for name, pod in size.pods.items()}
    k8s_nodes = {f"k8s-{name}": K8sNode() for name in pods} | ({"k8s-cpu-1": k8s_node} if k8s_node else {})
    return dataclasses.replace(size, pods=pods, k8s_nodes=k8s_nodes)


def lost(words: str = "k8s-cpu-1 is not ready", cpus: int = 0) -> SlurmNode:
    """cpu-1 with a drain of the operator's on account of its Kubernetes node."""
    return dataclasses.replace(unfit("cpu-1", f"pulumi-slurm:node {words}", cpus), reason_user="slurm")


def replaced(reason: str, *, cordon: bool = True) -> DeletePod:
    return DeletePod("cpu-1", "7", Purpose.ELSEWHERE, reason, "k8s-cpu-1" if cordon else "")


NOTE = (Restart("cpu-1", NOW, replace=True),)


@pytest.mark.parametrize(
    ("k8s_node", "seen", "cordon"),
    [
        (K8sNode(), unfit("cpu-1"), True),
        (AWAY, lost(), True),
        (TAINTED, lost("k8s-cpu-1 is tainted maintenance"), False),
    ],
    ids=["unfit", "not ready", "tainted by somebody"],
)
def test_a_pod_leaves_a_machine_at_fault_which_is_noted_first(k8s_node: K8sNode, seen: SlurmNode, cordon: bool) -> None:
    first = decide(placed(k8s_node), seen)
    assert first == remediate.Plan(restarts=NOTE)
    second = decide(placed(k8s_node, NOTE), seen)
    if drains.owner(seen) is Owner.UNFIT:
        assert second == remediate.Plan(actions=(Drain("cpu-1", REPAIR),), restarts=NOTE)
        second = decide(placed(k8s_node, NOTE), repaired("cpu-1"))
    assert second == remediate.Plan(actions=(replaced(seen.reason, cordon=cordon),), restarts=NOTE)


@pytest.mark.parametrize(
    ("size", "seen"),
    [
        (placed(K8sNode(), replace=False), unfit("cpu-1")),
        (placed(AWAY, replace=False), lost()),
        (placed(AWAY, replace=False, restart=True), lost()),
        (placed(AWAY), lost(cpus=1)),
        (placed(AWAY), unfit("cpu-1", "a fan is broken")),
        (placed(K8sNode(cordoned=True)), lost("k8s-cpu-1 is cordoned")),
        (dataclasses.replace(placed(AWAY), k8s_nodes=None), lost()),
    ],
    ids=["off", "off, away", "restarts alone", "at work", "an administrator's", "cordoned by somebody", "unseen"],
)
def test_what_is_not_replaced(size: NodeSetState, seen: SlurmNode) -> None:
    assert decide(size, seen) == remediate.Plan()
    noted = changed(size, restarts=NOTE)
    jobs = (job(1, "RUNNING", "cpu-1"),)
    found = decide(changed(noted, reactions=placed(AWAY).node_set.reactions), seen, jobs=jobs).actions
    assert not [each for each in found if isinstance(each, DeletePod)]


def test_a_replacement_that_died_after_its_own_cordon_goes_on() -> None:
    assert decide(placed(K8sNode(cordoned=True), NOTE), lost()).actions == (replaced(lost().reason),)


def test_a_noted_replacement_is_not_done_once_it_is_switched_off() -> None:
    assert decide(placed(AWAY, NOTE, replace=False, restart=True), lost()).actions == ()
    assert decide(placed(K8sNode(), NOTE, replace=False, restart=True), unfit("cpu-1")).actions == ()


def test_restarts_are_tried_before_another_machine_and_then_the_node_is_given_up() -> None:
    def after(*done: bool) -> remediate.Plan:
        tried = tuple(Restart("cpu-1", NOW - minutes(120 - n), each) for n, each in enumerate(done))
        size = placed(K8sNode(), tried, restart=True)
        young = dataclasses.replace(size.pods["cpu-1"], created=NOW - minutes(60))
        return decide(dataclasses.replace(size, pods={**size.pods, "cpu-1": young}), unfit("cpu-1"))

    assert [each.replace for each in after().restarts] == [False]
    assert [each.replace for each in after(False).restarts] == [False, False]
    assert [each.replace for each in after(False, False).restarts] == [False, False, True]
    end = after(False, False, True)
    assert told(end) == ["GaveUp"]
    assert "after 2 restarts and on another Kubernetes node" in end.findings[0].message


def test_what_another_machine_would_not_mend_is_left_to_you() -> None:
    assert told(decide(placed(K8sNode()), unfit("cpu-1", "pulumi-slurm:jail: stale"))) == ["GaveUp"]


def test_replacements_keep_the_same_brakes() -> None:
    assert told(decide(placed(AWAY, dry_run=True), lost())) == ["WouldReplace"]
    asked = decide(placed(AWAY, approval=True), lost())
    assert told(asked) == ["AwaitsApproval"]
    assert asked.restarts == ()
    elsewhere = Restart("cpu-0", NOW - minutes(50))
    assert decide(done(placed(AWAY, (elsewhere,), per_hour=1)), lost()).restarts == (elsewhere,)
    held = decide(placed(AWAY), lost(), *(unfit(f"cpu-{n}") for n in (0, 2)))
    assert told(held) == ["BreakerOpen"]
    assert decide(placed(AWAY), lost(), hold="pulumi up is under way") == remediate.Plan()


@pytest.mark.parametrize(
    ("changes", "seen"),
    [
        ({"terminating": True}, lost()),
        ({"k8s_node": "", "ready": False, "running": False}, lost()),
        ({"k8s_node": "k8s-9", "ready": False}, lost()),
        ({"k8s_node": "k8s-9"}, lost()),
        ({"k8s_node": "k8s-9"}, node("cpu-1", "DOWN")),
        (None, lost()),
    ],
    ids=["it ends", "not scheduled", "it starts", "still drained", "down", "it is made"],
)
def test_a_replaced_node_counts_against_the_budgets_and_for_the_breaker_until_it_works(
    changes: dict[str, Any] | None, seen: SlurmNode
) -> None:
    lately = (Restart("cpu-1", NOW - minutes(1), replace=True),)
    size = placed(AWAY, lately, restart=True, breaker_percent=60)
    moved = {"created": NOW, **(changes or {})}
    pods = {**size.pods, "cpu-1": dataclasses.replace(size.pods["cpu-1"], **moved)}
    if changes is None:
        del pods["cpu-1"]
    size = dataclasses.replace(size, pods=pods, k8s_nodes={**(size.k8s_nodes or {}), "k8s-9": K8sNode()})
    waits = decide(size, seen, unfit("cpu-2"))
    assert waits.restarts == lately
    assert told(waits) == ["RepairWaits"]
    assert told(decide(size, seen, unfit("cpu-2"), unfit("cpu-3"))) == ["BreakerOpen"]
    if changes == {"k8s_node": "k8s-9"}:
        assert len(decide(size, unfit("cpu-2")).restarts) == 2, "it works again"


def test_a_node_that_an_update_took_is_none_of_the_budget_of_repairs() -> None:
    updating = dataclasses.replace(unfit("cpu-0", "pulumi-slurm:update"), reason_user="slurm")
    assert decide(state(), unfit("cpu-1"), updating).restarts == (Restart("cpu-1", NOW),)


class Repairs(RuleBasedStateMachine):
    """Nodes fail and recover, jobs come and go, administrators drain, the operator dies between note and deed."""

    SIZE = 5
    POLICY = ReactionPolicy(restart=True, after_seconds=60, attempts=2, at_once=2, per_hour=3, breaker_percent=60)

    def __init__(self) -> None:
        super().__init__()
        self.now = NOW
        self.created = {self.name(n): NOW - minutes(60) for n in range(self.SIZE)}
        self.reasons: dict[str, tuple[str, datetime.datetime]] = {}
        self.busy: set[str] = set()
        self.restarts: tuple[Restart, ...] = ()
        self.done: list[tuple[str, datetime.datetime]] = []

    @staticmethod
    def name(number: int) -> str:
        return f"cpu-{number}"

    members = st.integers(0, SIZE - 1).map(lambda number: f"cpu-{number}")

    @rule(name=members)
    def fail(self, name: str) -> None:
        self.reasons.setdefault(name, (UNFIT, self.now))

    @rule(name=members)
    def administrator_drains(self, name: str) -> None:
        self.reasons.setdefault(name, ("a fan is broken", self.now))

    @rule(name=members)
    def recover(self, name: str) -> None:
        if self.reasons.get(name, ("", NOW))[0] != REPAIR:  # Only the operator lifts that one.
            self.reasons.pop(name, None)

    @rule(name=members)
    def start_job(self, name: str) -> None:
        if name not in self.reasons:
            self.busy.add(name)

    @rule(name=members)
    def end_job(self, name: str) -> None:
        self.busy.discard(name)

    @rule(passed=st.integers(1, 40))
    def wait(self, passed: int) -> None:
        self.now += minutes(passed)

    @rule(dies=st.booleans())
    def look(self, dies: bool) -> None:
        pods = {
            name: Pod(name, "worker", True, True, created=created, uid="7") for name, created in self.created.items()
        }
        size = node_set(self.SIZE, self.SIZE, pods.values(), self.now)
        size = changed(size, reactions=self.POLICY, restarts=self.restarts)
        nodes = {name: self.record(name) for name in pods}
        jobs = tuple(job(number, "RUNNING", name) for number, name in enumerate(sorted(self.busy), 1))
        plan = remediate.plan(size.seen(nodes, FullListing(nodes, jobs)))
        for each in plan.actions:
            if isinstance(each, Drain):
                assert (self.reasons[each.node][0], each.reason) == (UNFIT, REPAIR), "only its own drain is taken over"
                self.reasons[each.node] = (REPAIR, self.now)
                continue
            assert each.pod not in self.busy, "a job was killed"
            assert self.reasons[each.pod][0] == REPAIR, "neither an administrator's drain nor the node's own"
            self.reasons[each.pod] = (UNFIT, self.now)  # The new pod finds the same.
            self.created[each.pod] = self.now + datetime.timedelta(seconds=1)
            self.done.append((each.pod, self.now))
        if not dies:
            self.restarts = plan.restarts
        self.now += datetime.timedelta(seconds=5)

    def record(self, name: str) -> SlurmNode:
        if name not in self.reasons:
            return node(name, "ALLOCATED", cpus=1) if name in self.busy else node(name)
        reason, since = self.reasons[name]
        cpus = int(name in self.busy)
        return repaired(name, cpus, since) if reason == REPAIR else unfit(name, reason, cpus, since)

    @invariant()
    def budgets_are_kept(self) -> None:
        noted = [each for each in self.restarts if each.at > self.now - minutes(60)]
        assert len(noted) <= self.POLICY.per_hour
        for name in self.created:
            day = [at for done, at in self.done if done == name and at > self.now - datetime.timedelta(days=1)]
            notes = sum(each.node == name for each in self.restarts)
            assert notes <= self.POLICY.attempts
            assert len(day) <= self.POLICY.attempts


Repairs.TestCase.settings = settings(max_examples=120, stateful_step_count=50)
TestRepairs = Repairs.TestCase
