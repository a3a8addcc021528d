"""Promises about the condition by which a worker's pod tells of its Slurm node."""

from __future__ import annotations

import asyncio
import dataclasses
import datetime
from typing import Any

import pytest
from slurm_operator.clients.kubernetes import KubernetesApi, KubernetesError
from slurm_operator.decide.nodes import pod_conditions
from slurm_operator.execute import REFUSED
from slurm_operator.reconcile.health import pod_conditions as writing
from slurm_operator.reconcile.health.pod_conditions import PER_PASS, PodConditions
from slurm_operator.report import Reporter
from slurm_operator.state.kubernetes import Pod, PodCondition
from slurm_operator.state.slurm import SlurmNode

from contract import names
from tests.operator.played.played_clients import LeaseFor
from tests.operator.worlds.world import World, passes, until

NOW = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)


def pod(name: str = "cpu-0", *, running: bool = True, ready: bool = True, **more: Any) -> Pod:
    """A pod, whose checks passed if it says anything of its node."""
    said = {"health": pod_conditions.PASSED} if "slurm" in more else {}
    return Pod(name, "worker", ready, running, created=NOW, uid=f"uid of {name}", **{**said, **more})


def node(*states: str, name: str = "cpu-0", **more: Any) -> SlurmNode:
    return SlurmNode(name, frozenset({*(states or ("IDLE",)), "DYNAMIC_NORM"}), **more)


@pytest.mark.parametrize(
    ("states", "takes_jobs", "word"),
    [
        ("IDLE", True, "Idle"),
        ("MIXED PLANNED", True, "Mixed"),
        ("ALLOCATED", True, "Allocated"),
        ("IDLE RESERVED", True, "IdleReserved"),
        ("IDLE NOT_RESPONDING", False, "IdleNotResponding"),
        ("IDLE DRAIN", False, "Drained"),
        ("IDLE DRAIN INVALID_REG", False, "DrainedInvalidReg"),
        ("DOWN DRAIN", False, "DrainedDown"),
        ("MIXED DRAIN", False, "Draining"),
        ("IDLE DRAIN COMPLETING", False, "Draining"),
        ("IDLE FAIL", False, "Fail"),
        ("ALLOCATED FAIL", False, "Failing"),
        ("DOWN NOT_RESPONDING", False, "DownNotResponding"),
    ],
)
def test_a_pod_says_whether_its_node_takes_jobs_and_slurms_state_in_a_word(
    states: str, takes_jobs: bool, word: str
) -> None:
    assert pod_conditions.wanted(pod(), node(*states.split())) == PodCondition(str(takes_jobs), word)


def test_the_message_is_slurms_reason_with_who_set_it_and_when() -> None:
    drained = node("IDLE", "DRAIN", reason="bad fan", reason_user="alice", reason_set=NOW)
    said = pod_conditions.wanted(pod(), drained)
    assert said == PodCondition("False", "Drained", "bad fan [alice@2026-01-01T00:00:00Z]")


def test_a_record_of_the_pod_before_says_nothing_of_this_one() -> None:
    before = node(started=NOW - datetime.timedelta(hours=1))
    assert pod_conditions.wanted(pod(ready=False), before) == pod_conditions.NOT_REGISTERED
    assert pod_conditions.wanted(pod(ready=False, running=False), before) is None
    assert pod_conditions.wanted(pod(ready=False), node(started=NOW)) == PodCondition("True", "Idle")


def test_a_pod_that_ends_is_left_alone() -> None:
    assert pod_conditions.wanted(pod(terminating=True), node()) is None


HEALTHS = [
    ({}, {}, "True", "ChecksPassed", ""),
    ({}, {"extra": "lent to Bob"}, "True", "ChecksPassed", ""),
    ({}, {"extra": "pulumi-slurm:warning cpu steal: much"}, "True", "Warning", "cpu steal: much"),
    (
        {},
        {"extra": "pulumi-slurm:warning clock: could not be checked: no"},
        "Unknown",
        "Warning",
        "clock: could not be",
    ),
    ({}, {"extra": "pulumi-slurm:failed gpus, found at 2026-11-26T12:00:30Z"}, "Unknown", "NotReady", ""),
    ({"ready": False}, {}, "Unknown", "NotReady", "node-health there says why"),
    ({"ready": False}, {"reason": "bad fan", "reason_user": "alice"}, "Unknown", "NotReady", ""),
    (
        {},
        {"reason": "pulumi-slurm:health gpu memory errors: GPU 3: 2", "reason_user": "root"},
        "False",
        "GpuMemoryErrors",
        "GPU 3: 2",
    ),
    ({}, {"reason": "pulumi-slurm:repair health gpus: 3 of 4", "reason_user": "slurm"}, "False", "Gpus", "3 of 4"),
    ({}, {"reason": "pulumi-slurm:jail: it is stale", "reason_user": "root"}, "False", "Jail", "it is stale"),
]


@pytest.mark.parametrize(("of_pod", "of_node", "status", "word", "message"), HEALTHS)
def test_a_pod_says_what_its_nodes_checks_found_and_unknown_is_never_true(
    of_pod: dict[str, Any], of_node: dict[str, Any], status: str, word: str, message: str
) -> None:
    record = node("IDLE", *(["DRAIN"] if "reason" in of_node else []), started=NOW, **of_node)
    said = pod_conditions.health(pod(**of_pod), record)
    assert (said.status, said.reason, message in said.message) == (status, word, True), said.message


def test_of_checks_of_a_pod_before_nobody_knows() -> None:
    before = node(started=NOW - datetime.timedelta(hours=1))
    assert pod_conditions.health(pod(ready=False), before).status == "Unknown"
    assert pod_conditions.health(pod(ready=False), None).status == "Unknown"


def test_a_verdict_that_turns_is_told_with_its_own_time() -> None:
    before = pod(
        slurm=PodCondition("True", "Idle", since="then"), health=PodCondition("True", "ChecksPassed", since="then")
    )
    (told,) = pod_conditions.changes(
        [before], {"cpu-0": node(extra="pulumi-slurm:warning clock: could not be checked: no")}, 1
    )
    assert (told.slurm.since, told.health.since, told.health.status) == ("then", "", "Unknown")


def told(pods: list[Pod], listed: list[SlurmNode], most: int = PER_PASS, after: str = "") -> list[str]:
    nodes = {each.name: each for each in listed}
    return [each.pod for each in pod_conditions.changes(pods, nodes, most, after)]


IDLE, DOWN = PodCondition("True", "Idle"), PodCondition("False", "Down")


def test_what_a_pod_says_already_is_not_written_again() -> None:
    since = PodCondition("True", "Idle", since="2026-01-01T00:00:00Z")
    assert told([pod(slurm=since)], [node()]) == []


def test_a_condition_keeps_its_time_until_it_turns() -> None:
    before = PodCondition("True", "Idle", since="then")
    (same,) = pod_conditions.changes([pod(slurm=before)], {"cpu-0": node("MIXED")}, 1)
    (other,) = pod_conditions.changes([pod(slurm=before)], {"cpu-0": node("DOWN")}, 1)
    assert (same.slurm.since, other.slurm.since) == ("then", "")


def test_nodes_that_turn_come_before_reasons_and_those_before_busy_nodes() -> None:
    pods = [pod("a", slurm=IDLE), pod("b", slurm=DOWN), pod("c", slurm=IDLE), pod("d")]
    listed = [node("MIXED", name="a"), node("DOWN", "DRAIN", name="b"), node("DOWN", name="c"), node(name="d")]
    assert told(pods, listed) == ["c", "d", "b", "a"]


def test_no_pod_waits_for_ever_behind_busy_ones() -> None:
    pods, listed = [pod(name, slurm=IDLE) for name in "abcde"], [node("MIXED", name=name) for name in "abcde"]
    assert told(pods, listed, most=2) == ["a", "b"]
    assert told(pods, listed, most=2, after="b") == ["c", "d"]
    assert told(pods, listed, most=2, after="d") == ["e", "a"]


def test_jobs_that_come_and_go_on_many_nodes_cost_a_few_writes_in_each_pass() -> None:
    names_ = [f"n{number:03}" for number in range(100)]
    pods, listed = [pod(name, slurm=IDLE) for name in names_], [node("MIXED", name=name) for name in names_]
    assert len(told(pods, listed)) == pod_conditions.MOST_SERVING
    listed[7:10] = [node("DOWN", name=name) for name in names_[7:10]]
    assert told(pods, listed)[:3] == names_[7:10], "what takes no jobs is told at once"
    assert len(told(pods, listed)) == 3 + pod_conditions.MOST_SERVING


class Pods(KubernetesApi):
    """An API server with many pods."""

    def __init__(self, status: int = 200, words: str = "no") -> None:
        self.status, self.words = status, words
        self.calls = 0
        self.conditions: dict[str, dict[str, Any]] = {}

    async def apply(
        self, api: str, plural: str, body: Any, subresource: str = "", manager: str = names.OPERATOR_FIELD_MANAGER
    ) -> Any:
        self.calls += 1
        name = body["metadata"]["name"]
        assert (plural, subresource, body["metadata"]["uid"]) == ("pods", "status", f"uid of {name}")
        if self.status != 200:
            raise KubernetesError(self.status, self.words)
        rows = body["status"]["conditions"]
        assert [row["type"] for row in rows] == ["pulumi-slurm.dev/SlurmNode", "pulumi-slurm.dev/Healthy"]
        words = ("status", "reason", "message", "lastTransitionTime")
        slurm, health = (PodCondition(*(row[word] for word in words)) for row in rows)
        self.conditions[name] = {"slurm": slurm, "health": health}
        return body


def one_pass(api: Pods, conditions: PodConditions, pods: list[Pod], nodes: dict[str, SlurmNode]) -> None:
    said = api.conditions
    now = [dataclasses.replace(each, **said[each.name]) if each.name in said else each for each in pods]
    asyncio.run(conditions.tell(now, nodes))


def test_five_thousand_nodes_cost_a_few_writes_in_each_pass_and_none_once_all_is_told() -> None:
    api = Pods()
    pods, conditions = [pod(f"cpu-{n}") for n in range(5000)], PodConditions(Reporter(api, LeaseFor(9999)))
    nodes = {each.name: node(name=each.name) for each in pods}
    passes = 0
    while len(api.conditions) < len(pods):
        one_pass(api, conditions, pods, nodes)
        passes += 1
        assert api.calls <= passes * PER_PASS
    assert api.calls == len(pods)
    one_pass(api, conditions, pods, nodes)
    assert api.calls == len(pods)


def test_a_missing_right_is_told_and_tried_again_only_after_a_while() -> None:
    api, all_of_it = Pods(403), {"cpu-0": node()}
    conditions = PodConditions(Reporter(api, LeaseFor(9999)))
    one_pass(api, conditions, [pod()], all_of_it)
    one_pass(api, conditions, [pod()], all_of_it)
    assert [each.reason for each in conditions.problems] == [REFUSED]
    calls = api.calls
    one_pass(api, conditions, [pod()], all_of_it)
    assert api.calls == calls
    one_pass(api, conditions, [pod(terminating=True)], all_of_it)
    assert conditions.problems == [], "nothing is to be told any more"


class Hanging(Pods):
    """An API server that answers no write."""

    async def apply(self, *_: Any, **__: Any) -> Any:
        self.calls += 1
        await asyncio.Event().wait()


def test_an_api_server_that_hangs_holds_up_no_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writing, "PASS_SECONDS", 0.01)
    api, pods = Hanging(), [pod(f"cpu-{n}") for n in range(50)]
    conditions = PodConditions(Reporter(api, LeaseFor(9999)))
    one_pass(api, conditions, pods, {each.name: node(name=each.name) for each in pods})
    assert 0 < api.calls < len(pods)
    assert conditions.problems == []


@pytest.mark.parametrize(
    ("status", "words", "problems"),
    [
        (404, "not found", 0),
        (409, "conflict", 0),
        (422, 'Pod "cpu-0" is invalid: metadata.uid: Invalid value: "a": field is immutable', 0),
        (422, 'Pod "cpu-0" is invalid: status.conditions: Invalid value', 1),
    ],
)
def test_a_pod_that_went_meanwhile_is_no_fault(status: int, words: str, problems: int) -> None:
    api = Pods(status, words)
    conditions = PodConditions(Reporter(api, LeaseFor(9999)))
    one_pass(api, conditions, [pod()], {"cpu-0": node()})
    assert len(conditions.problems) == problems


def said(world: World, name: str) -> dict[str, tuple[str, str, str]]:
    """Status, reason and message of a pod's conditions."""
    listed = world.get("pods", name)["status"].get("conditions", [])
    return {each["type"]: (each["status"], each.get("reason", ""), each.get("message", "")) for each in listed}


@pytest.mark.apiserver
def test_kubectl_waits_for_what_slurm_says_of_a_node(running_operator: World) -> None:
    world = running_operator
    world.wait("Available", "True")
    until(lambda: said(world, "cpu-1").get(pod_conditions.TYPE) == ("True", "Idle", ""), "cpu-1 is idle")
    assert said(world, "cpu-1")[pod_conditions.HEALTH] == ("True", "ChecksPassed", "")
    world.slurm.drain("cpu-1", "bad fan", "alice")
    drained = until(lambda: said(world, "cpu-1")[pod_conditions.TYPE][0] == "False" and said(world, "cpu-1"), "drained")
    assert drained[pod_conditions.TYPE][:2] == ("False", "Drained")
    assert drained[pod_conditions.TYPE][2].startswith("bad fan [alice")
    assert drained["Ready"][0] == "True", "kubelet's own conditions stay"
    version = world.get("pods", "cpu-1")["metadata"]["resourceVersion"]
    passes(world, 2)
    assert world.get("pods", "cpu-1")["metadata"]["resourceVersion"] == version, "nothing new, nothing written"
