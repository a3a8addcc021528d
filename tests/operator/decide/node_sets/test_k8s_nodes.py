"""Promises about Kubernetes nodes: a cordon becomes a drain and back, and no pod with a job may be evicted."""

from __future__ import annotations

import dataclasses
import datetime
from typing import Any

import pytest
from slurm_operator.actions import Action, Comment, Drain, SetEvictable, Undrain
from slurm_operator.decide.node_sets import k8s_nodes, undrain
from slurm_operator.decide.node_sets import node_set as whole
from slurm_operator.decide.nodes.workers import NodeSetState
from slurm_operator.findings import Severity
from slurm_operator.parse.k8s_nodes import parse_k8s_node
from slurm_operator.state.kubernetes import K8sNode, Pod, Taint, Toleration
from slurm_operator.state.resources import Restart
from slurm_operator.state.slurm import FullListing, SlurmJob, SlurmNode

from contract.policies import ReactionPolicy
from tests.operator.states.sets import NOW, changed, job, node, node_set, pod

LONG_AGO = NOW - datetime.timedelta(hours=10)
WELL = K8sNode()
CORDONED = K8sNode(cordoned=True)
AWAY = K8sNode(away_since=LONG_AGO)
OURS: dict[str, Any] = {"reason": "pulumi-slurm:node k8s-1 is cordoned", "reason_user": "slurm"}


def tainted(key: str, effect: str = "NoSchedule", value: str = "") -> K8sNode:
    return K8sNode(taints=(Taint(key, effect, value),))


def state(k8s_node: K8sNode | None = CORDONED, /, size: int = 3, known: bool = True, **changes: Any) -> NodeSetState:
    """Return a set of pods, each on a Kubernetes node of its own; cpu-1's is `k8s_node`, None if that is gone."""
    pods = {
        f"cpu-{n}": pod(f"cpu-{n}", k8s_node=f"k8s-{n}", created=LONG_AGO, uid="7", revision="now") for n in range(size)
    }
    pods["cpu-1"] = dataclasses.replace(pods["cpu-1"], **changes)
    there = {f"k8s-{n}": WELL for n in range(size)} | {"k8s-1": k8s_node}
    found = {name: each for name, each in there.items() if each is not None}
    return node_set(size, size, pods.values(), NOW, revision="now", k8s_nodes=found if known else None)


def drained(cpus: int = 0, **of: str) -> SlurmNode:
    return node("cpu-1", "MIXED" if cpus else "IDLE", "DRAIN", cpus=cpus, **(of or OURS))


def decide(size: NodeSetState, seen: SlurmNode | None, *jobs: SlurmJob) -> list[object]:
    listing = {name: node(name) for name in size.pods} | ({seen.name: seen} if seen else {})
    if seen is None:
        del listing["cpu-1"]
    return [each for each in actions(size, listing, jobs) if not isinstance(each, Comment)]


def actions(size: NodeSetState, listing: dict[str, SlurmNode], jobs: tuple[SlurmJob, ...] = ()) -> list[Action]:
    seen = size.seen(listing, FullListing(listing, jobs))
    return [*undrain.actions(seen), *k8s_nodes.actions(seen)]


def drain(words: str) -> list[object]:
    return [Drain("cpu-1", f"pulumi-slurm:node {words}")]


@pytest.mark.parametrize(
    ("size", "expected"),
    [
        (state(WELL), []),
        (state(CORDONED), drain("k8s-1 is cordoned")),
        (state(None), drain("k8s-1 is gone")),
        (state(AWAY), drain("k8s-1 is not ready")),
        (state(tainted("maintenance")), drain("k8s-1 is tainted maintenance")),
        (state(tainted("maintenance", "NoExecute")), drain("k8s-1 is tainted maintenance")),
        (
            state(tainted("node.kubernetes.io/out-of-service")),
            drain("k8s-1 is tainted node.kubernetes.io/out-of-service"),
        ),
        (state(tainted("maintenance", "PreferNoSchedule")), []),
        (state(tainted("node.kubernetes.io/memory-pressure")), []),
        (state(None, created=NOW), []),
        (state(CORDONED, known=False), []),
        (state(None, known=False), []),
        (state(K8sNode(away_since=NOW - datetime.timedelta(minutes=4))), []),
        (state(WELL, k8s_node=""), []),
    ],
    ids=lambda value: "" if isinstance(value, list) else str(value.k8s_nodes)[:60],
)
def test_a_machine_that_is_to_be_emptied_gets_no_new_jobs(size: NodeSetState, expected: list[object]) -> None:
    assert decide(size, node("cpu-1", "MIXED", cpus=1), job(1, "RUNNING", "cpu-1")) == expected


@pytest.mark.parametrize(
    ("toleration", "counts"),
    [
        (Toleration("gpu", any_value=True), False),
        (Toleration("gpu", "NoSchedule", "yes"), False),
        (Toleration(any_value=True), False),
        (Toleration("gpu", value="no"), True),
        (Toleration("gpu", "NoExecute", any_value=True), True),
        (Toleration("gp", any_value=True), True),
    ],
)
def test_a_taint_that_the_pod_tolerates_says_nothing(toleration: Toleration, counts: bool) -> None:
    size = state(tainted("gpu", value="yes"), tolerations=(toleration,))
    assert bool(decide(size, node("cpu-1"))) is counts


@pytest.mark.parametrize(
    ("size", "expected"),
    [
        (changed(state(), replicas=1), [Drain("cpu-1", "pulumi-slurm:scale-in")]),
        (state(revision="before"), drain("k8s-1 is cordoned")),
    ],
    ids=["leaves", "is to be updated"],
)
def test_a_node_of_a_cordoned_machine_is_drained_once_whatever_else_is_to_become_of_it(
    size: NodeSetState, expected: list[object]
) -> None:
    decision = whole.decide(size.seen({name: node(name) for name in size.pods}))
    assert [each for each in decision.actions if isinstance(each, Drain) and each.node == "cpu-1"] == expected
    assert decision.updating == frozenset(), "no slot of the update is taken"


@pytest.mark.parametrize(
    "theirs", [{"reason": "a fan is broken", "reason_user": "alice"}, {"reason": "pulumi-slurm:update"}]
)
def test_a_drain_that_is_there_is_left_as_it_is(theirs: dict[str, str]) -> None:
    assert decide(state(), drained(1, **theirs), job(1, "RUNNING", "cpu-1")) == []
    assert decide(state(WELL), drained(1, **theirs), job(1, "RUNNING", "cpu-1")) == []


@pytest.mark.parametrize(
    ("size", "seen", "lifted"),
    [
        (state(WELL), drained(), True),
        (state(WELL), drained(1), True),
        (state(WELL), drained(reason="pulumi-slurm:node k8s-1 is cordoned", reason_user="root"), False),
        (state(WELL, ready=False), drained(), False),
        (state(WELL, terminating=True), drained(), False),
        (state(CORDONED), drained(1), False),
        (state(WELL, known=False), drained(), False),
    ],
    ids=["well", "under a job", "an administrator's", "no ready pod", "ending", "still cordoned", "not known"],
)
def test_our_drain_goes_when_the_machine_is_well_again(size: NodeSetState, seen: SlurmNode, lifted: bool) -> None:
    assert (Undrain("cpu-1") in decide(size, seen)) is lifted


def test_a_node_that_is_unfit_when_its_machine_is_well_again_may_say_so_and_takes_no_job() -> None:
    mine = dataclasses.replace(drained(), started=NOW)
    assert decide(state(WELL, ready=False), mine) == [Drain("cpu-1", "pulumi-slurm:new")]
    leaving = changed(state(WELL, ready=False), replicas=1)
    assert decide(leaving, mine) == []
    for size in (state(CORDONED, ready=False), state(AWAY, ready=False), state(WELL, ready=False, evictable=True)):
        leaves_no_more = dataclasses.replace(mine, reason="pulumi-slurm:scale-in")
        assert undrain.actions(size.seen({"cpu-1": leaves_no_more})) == []
    as_new = {"cpu-1": dataclasses.replace(mine, reason="pulumi-slurm:new")}
    assert k8s_nodes.actions(state(AWAY, ready=False).seen(as_new))[1:] == drain("k8s-1 is not ready")
    assert k8s_nodes.actions(state(WELL, ready=False).seen(as_new)) == []


def test_a_pod_may_be_evicted_when_its_node_is_drained_and_strictly_idle() -> None:
    assert decide(state(), drained()) == [SetEvictable("cpu-1", "7", evictable=True)]
    theirs = drained(reason="a fan is broken", reason_user="alice")
    assert decide(state(), theirs) == [SetEvictable("cpu-1", "7", evictable=True)]
    assert decide(state(None), drained()) == [SetEvictable("cpu-1", "7", evictable=True)]


@pytest.mark.parametrize(
    ("seen", "jobs"),
    [
        (drained(1), [job(1, "RUNNING", "cpu-1")]),
        (drained(), [job(1, "SUSPENDED", "cpu-1")]),
        (drained(), [job(1, "COMPLETING", "cpu-1")]),
        (node("cpu-1", "IDLE", "DRAIN", "COMPLETING", **OURS), []),
        (None, []),
    ],
)
def test_no_pod_with_work_may_be_evicted(seen: SlurmNode | None, jobs: list[SlurmJob]) -> None:
    assert decide(state(), seen, *jobs) == []


def test_without_full_listings_no_pod_may_be_evicted_and_they_are_asked_for_once() -> None:
    listing = {"cpu-1": drained()}
    assert k8s_nodes.actions(state().seen(listing)) == []
    assert k8s_nodes.needs_full_listing(state().seen(listing))
    assert not k8s_nodes.needs_full_listing(state().seen({"cpu-1": drained(1)}))
    assert not k8s_nodes.needs_full_listing(state(evictable=True).seen(listing))
    assert not k8s_nodes.needs_full_listing(state(WELL).seen(listing))


@pytest.mark.parametrize(
    ("size", "seen"),
    [
        (state(WELL, evictable=True), drained()),
        (state(CORDONED, evictable=True), node("cpu-1")),
        (state(CORDONED, evictable=True), node("cpu-1", "MIXED", "DRAIN", cpus=1, **OURS)),
    ],
    ids=["uncordoned", "undrained by hand", "works again"],
)
def test_a_pod_that_stays_after_all_is_protected_again(size: NodeSetState, seen: SlurmNode) -> None:
    assert SetEvictable("cpu-1", "7", evictable=False) in decide(size, seen)


@pytest.mark.parametrize(
    ("size", "give_back"),
    [
        (state(WELL), True),
        (state(WELL, evictable=True), False),
        (state(CORDONED), False),
        (state(tainted("maintenance")), False),
        (state(AWAY), False),
        (state(known=False), True),
    ],
    ids=["well", "to be protected first", "cordoned", "tainted", "not ready", "not known"],
)
@pytest.mark.parametrize("reason", ["scale-in", "update", "new"])
def test_a_node_is_given_back_only_where_its_pod_stays(size: NodeSetState, give_back: bool, reason: str) -> None:
    listing = {"cpu-1": drained(reason=f"pulumi-slurm:{reason}", reason_user="slurm")}
    assert [each.name for each in undrain.without_cause(size.seen(listing))] == ["cpu-1"]
    assert undrain.actions(size.seen(listing)) == [Undrain("cpu-1")] * give_back


@pytest.mark.parametrize(
    ("size", "becomes"),
    [
        (state(CORDONED), drain("k8s-1 is cordoned")),
        (state(tainted("maintenance")), drain("k8s-1 is tainted maintenance")),
        (state(AWAY), drain("k8s-1 is not ready")),
        (state(WELL), []),
    ],
    ids=["cordoned", "tainted", "not ready", "well"],
)
@pytest.mark.parametrize("reason", ["scale-in", "scale-in, its deadline has passed", "update", "new"])
def test_a_drain_that_would_be_lifted_becomes_the_machines_so_that_the_node_may_leave_it(
    size: NodeSetState, becomes: list[object], reason: str
) -> None:
    mine = drained(reason=f"pulumi-slurm:{reason}", reason_user="slurm")
    kept = [each for each in decide(size, mine) if not isinstance(each, SetEvictable | Undrain)]
    assert kept == becomes


def test_a_drain_of_ours_that_still_has_its_cause_stays_whatever_the_machine() -> None:
    leaving, outdated = changed(state(), replicas=1), changed(state(), revision="cpu-new")
    for size, reason in ((leaving, "pulumi-slurm:scale-in"), (outdated, "pulumi-slurm:update")):
        found = decide(size, drained(1, reason=reason, reason_user="slurm"), job(1, "RUNNING", "cpu-1"))
        assert Drain("cpu-1", "pulumi-slurm:node k8s-1 is cordoned") not in found


def test_an_evictable_pod_stays_so_while_nothing_changes() -> None:
    assert decide(state(evictable=True), drained()) == []
    assert decide(state(known=False, evictable=True), drained()) == []


def test_a_pod_that_ends_under_its_jobs_takes_no_more() -> None:
    working = node("cpu-1", "MIXED", cpus=1)
    assert decide(state(WELL, terminating=True), working) == drain("pod cpu-1 is ending")
    assert decide(state(WELL, terminating=True), node("cpu-1")) == []


def test_a_machine_that_is_away_is_noted_at_once_and_the_note_goes_with_the_cause() -> None:
    just_now = K8sNode(away_since=NOW)
    note = "pulumi-slurm:node k8s-1 is not ready"
    assert actions(state(just_now), {"cpu-1": node("cpu-1")}) == [Comment("cpu-1", note)]
    noted = dataclasses.replace(node("cpu-1"), comment=note)
    assert actions(state(just_now), {"cpu-1": noted}) == []
    assert actions(state(WELL), {"cpu-1": noted}) == [Comment("cpu-1", "")]
    assert actions(state(WELL, known=False), {"cpu-1": noted}) == []
    theirs = dataclasses.replace(node("cpu-1"), comment="lent to Bob")
    assert actions(state(just_now), {"cpu-1": theirs}) == []
    assert actions(state(WELL), {"cpu-1": theirs}) == []


def test_machines_that_go_away_together_open_the_breaker_and_nothing_is_drained() -> None:
    size = state(AWAY)
    both = dataclasses.replace(size, k8s_nodes={**(size.k8s_nodes or {}), "k8s-0": AWAY})
    assert decide(both, node("cpu-1")) == []
    (told,) = k8s_nodes.held(both.seen({}))
    assert told.reason == "BreakerOpen"
    assert "2 of 3" in told.message
    generous = changed(both, reactions=ReactionPolicy(breaker_percent=70))
    assert len(decide(generous, node("cpu-1"))) == 2


def test_a_machine_that_went_away_while_cordoned_counts_for_the_breaker_too() -> None:
    size = state(AWAY)
    cordoned = dataclasses.replace(AWAY, cordoned=True)
    both = dataclasses.replace(size, k8s_nodes={**(size.k8s_nodes or {}), "k8s-0": cordoned})
    assert decide(both, node("cpu-1")) == [Drain("cpu-0", "pulumi-slurm:node k8s-0 is cordoned")]


def test_a_dry_run_only_tells_of_a_machine_that_is_away_and_obeys_a_cordon() -> None:
    policy = ReactionPolicy(dry_run=True)
    assert decide(changed(state(AWAY), reactions=policy), node("cpu-1")) == []
    (told,) = k8s_nodes.held(changed(state(AWAY), reactions=policy).seen({"cpu-1": node("cpu-1")}))
    assert told.reason == "WouldDrain"
    assert decide(changed(state(), reactions=policy), node("cpu-1")) == drain("k8s-1 is cordoned")


@pytest.mark.parametrize("reason", ["update", "scale-in", "node k8s-1 is not ready"])
def test_a_pod_that_cannot_end_since_its_machine_is_away_asks_for_fencing_whatever_it_was_to_end_for(
    reason: str,
) -> None:
    mine = {"cpu-1": drained(reason=f"pulumi-slurm:{reason}", reason_user="slurm")}
    (told,) = k8s_nodes.held(state(AWAY, terminating=True).seen(mine))
    assert told.reason == "AwaitsFencing"
    assert "node.kubernetes.io/out-of-service=nodeshutdown:NoExecute" in told.message
    for size in (state(AWAY), state(WELL, terminating=True), state(K8sNode(away_since=NOW), terminating=True)):
        assert k8s_nodes.held(size.seen(mine)) == [], "it does not end, it may end, its Kubernetes node may come back"


def test_a_machine_that_waits_for_jobs_is_told() -> None:
    (told,) = k8s_nodes.findings(state().seen({"cpu-1": drained(1)}))
    assert told.message == "k8s-1 is cordoned: cpu-1 may leave when its jobs have ended"
    assert told.severity is Severity.PROGRESSING
    assert k8s_nodes.held(state().seen({"cpu-1": drained(1)})) == []
    runs = dataclasses.replace(job(7, "RUNNING", "cpu-1"), ends=NOW)
    (told,) = k8s_nodes.findings(state().seen({"cpu-1": drained(1)}, jobs=(runs, job(8, "RUNNING", "cpu-0"))))
    assert told.message.endswith("when its jobs have ended: job 7 (ends by 2026-01-01 00:00 UTC)")


def test_of_a_kubernetes_node_little_is_kept_and_read() -> None:
    body = {
        "metadata": {"name": "a", "resourceVersion": "5", "labels": {"much": "more"}},
        "spec": {"unschedulable": True, "taints": [{"key": "k", "effect": "NoSchedule", "timeAdded": "x"}]},
        "status": {
            "images": ["many"],
            "conditions": [{"type": "Ready", "status": "Unknown", "lastTransitionTime": "2026-01-01T00:00:00Z"}],
        },
    }
    assert parse_k8s_node(body) == K8sNode(cordoned=True, taints=(Taint("k", "NoSchedule"),), away_since=NOW)
    untimed = {"conditions": [{"type": "Ready", "status": "False", "lastTransitionTime": None}]}
    made = {"creationTimestamp": "2026-01-01T00:00:00Z"}
    assert parse_k8s_node({"metadata": made, "status": untimed}) == K8sNode(away_since=NOW), "it hides no other"
    healthy = {"type": "Ready", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"}
    nodes = [parse_k8s_node({"metadata": {"name": name}, "status": {"conditions": [healthy]}}) for name in "ab"]
    assert nodes[0] == K8sNode() == parse_k8s_node({"metadata": body["metadata"]})
    assert nodes[0] is nodes[1], "thousands that say the same are one record"
    ended = Pod("cpu-0", "worker", ready=True, running=True)
    assert not ended.evictable


def test_a_pod_may_be_evicted_only_under_a_drain_that_its_node_does_not_lift_itself() -> None:
    unfit = drained(reason="pulumi-slurm:health gpus: 3 of 4", reason_user="root")
    assert decide(state(), unfit) == drain("k8s-1 is cordoned"), "ours comes first, in a pass of its own"
    assert decide(state(), drained()) == [SetEvictable("cpu-1", "7", evictable=True)]
    lifted = state(evictable=True)
    assert SetEvictable("cpu-1", "7", evictable=False) in decide(lifted, unfit)
    noted = changed(state(), restarts=(Restart("cpu-1", NOW),))
    assert decide(noted, unfit) == [], "its repair goes by this drain"
