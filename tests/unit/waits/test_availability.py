"""An update waits until jobs can run, and ends at faults that last."""

from __future__ import annotations

from typing import Any

import pytest

from components import availability
from components.availability import ClusterState, Wanted, _AvailabilityProvider, judge
from components.wait_provider import FAULT_SECONDS, Patience, Verdict
from contract import names

WANTED = Wanted("r2", "operator:2")


def condition(kind: str, status: str, reason: str, message: str) -> dict[str, Any]:
    return {"type": kind, "status": status, "reason": reason, "message": message, "observedGeneration": 3}


def cluster(
    status: str = "True", reason: str = "Ready", message: str = "", stalled: str = "", **more: Any
) -> dict[str, Any]:
    """A SlurmCluster; `stalled` is the message of a refused configuration."""
    refused = [condition("Stalled", "True", "ConfigurationRefused", stalled)] * bool(stalled)
    conditions = [condition("Available", status, reason, message), *refused]
    said = {"revision": "r2", "operatorImage": "operator:2", "conditions": conditions, **more}
    return {"metadata": {"generation": 3}, "status": said}


def pod(name: str = "login-0", reason: str = "ErrImagePull", component: str = "login", **more: Any) -> dict[str, Any]:
    waiting = {"state": {"waiting": {"reason": reason, "message": "not found"}}, "name": "main", "image": "a:1"}
    metadata = {"name": name, "labels": {names.LABEL_COMPONENT: component}, **more}
    return {"metadata": metadata, "status": {"containerStatuses": [waiting]}}


def seen(live: Any, *pods: Any, sets: Any = (), events: Any = ()) -> ClusterState:
    return ClusterState(live, pods, sets, events)


def test_an_available_cluster_of_this_revision_and_operator_is_ready_whatever_its_pods_say() -> None:
    assert judge(WANTED, seen(cluster(), pod())).ready
    assert judge(Wanted("r2", ""), seen(cluster(operatorImage="theirs"))).ready


@pytest.mark.parametrize(
    ("live", "lacking"),
    [
        (None, "there is no SlurmCluster"),
        ({"metadata": {"generation": 1}}, "no operator of image operator:2 has answered"),
        (cluster(operatorImage="operator:1"), "no operator of image operator:2 has answered"),
        (cluster(revision="r1"), "the operator has not seen revision r2"),
        ({**cluster(), "metadata": {"generation": 4}}, "the operator has not judged the newest SlurmCluster"),
        (cluster("False", "NodesDown", "cpu-0"), "NodesDown: cpu-0"),
    ],
)
def test_what_is_of_before_is_waited_for(live: Any, lacking: str) -> None:
    verdict = judge(WANTED, seen(live))
    assert (verdict.ready, verdict.final, verdict.lacking) == (False, False, lacking)


def test_a_refused_configuration_of_this_revision_ends_the_wait_at_once_whatever_else_is_wrong() -> None:
    refused = judge(WANTED, seen(cluster("False", "NodesDown", "cpu-0", "Unknown key")))
    assert Patience({}).ended_by(refused, 0) == "ConfigurationRefused: Unknown key"
    older = judge(WANTED, seen(cluster("False", "NodesDown", "cpu-0", "Unknown key", revision="r1")))
    assert Patience({}).ended_by(older, 1e6) is None


@pytest.mark.parametrize("tried", ["ErrImagePull", "SignatureValidationFailed"])
def test_an_image_that_cannot_be_pulled_ends_the_wait_when_it_lasts_under_either_of_kubelets_reasons(
    tried: str,
) -> None:
    patience = Patience({})
    first, second = (judge(WANTED, seen(None, pod(reason=each))) for each in (tried, "ImagePullBackOff"))
    assert patience.ended_by(first, 0) is None
    assert patience.ended_by(second, FAULT_SECONDS - 1) is None
    ended = patience.ended_by(second, FAULT_SECONDS)
    assert ended == "pod login-0, container main: ImagePullBackOff: not found"


def test_a_fault_that_passed_begins_anew() -> None:
    patience, fault = Patience({}), Verdict(False, faults={"a": "words"})
    assert patience.ended_by(fault, 0) is None
    assert patience.ended_by(Verdict(False), 1) is None
    assert patience.ended_by(fault, FAULT_SECONDS) is None


def test_pods_that_leave_or_that_pulumi_waits_for_are_no_fault() -> None:
    others = pod(deletionTimestamp="now"), pod(component="jail"), pod(reason="CrashLoopBackOff")
    assert not judge(WANTED, seen(None, *others)).faults


@pytest.mark.parametrize(
    "words",
    [
        "exceeded quota: small, requested: pods=1, used: pods=4, limited: pods=4",
        'violates PodSecurity "restricted:latest": allowPrivilegeEscalation != false',
        "maximum memory usage per Container is 1Gi, but limit is 4Gi",
        "[minimum cpu usage per Pod is 1, but request is 500m, maximum cpu usage per Pod is 2, but limit is 4]",
        'admission webhook "policy.example" denied the request: no host paths',
        "ValidatingAdmissionPolicy 'a' with binding 'b' denied request: no host paths",
    ],
)
def test_what_forbids_pods_is_a_fault_as_long_as_they_are_lacking(words: str) -> None:
    def stateful_set(replicas: int) -> dict[str, Any]:
        return {"metadata": {"uid": "u"}, "spec": {"replicas": 2}, "status": {"replicas": replicas}}

    event = {
        "involvedObject": {"uid": "u", "kind": "StatefulSet", "name": "cpu"},
        "message": f"is forbidden: {words}",
    }
    found = judge(WANTED, seen(None, sets=[stateful_set(1)], events=[event])).faults
    assert found == {"u": f"StatefulSet cpu: is forbidden: {words}"}
    assert not judge(WANTED, seen(None, sets=[stateful_set(2)], events=[event])).faults


@pytest.mark.parametrize(
    "words",
    [
        'object is being deleted: pods "cpu-0" already exists',
        'pods "cpu-0" is forbidden: error looking up service account slurm/default: serviceaccount "default" not found',
        'failed calling webhook "policy.example": connection refused',
    ],
)
def test_a_refusal_that_passes_by_itself_is_no_fault(words: str) -> None:
    lacking = {"metadata": {"uid": "u"}, "spec": {"replicas": 2}}
    event = {"involvedObject": {"uid": "u", "kind": "StatefulSet", "name": "cpu"}, "message": words}
    assert not judge(WANTED, seen(None, sets=[lacking], events=[event])).faults


def test_only_another_revision_or_operator_is_waited_for_again(monkeypatch: pytest.MonkeyPatch) -> None:
    waited: list[Any] = []
    monkeypatch.setattr(availability, "wait", waited.append)
    provider, props = (
        _AvailabilityProvider(),
        {"revision": "r1", "operatorImage": "o", "cluster": "c", "kubeconfig": "k"},
    )
    outs = provider.create(props).outs
    assert outs == {"revision": "r1", "operatorImage": "o"}
    assert waited == [props]
    assert not provider.diff("c", outs, {**props, "kubeconfig": "another", "seconds": 1}).changes
    assert provider.diff("c", outs, {**props, "revision": "r2"}).changes
    assert provider.diff("c", outs, {**props, "operatorImage": "p"}).changes
