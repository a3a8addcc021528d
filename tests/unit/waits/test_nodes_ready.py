"""`waitForNodes` waits until nodes take jobs, and fails with the operator's or Kubernetes' words."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest

from components import nodes_ready
from components.nodes_ready import _NodesReadyProvider, judge
from components.wait_provider import UnavailableError, Verdict
from tests.unit.waits import kubernetes_answers

STARTING = "node set cpu: cpu-2, cpu-3 not yet registered and usable (cpu-2: Unschedulable: no machine has 8 CPUs)"


def condition(kind: str, status: str, message: str) -> dict[str, str]:
    return {"type": kind, "status": status, "message": message}


def node_set(ready: int | None, wanted: int = 4, *, observed: int = 7, **more: Any) -> dict[str, Any]:
    status = {"observedGeneration": observed, **({} if ready is None else {"readyReplicas": ready}), **more}
    return {"metadata": {"name": "cpu", "generation": 7}, "spec": {"replicas": wanted}, "status": status}


def said(live: Any, sets: Any = None, events: Iterable[Any] = ()) -> Verdict:
    return judge(live, sets, events)


def test_nodes_are_ready_when_as_many_as_are_wanted_take_jobs() -> None:
    assert said(node_set(4)).ready
    assert said(node_set(0, 0)).ready
    assert not said(node_set(3)).ready


def test_nodes_that_people_drained_are_not_waited_for_and_others_that_are_drained_are() -> None:
    assert said(node_set(3, drained=1, drainedByPeople=1)).ready
    assert not said(node_set(3, drained=1, drainedByPeople=0)).ready
    assert not said(node_set(3, drained=1)).ready, "an operator of before does not say who"


def test_a_status_of_before_counts_for_nothing() -> None:
    verdict = said(node_set(4, observed=6))
    assert (verdict.ready, verdict.lacking) == (False, "the operator has not judged the newest NodeSet cpu")
    assert said({"metadata": {"name": "cpu", "generation": 1}}).lacking == verdict.lacking
    assert said(None).lacking == "there is no NodeSet"


def test_what_is_missing_is_said_in_the_operators_words_each_once() -> None:
    told = [
        condition("Available", "False", STARTING),
        condition("Degraded", "True", "drained: cpu-1 (pulumi-slurm:health gpus: 3 of 4 GPUs answer)"),
        condition("Progressing", "True", STARTING),
        condition("DrainedByPeople", "True", "drained by alice: cpu-0 (bad fan)"),
    ]
    words = f"1 of 4 nodes of cpu take jobs: {STARTING}; drained: cpu-1 (pulumi-slurm:health gpus: 3 of 4 GPUs answer)"
    assert said(node_set(1, conditions=told)).lacking == words


def test_while_slurm_cannot_be_seen_that_is_what_is_told() -> None:
    told = [condition("Available", "Unknown", "no answer in time"), condition("Degraded", "False", "nothing is wrong")]
    words = "an unknown number of 4 nodes of cpu take jobs: no answer in time"
    assert said(node_set(None, conditions=told)).lacking == words


def test_a_quota_that_forbids_the_pods_is_a_fault() -> None:
    event = {"involvedObject": {"uid": "u", "kind": "StatefulSet", "name": "cpu"}, "message": "exceeded quota: small"}
    lacking = {"metadata": {"uid": "u"}, "spec": {"replicas": 4}, "status": {"replicas": 2}}
    assert said(node_set(2), lacking, [event]).faults == {"u": "StatefulSet cpu: exceeded quota: small"}


def test_the_wait_reads_the_node_set_and_fails_by_its_timeout_with_what_was_said(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    listed = {
        "/apis/pulumi-slurm.dev/v1alpha1/namespaces/slurm/nodesets/cpu": node_set(
            2, conditions=[condition("Available", "False", STARTING)]
        ),
        "/apis/apps/v1/namespaces/slurm/statefulsets/cpu": {"metadata": {"uid": "u"}},
        "/api/v1/namespaces/slurm/events": {"items": []},
    }
    kubernetes_answers.give(monkeypatch, listed)
    props = {"nodeSet": "cpu", "namespace": "slurm", "seconds": 0, "replicas": 4}
    with pytest.raises(UnavailableError) as failed:
        nodes_ready.wait(props)
    words = (
        f"timeouts.nodes is over: 2 of 4 nodes of cpu take jobs: {STARTING}. More: kubectl --namespace slurm describe"
    )
    assert str(failed.value) == f"{words} nodeset cpu"
    listed["/apis/pulumi-slurm.dev/v1alpha1/namespaces/slurm/nodesets/cpu"] = node_set(4)
    nodes_ready.wait(props)


def test_only_another_number_of_nodes_is_waited_for_again(monkeypatch: pytest.MonkeyPatch) -> None:
    waited: list[Any] = []
    monkeypatch.setattr(nodes_ready, "wait", waited.append)
    provider = _NodesReadyProvider()
    props = {"nodeSet": "cpu", "replicas": 4, "kubeconfig": "k", "seconds": 60}
    outs = provider.create(props).outs
    assert (outs, waited) == ({"replicas": 4}, [props])
    assert not provider.diff("cpu", outs, {**props, "kubeconfig": "another", "seconds": 1}).changes
    assert provider.diff("cpu", outs, {**props, "replicas": 5}).changes
