"""The stand-in provider's waits: the moment at which an object of each kind is ready, and what it says until then."""

from __future__ import annotations

from typing import Any

import pytest

from devcluster.standin.waiting import problems, readiness, wait_for

CR = {
    "metadata": {"generation": 2},
    "status": {
        "observedGeneration": 2,
        "conditions": [
            {"type": "Ready", "status": "True"},
            {"type": "Old", "status": "True", "observedGeneration": 1},
            {"type": "Broken", "status": "False", "reason": "Why", "message": "because"},
        ],
    },
}


@pytest.mark.parametrize(
    ("annotation", "holds"),
    [
        ("condition=Ready", True),
        ("condition=ready=True", True),
        ("condition=Broken=False", True),
        ("condition=Broken", False),
        ("condition=Old", False),
        ("condition=Missing", False),
    ],
)
def test_wait_for_expressions(annotation: str, holds: bool) -> None:
    assert readiness.declared(wait_for.parse(annotation), CR).ready is holds


@pytest.mark.parametrize("annotation", ["Ready", "jsonpath={.status.phase}=Up", '["condition=Ready"]'])
def test_other_wait_for_expressions_are_refused(annotation: str) -> None:
    with pytest.raises(ValueError, match="use the official plugin"):
        wait_for.parse(annotation)


def stateful_set(status: dict[str, Any], generation: int = 1, strategy: str = "RollingUpdate") -> readiness.Seen:
    spec = {"replicas": 2, "updateStrategy": {"type": strategy}}
    return readiness.Seen({"metadata": {"generation": generation}, "spec": spec, "status": status})


FULL = {"observedGeneration": 1, "replicas": 2, "readyReplicas": 2, "currentReplicas": 2}
SAME, MOVING = {"currentRevision": "a", "updateRevision": "a"}, {"currentRevision": "a", "updateRevision": "b"}


@pytest.mark.parametrize(
    ("seen", "ready"),
    [
        (stateful_set({**FULL, **SAME}), True),
        (stateful_set({**FULL, **SAME, "readyReplicas": 1}), False),
        (stateful_set({**FULL, **MOVING}), False),
        (stateful_set({**FULL, **SAME}, generation=2), False),
        (stateful_set({**FULL, **MOVING, "observedGeneration": 2}, generation=2, strategy="OnDelete"), True),
        (stateful_set({}), False),
    ],
)
def test_a_stateful_set_is_ready_when_all_its_pods_of_the_newest_revision_are(
    seen: readiness.Seen, ready: bool
) -> None:
    verdict = readiness.stateful_set(seen)
    assert verdict.ready is ready
    assert ready or verdict.lacking


def service(spec: dict[str, Any], ready: int, pending: int, seconds: float) -> readiness.Verdict:
    subset: dict[str, Any] = {"addresses": [{}] * ready, "notReadyAddresses": [{}] * pending}
    return readiness.service(
        readiness.Seen({"spec": spec}, endpoints={"subsets": [subset]}, endpoints_unchanged_seconds=seconds)
    )


def test_a_service_waits_for_its_pods_to_settle_and_for_its_address() -> None:
    plain = {"selector": {"a": "a"}}
    assert service(plain, 1, 0, 11).ready
    assert not service(plain, 1, 0, 3).ready
    assert not service(plain, 1, 1, 11).ready
    assert service({**plain, "clusterIP": "None"}, 0, 1, 0).ready
    assert service({}, 0, 0, 0).ready
    balanced = service({**plain, "type": "LoadBalancer"}, 1, 0, 11)
    assert not balanced.ready
    assert "not allocated an IP address" in balanced.lacking[0]


def test_a_claim_that_waits_for_its_first_pod_is_ready() -> None:
    pending = {"status": {"phase": "Pending"}}
    assert readiness.claim(readiness.Seen(pending, binding_mode="WaitForFirstConsumer")).ready
    assert not readiness.claim(readiness.Seen(pending, binding_mode="Immediate")).ready
    assert readiness.claim(readiness.Seen({"status": {"phase": "Bound"}})).ready


def test_a_failed_job_is_not_waited_for_any_longer() -> None:
    failed = {"type": "Failed", "status": "True", "reason": "BackoffLimitExceeded", "message": "too often"}
    verdict = readiness.job(readiness.Seen({"status": {"conditions": [failed], "failed": 3}}))
    assert verdict.failed
    assert verdict.lacking == ("[BackoffLimitExceeded] too often",)
    assert "Failed: 3" in verdict.progress


def test_a_crashing_container_is_told_with_its_last_words() -> None:
    crashed = {"exitCode": 3, "message": "no space left on device\n"}
    container = {
        "name": "populate",
        "ready": False,
        "state": {"waiting": {"reason": "CrashLoopBackOff", "message": "back-off 10s"}},
        "lastState": {"terminated": crashed},
    }
    pod = {"metadata": {"name": "a", "namespace": "b"}, "status": {"containerStatuses": [container]}}
    assert problems.pod_problems(pod) == [
        "[Pod b/a]: container 'populate': [CrashLoopBackOff] back-off 10s",
        "[Pod b/a]: container 'populate' ended with exit code 3: no space left on device",
    ]
