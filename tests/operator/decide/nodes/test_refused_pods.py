"""Promises about pods that Kubernetes refuses: the status says why, in the API server's words, and asks little."""

from __future__ import annotations

import dataclasses
import datetime
from collections.abc import AsyncIterator, Iterator

import pytest
from slurm_operator.clients import pod_refusals
from slurm_operator.clients.kubernetes import KubernetesError, Object
from slurm_operator.clients.pod_refusals import PodRefusals
from slurm_operator.decide.nodes import refused_pods
from slurm_operator.parse.refusals import parse_refusal
from slurm_operator.parse.workloads import parse_workload
from slurm_operator.state.kubernetes import Kubernetes, Pod, Unread

from contract import names
from tests.operator.states.seen_clusters import BOTH, CLUSTER, judge, workload, world
from tests.operator.worlds.slow_world import Objects, SlowWorld, VirtualLoop, at_once, passes

QUOTA = 'pods "cpu-1" is forbidden: exceeded quota: small, requested: pods=1, used: pods=1, limited: pods=1'
NOW = datetime.datetime.now(datetime.UTC)


def event(words: str = QUOTA, pod: str = "cpu-1", name: str = "cpu", minutes: float = 0) -> Object:
    """An Event as Kubernetes' StatefulSet controller writes it."""
    said = f"create Pod {pod} in StatefulSet {name} failed error: {words}"
    last = (NOW - datetime.timedelta(minutes=minutes)).strftime("%Y-%m-%dT%H:%M:%SZ")
    about = {"kind": "StatefulSet", "name": name}
    kind = {"type": "Warning", "reason": "FailedCreate", "lastTimestamp": last}
    return {"metadata": {"name": "x"}, "involvedObject": about, "message": said, **kind}


class Events(Objects):
    """An API server that has Events alone, and counts who asks for them."""

    def __init__(self, *events: Object) -> None:
        super().__init__(lambda: 0.0)
        self.events = [*events]
        self.asked: list[dict[str, str]] = []
        self.refusal: KubernetesError | None = None

    async def pages(self, api: str, plural: str, params: dict[str, str]) -> AsyncIterator[tuple[str, Iterator[Object]]]:
        assert (api, plural) == ("v1", "events")
        self.asked.append(params)
        if self.refusal:
            raise self.refusal
        yield "1", iter(self.events)


class Look:
    """Looks at a cluster whose node set lacks cpu-1, at moments that the test names."""

    def __init__(self, *events: Object) -> None:
        self.api, self.moment = Events(*events), 0.0
        self.refusals = PodRefusals(self.api, lambda: self.moment)
        self.seen = lacking("cpu")

    def at(self, moment: float, seen: Kubernetes | None = None) -> Kubernetes:
        self.moment = moment

        async def look(_: VirtualLoop) -> Kubernetes:
            return await self.refusals.look(seen or self.seen)

        return at_once(look)


def lacking(*sets: str, created: int = 1) -> Kubernetes:
    """A cluster of two nodes, whose sets have fewer pods than they want."""
    seen = world()
    less = {name: dataclasses.replace(workload(name, 2), created=created) for name in sets}
    pods = {name: pod for name, pod in seen.pods.items() if name != "cpu-1"}
    return dataclasses.replace(seen, workloads={**seen.workloads, **less}, pods=pods)


def test_nobody_asks_while_each_set_has_its_pods_or_for_the_first_ten_seconds() -> None:
    look = Look(event())
    for moment in range(0, 100, 5):
        assert look.at(moment, world()).workloads == world().workloads
    assert look.at(100).workloads["cpu"].refused == ""
    assert look.at(109).workloads["cpu"].refused == ""
    assert look.api.asked == []


def test_one_question_every_thirty_seconds_tells_why_while_that_lasts() -> None:
    look = Look(event())
    told = [look.at(moment).workloads["cpu"].refused for moment in range(0, 70, 2)]
    assert told == [""] * 5 + [QUOTA] * 30
    assert look.api.asked == [{"fieldSelector": "involvedObject.kind=StatefulSet,reason=FailedCreate,type=Warning"}] * 2
    assert look.at(71, world()).workloads["cpu"].refused == ""
    assert look.at(72).workloads["cpu"].refused == "", "a later want of pods begins anew"


def test_another_set_that_lacks_pods_is_asked_about_at_once_and_progress_begins_the_time_anew() -> None:
    look = Look(event(), event("no login", "slurm-login-0", "slurm-login"))
    look.at(0)
    assert look.at(10).workloads["cpu"].refused == QUOTA
    both = lacking("cpu", "slurm-login")
    assert look.at(12, both).workloads["slurm-login"].refused == ""
    assert look.at(22, both).workloads["slurm-login"].refused == "no login"
    assert len(look.api.asked) == 2
    assert look.at(24, lacking("cpu", created=0)).workloads["cpu"].refused == "", "its pods changed"


def test_a_set_of_others_in_the_namespace_is_not_asked_about() -> None:
    look = Look()
    for moment in (0, 60):
        look.at(moment, lacking("somebody-elses"))
    assert look.api.asked == []


@pytest.mark.parametrize(
    ("events", "words"),
    [
        ([event("first", minutes=5), event("second", minutes=1), event("older", minutes=9)], "second"),
        ([event("over", "cpu-0")], ""),
        ([event("past", minutes=21)], ""),
        ([event("another's", "gpu-1", "gpu")], ""),
        ([{**event(), "message": "other words"}], "other words"),
    ],
)
def test_the_newest_words_about_a_pod_that_is_not_there_count(events: list[Object], words: str) -> None:
    refusals = [parse_refusal(each) for each in events]
    assert refused_pods.told(refusals, {"cpu"}, {"cpu-0"}, NOW).get("cpu", "") == words


def test_a_listing_that_fails_keeps_what_was_known_and_a_lost_right_is_told() -> None:
    look = Look(event())
    look.at(0)
    look.at(10)
    look.api.refusal = KubernetesError(0, "no answer")
    assert look.at(40).workloads["cpu"].refused == QUOTA
    assert len(look.api.asked) == 2
    look.api.refusal = KubernetesError(403, "may not list events")
    assert look.at(70).unread == {Unread.EVENTS: "may not list events"}
    found, _ = judge(look.at(71), BOTH)
    assert "Events can't be read, so that nobody is told why Kubernetes makes no pod" not in found["Available"].message
    look.api.refusal = None
    assert look.at(100).unread == {}


def test_a_listing_that_does_not_end_costs_a_pass_five_seconds() -> None:
    class Silent(Events):
        async def pages(
            self, api: str, plural: str, params: dict[str, str]
        ) -> AsyncIterator[tuple[str, Iterator[Object]]]:
            await self.watch(api, plural, params).__anext__()
            yield "", iter([])

    async def look(loop: VirtualLoop) -> float:
        refusals = PodRefusals(Silent(), loop.time)
        await refusals.look(lacking("cpu"))
        loop.moment = before = pod_refusals.LACKING_SECONDS
        await refusals.look(lacking("cpu"))
        return loop.time() - before

    assert at_once(look) == 5


def refused(seen: Kubernetes, name: str, words: str) -> Kubernetes:
    there = dataclasses.replace(seen.workloads[name], refused=words)
    return dataclasses.replace(seen, workloads={**seen.workloads, name: there})


def test_conditions_say_why_a_node_has_no_pod() -> None:
    found, _ = judge(refused(lacking("cpu"), "cpu", QUOTA), {"cpu-0": BOTH["cpu-0"]})
    words = f"node set cpu: cpu-1 not yet registered and usable (Kubernetes makes no pod: {QUOTA})"
    assert (found["Available"].status, found["Available"].message) == ("False", words)
    assert (found["Degraded"].reason, found["Degraded"].message) == (
        *("PodsRefused", f"StatefulSet cpu: Kubernetes makes no pod: {QUOTA}"),
    )
    assert QUOTA in found["Progressing"].message


def test_conditions_say_why_a_daemon_has_no_pod() -> None:
    login = {"slurm-login": dataclasses.replace(workload("slurm-login", 1, 0), created=0, refused="no login")}
    seen = world(cluster=dataclasses.replace(CLUSTER, accounting="slurm-accounting"))
    database = {names.DATABASE: dataclasses.replace(workload(names.DATABASE, 1, 0), created=0, refused="no database")}
    rest = dataclasses.replace(workload("slurm-rest", 1, 0), refused="no REST")
    seen = dataclasses.replace(seen, workloads={**seen.workloads, **login, **database}, rest=rest)
    found, _ = judge(seen, BOTH)
    words = "StatefulSet slurm-login: 0 of 1 ready in the current generation (Kubernetes makes no pod: no login)"
    assert found["Available"].message == words
    for said in (
        "StatefulSet slurm-login: Kubernetes makes no pod: no login",
        f"StatefulSet {names.DATABASE}: Kubernetes makes no pod: no database",
        "Deployment slurm-rest: Kubernetes makes no pod: no REST",
    ):
        assert said in found["Degraded"].message


@pytest.mark.parametrize("status", ["True", "False"])
def test_a_deployment_says_itself_why_its_pods_are_not_made(status: str) -> None:
    conditions = [
        {"type": "Available", "status": "True"},
        {"type": "ReplicaFailure", "status": status, "message": QUOTA},
    ]
    body = {
        "metadata": {"name": "slurm-rest", "resourceVersion": "1"},
        "spec": {},
        "status": {"conditions": conditions},
    }
    assert parse_workload(body).refused == (QUOTA if status == "True" else "")


def test_a_pods_own_trouble_is_told_beside_a_refusal() -> None:
    seen = refused(lacking("cpu"), "cpu", QUOTA)
    stuck = Pod("cpu-0", "worker", ready=False, running=False, trouble="ImagePullBackOff: no such image")
    found, _ = judge(dataclasses.replace(seen, pods={"cpu-0": stuck}), {})
    assert f"(cpu-0: {stuck.trouble}) (Kubernetes makes no pod: {QUOTA})" in found["Available"].message


def test_the_operators_passes_tell_it_and_ask_no_more_than_twice_a_minute() -> None:
    class Counted(Objects):
        asked = 0

        async def pages(
            self, api: str, plural: str, params: dict[str, str]
        ) -> AsyncIterator[tuple[str, Iterator[Object]]]:
            self.asked += plural == "events"
            async for page in super().pages(api, plural, params):
                yield page

    async def work(loop: VirtualLoop) -> tuple[SlowWorld, int]:
        api = Counted(loop.time)
        slow = SlowWorld(loop, {"cpu": 1}, 0.1, api)
        api.add("events", event())
        slow.scale("cpu", 2)
        await passes(slow, 2)
        return slow, api.asked

    slow, asked = at_once(work)
    assert 2 <= asked <= 5
    conditions = slow.api.there[names.NODE_SETS, "cpu"]["status"]["conditions"]
    by_type = {each["type"]: each for each in conditions}
    assert QUOTA in by_type["Available"]["message"]
    assert by_type["Degraded"]["reason"] == "PodsRefused"
