"""Promises about the brakes of repairs: budgets, breaker, dry run, approval, and the end of trying."""

from __future__ import annotations

import dataclasses
import datetime

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule
from slurm_operator.actions import Drain
from slurm_operator.decide.node_sets import remediate
from slurm_operator.decide.nodes.workers import Worker
from slurm_operator.parse.resources import parse_node_set
from slurm_operator.state.kubernetes import Pod
from slurm_operator.state.resources import Restart
from slurm_operator.state.slurm import FullListing, SlurmNode

from contract.policies import ReactionPolicy
from tests.operator.states.repairs import REPAIR, UNFIT, decide, done, minutes, repaired, state, told, unfit
from tests.operator.states.sets import NOW, changed, job, node, node_set


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


def test_an_approval_is_for_one_failure_of_one_node() -> None:
    asked = decide(state(approval=True), unfit("cpu-1"))
    assert told(asked) == ["AwaitsApproval"]
    word = remediate.approval(Worker("cpu-1", True, True, node=unfit("cpu-1")))
    assert f"pulumi-slurm.dev/approve={word}" in asked.findings[0].message
    assert asked.restarts == ()
    assert decide(state(approval=True, approved=(word,)), unfit("cpu-1")).restarts == (Restart("cpu-1", NOW),)
    later = unfit("cpu-1", since=NOW - minutes(30))
    assert told(decide(state(approval=True, approved=(word,)), later)) == ["AwaitsApproval"]


def test_to_approve_another_takes_back_no_approval_that_waits_for_the_budget() -> None:
    first, second = (remediate.approval(Worker(name, True, True, node=unfit(name))) for name in ("cpu-1", "cpu-2"))
    size = state(10, (Restart("cpu-3", NOW - minutes(1)),), approved=(first,), approval=True)
    asked = decide(size, unfit("cpu-1"), unfit("cpu-2"), unfit("cpu-3"))
    assert f"pulumi-slurm.dev/approve={first},{second}" in asked.findings[0].message
    annotation = {"annotations": {"pulumi-slurm.dev/approve": f"{first}, {second}"}}
    read = parse_node_set({"metadata": {"name": "cpu", **annotation}, "spec": {"cluster": "c", "statefulSet": "cpu"}})
    assert read.approved == {first, second}


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
            name: Pod(name, "worker", True, True, created=created, uid=f"of {created}")
            for name, created in self.created.items()
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
