"""An update waits for the jail's roots, and ends with Kubernetes' or populate's words about a root that never comes."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest

from components import jail_ready
from components.config import parse
from components.jail import jail_population
from components.jail_ready import _JailReadyProvider, judge
from components.wait_provider import FAULT_SECONDS, Patience, UnavailableError, Verdict
from contract import names
from tests.unit.samples import changed, run_program
from tests.unit.waits import kubernetes_answers

NAME = "slurm-jail-0123"
NO_SHELL = "image jail:1 has no /bin/sh"
BEGUN = {"active": 1}


def job(*conditions: str, **status: Any) -> dict[str, Any]:
    said = [{"type": kind, "status": "True", "reason": "BackoffLimitExceeded"} for kind in conditions]
    return {"metadata": {"uid": "u"}, "status": {"conditions": said, **status}}


def attempt(number: int, *, phase: str = "Pending", **status: Any) -> dict[str, Any]:
    metadata = {
        "name": f"{NAME}-{number}",
        "labels": {names.LABEL_COMPONENT: "jail"},
        "creationTimestamp": f"2026-01-01T00:00:0{number}Z",
        "ownerReferences": [{"uid": "u"}],
    }
    return {"metadata": metadata, "status": {"phase": phase, **status}}


def failed(number: int, words: str = NO_SHELL) -> dict[str, Any]:
    ended = {"name": "populate", "state": {"terminated": {"exitCode": 1, "message": f"{words}\n"}}}
    return attempt(number, phase="Failed", containerStatuses=[ended])


def unpulled(number: int = 1) -> dict[str, Any]:
    waiting = {"reason": "ErrImagePull", "message": "jail:2 not found"}
    return attempt(number, initContainerStatuses=[{"name": "image", "image": "jail:2", "state": {"waiting": waiting}}])


def said(live: Any, *pods: Any, events: Iterable[Any] = ()) -> Verdict:
    return judge(NAME, live, pods, events)


def test_a_root_is_ready_when_its_job_is_complete_however_often_it_was_tried() -> None:
    assert said(job("SuccessCriteriaMet", "Complete"), failed(1)).ready
    assert not said(job("SuccessCriteriaMet"), attempt(1, phase="Running")).ready
    assert not said({"metadata": {"uid": "u"}}).ready


def test_a_failed_job_ends_the_wait_at_once_with_populates_last_words() -> None:
    verdict = said(job("FailureTarget", "Failed"), failed(2), failed(1, "no space"))
    assert Patience({}).ended_by(verdict, 0) == f"Job {NAME}: BackoffLimitExceeded; {NO_SHELL}"
    assert said(job("Failed")).lacking == f"Job {NAME}: BackoffLimitExceeded"


def test_a_second_attempt_that_ends_with_the_same_words_is_the_last() -> None:
    assert Patience({}).ended_by(said(job(), failed(1), failed(2)), 0) == f"Job {NAME}: {NO_SHELL}"
    for others in ([failed(1)], [failed(1, "no space"), failed(2)], [failed(1, ""), failed(2, "")]):
        assert not said(job(), *others).final


def test_an_image_that_cannot_be_pulled_ends_the_wait_when_it_lasts() -> None:
    patience, verdict = Patience({}), said(job(**BEGUN), unpulled())
    assert patience.ended_by(verdict, 0) is None
    assert patience.ended_by(verdict, FAULT_SECONDS) == f"pod {NAME}-1, container image: ErrImagePull: jail:2 not found"


def test_a_quota_that_forbids_the_pod_is_a_fault_as_long_as_there_is_none() -> None:
    event = {"involvedObject": {"uid": "u", "kind": "Job", "name": NAME}, "message": "exceeded quota: small"}
    other = {**event, "involvedObject": {"uid": "v"}}
    assert said(job(), events=[event, other]).faults == {"u": f"Job {NAME}: exceeded quota: small"}
    assert not said(job(**BEGUN), attempt(1), events=[event]).faults


def test_a_job_that_somebody_deleted_is_told_with_the_way_out() -> None:
    verdict = said(None)
    assert not verdict.final
    assert verdict.faults == {NAME: f"there is no Job {NAME}: pulumi up --refresh makes it anew"}


@pytest.mark.parametrize(
    ("pods", "words"),
    [
        ([], "it has no pod"),
        ([attempt(1, phase="Running")], f"pod {NAME}-1 is Running"),
        ([unpulled()], f"pod {NAME}-1 is Pending: ErrImagePull jail:2 not found"),
        (
            [attempt(1, conditions=[{"type": "PodScheduled", "status": "False", "message": "no machine has 1 CPU"}])],
            f"pod {NAME}-1 is Pending: no machine has 1 CPU",
        ),
        ([attempt(2), failed(1)], f"pod {NAME}-2 is Pending; {NO_SHELL}"),
    ],
)
def test_what_is_waited_for_is_said_of_the_newest_attempt(pods: list[Any], words: str) -> None:
    assert said(job(**BEGUN), *pods).lacking == f"Job {NAME} is not complete: {words}"


def test_the_wait_reads_the_jobs_own_pods_and_fails_by_its_timeout(monkeypatch: pytest.MonkeyPatch) -> None:
    replaced = failed(1)
    replaced["metadata"]["ownerReferences"] = [{"uid": "before"}]
    listed: dict[str, Any] = {
        f"/apis/batch/v1/namespaces/slurm/jobs/{NAME}": job(**BEGUN),
        "/api/v1/namespaces/slurm/pods": {"items": [attempt(2, phase="Running"), replaced]},
        "/api/v1/namespaces/slurm/events": {"items": []},
    }
    kubernetes_answers.give(monkeypatch, listed)
    props = {"job": NAME, "uid": "u", "namespace": "slurm", "seconds": 0}
    with pytest.raises(UnavailableError) as ended:
        jail_ready.wait(props)
    over = f"timeouts.populate is over: Job {NAME} is not complete: pod {NAME}-2 is Running. More: "
    assert str(ended.value) == f"{over}kubectl --namespace slurm describe pods --selector job-name={NAME}"
    listed[f"/apis/batch/v1/namespaces/slurm/jobs/{NAME}"] = job("Complete")
    jail_ready.wait(props)


def test_only_another_job_is_waited_for_again(monkeypatch: pytest.MonkeyPatch) -> None:
    waited: list[Any] = []
    monkeypatch.setattr(jail_ready, "wait", waited.append)
    provider, props = _JailReadyProvider(), {"job": NAME, "uid": "u", "kubeconfig": "k", "seconds": 60}
    outs = provider.create(props).outs
    assert (outs, waited) == ({"job": NAME, "uid": "u"}, [props])
    assert not provider.diff(NAME, outs, {**props, "kubeconfig": "another", "seconds": 1}).changes
    assert provider.diff(NAME, outs, {**props, "uid": "v"}).changes, "the Job was replaced"


def test_what_uses_a_root_comes_after_the_wait_for_it_and_the_wait_after_its_job() -> None:
    own = "registry.example/own@sha256:" + "cd" * 32
    raw = changed("timeouts.populate", "2h", changed("nodeSets.0.jailImage", own))
    engine, _ = run_program(raw)
    config = parse(raw)
    jobs = [each.inputs["metadata"]["name"] for each in engine.kubernetes() if each.inputs["kind"] == "Job"]
    assert sorted(jobs) == sorted(manifest.name for manifest in jail_population.manifests(config))
    assert len(jobs) == 2
    for name in jobs:
        waits = engine.one("JailReady", f"{name}-ready")
        assert engine.one("Job", name).urn in waits.dependencies
        assert (waits.inputs["job"], waits.inputs["seconds"]) == (name, 7200)
        for user in ("cpu", names.LOGIN):
            assert waits.urn in engine.one("StatefulSet", user).dependencies
        assert waits.urn not in engine.one("StatefulSet", names.CONTROLLER).dependencies
