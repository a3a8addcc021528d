"""`up` goes on when objects are ready, and says why when they are not."""

from __future__ import annotations

import datetime
import signal
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from tests.provider.stacks import Cluster, Stack

pytestmark = pytest.mark.apiserver

# Without a grace period, since no kubelet tells that a pod has ended.
POD = (
    '{"metadata": {"labels": {"a": "a"}}, "spec": {"terminationGracePeriodSeconds": 0, '
    '"containers": [{"name": "main", "image": "none"}]}}'
)
POD_ADDRESS = "10.9.8.7"
GROUP = "waits.example"


class Kubelet:
    """Stands for node, scheduler and volume controller: what comes in one namespace becomes ready at once."""

    def __init__(self, stack: Stack) -> None:
        self._cluster = Cluster(stack.cluster.kubeconfig)
        self._namespace = f"/api/v1/namespaces/{stack.namespace}"
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> None:
        self._thread.start()

    def __exit__(self, *_: object) -> None:
        self._end.set()
        self._thread.join()

    def _run(self) -> None:
        conditions = [{"type": name, "status": "True"} for name in ("PodScheduled", "Initialized", "Ready")]
        running = {"phase": "Running", "conditions": conditions, "podIP": POD_ADDRESS, "podIPs": [{"ip": POD_ADDRESS}]}
        while not self._end.wait(0.2):
            for pod in self._without_phase("pods", "Running"):
                # The API server takes no Endpoints with a pod that is on no node.
                target = {"metadata": {"name": pod}, "target": {"kind": "Node", "name": "node"}}
                self._cluster.call("POST", f"{self._namespace}/pods/{pod}/binding", target)
                self._cluster.status(f"{self._namespace}/pods/{pod}", running)
            for claim in self._without_phase("persistentvolumeclaims", "Bound"):
                self._cluster.status(f"{self._namespace}/persistentvolumeclaims/{claim}", {"phase": "Bound"})

    def _without_phase(self, kind: str, phase: str) -> list[str]:
        items = self._cluster.get(f"{self._namespace}/{kind}").get("items", [])
        return [item["metadata"]["name"] for item in items if item.get("status", {}).get("phase") != phase]


@pytest.fixture(scope="session")
def things(cluster: Cluster) -> Iterator[str]:
    """A kind with a status, as operators have it; the path of its objects in a namespace."""
    anything: dict[str, Any] = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    schema = {"type": "object", "properties": {"spec": anything, "status": anything}}
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    body = {
        "metadata": {"name": f"things.{GROUP}"},
        "spec": {
            "group": GROUP,
            "scope": "Namespaced",
            "names": {"plural": "things", "singular": "thing", "kind": "Thing", "listKind": "ThingList"},
            "versions": [{**version, "subresources": {"status": {}}}],
        },
    }
    cluster.call("POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", body)
    path = f"/apis/{GROUP}/v1/namespaces/{{}}/things"
    cluster.until(lambda: "items" in cluster.get(path.format("default")))
    yield path
    cluster.call("DELETE", f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/things.{GROUP}")


def thing(wait_for: str, revision: int = 1, seconds: int = 60) -> str:
    return f"""
        k.apiextensions.CustomResource("thing", api_version="{GROUP}/v1", kind="Thing", spec={{"revision": {revision}}},
            metadata={{"name": "thing", "namespace": namespace, "annotations": {{"pulumi.com/waitFor": {wait_for!r},
                "pulumi.com/timeoutSeconds": "{seconds}"}}}}, opts=options)
    """


AVAILABLE = "condition=Available"


def condition(status: str, generation: int, message: str = "") -> dict[str, Any]:
    return {"type": "Available", "status": status, "observedGeneration": generation, "message": message}


def test_workloads_services_and_claims_are_waited_for(stack: Stack) -> None:
    stack.program(f"""
        pod, named = {POD}, lambda name: {{"name": name, "namespace": namespace}}
        labels = {{"matchLabels": {{"a": "a"}}}}
        k.apps.v1.StatefulSet("set", metadata=named("set"), opts=options,
            spec={{"replicas": 2, "serviceName": "set", "selector": labels, "template": pod}})
        k.apps.v1.Deployment("deployment", metadata=named("deployment"), opts=options,
            spec={{"selector": {{"matchLabels": {{"b": "b"}}}},
                  "template": {{**pod, "metadata": {{"labels": {{"b": "b"}}}}}}}})
        k.core.v1.PersistentVolumeClaim("claim", metadata=named("claim"), opts=options, spec={{
            "accessModes": ["ReadWriteOnce"], "resources": {{"requests": {{"storage": "1Gi"}}}}}})
        k.core.v1.Service("service", metadata=named("service"), opts=options,
            spec={{"selector": {{"b": "b"}}, "ports": [{{"port": 80}}]}})
        k.core.v1.Service("headless", metadata=named("headless"), opts=options,
            spec={{"selector": {{"none": "none"}}, "ports": [{{"port": 80}}], "clusterIP": "None"}})
    """)
    with Kubelet(stack):
        stack.up()
    path = f"/apis/apps/v1/namespaces/{stack.namespace}"
    assert stack.cluster.get(f"{path}/statefulsets/set")["status"]["readyReplicas"] == 2
    assert stack.cluster.get(f"{path}/deployments/deployment")["status"]["readyReplicas"] == 1
    endpoints = f"/api/v1/namespaces/{stack.namespace}/endpoints/service"
    subset = stack.cluster.until(lambda: stack.cluster.get(endpoints).get("subsets"))[0]
    assert [address["ip"] for address in subset["addresses"]] == [POD_ADDRESS]
    stack.pulumi("preview", "--refresh", "--expect-no-changes")


def test_a_wait_that_fails_tells_why_and_the_next_up_takes_the_object_up_again(stack: Stack) -> None:
    stack.program(f"""
        k.apps.v1.StatefulSet("set", metadata={{"name": "set", "namespace": namespace,
            "annotations": {{"pulumi.com/timeoutSeconds": "6"}}}}, opts=options,
            spec={{"replicas": 1, "serviceName": "set", "selector": {{"matchLabels": {{"a": "a"}}}},
                  "template": {POD}}})
    """)
    running = stack.start("up", "--yes", "--skip-preview")
    path = f"/api/v1/namespaces/{stack.namespace}"
    pod = stack.cluster.until(lambda: stack.cluster.get(f"{path}/pods/set-0").get("metadata"))
    waiting = {"reason": "ImagePullBackOff", "message": "Back-off pulling image none"}
    container = {"name": "main", "image": "none", "imageID": "", "ready": False, "restartCount": 0}
    statuses = {"PodScheduled": "True", "Initialized": "True", "Ready": "False", "ContainersReady": "False"}
    unready = {"reason": "ContainersNotReady", "message": "containers with unready status: [main]"}
    conditions = [
        {"type": kind, "status": status, **(unready if status == "False" else {})} for kind, status in statuses.items()
    ]
    containers = [{**container, "state": {"waiting": waiting}}]
    status = {"phase": "Pending", "conditions": conditions, "containerStatuses": containers}
    stack.cluster.status(f"{path}/pods/set-0", status)
    event = {
        "metadata": {"name": "set-0.1", "namespace": stack.namespace},
        "involvedObject": {"kind": "Pod", "name": "set-0", "namespace": stack.namespace, "uid": pod["uid"]},
        "type": "Warning",
        "reason": "FailedScheduling",
        "message": "0/1 nodes are available",
    }
    assert stack.cluster.call("POST", f"{path}/events", event)["kind"] == "Event"
    output, _ = running.communicate(timeout=60)
    assert running.returncode != 0
    for reason in (
        "'set' timed out waiting to be Ready",
        "0 out of 1 replicas succeeded readiness checks",
        "[ImagePullBackOff] Back-off pulling image none",
    ):
        assert reason in output
    assert "FailedScheduling" not in output, "Events of an object's pods are not shown by the official plugin"
    assert stack.state()["set"]["initErrors"]
    assert stack.steps() == {"set": "update"}
    with Kubelet(stack):
        stack.up()
    assert "initErrors" not in stack.state()["set"]


def test_a_job_that_is_given_up_fails_at_once_with_its_reason(stack: Stack) -> None:
    stack.program(f"""
        pod = {POD}
        k.batch.v1.Job("job", metadata={{"name": "job", "namespace": namespace}}, opts=options, spec={{
            "activeDeadlineSeconds": 1, "template": {{"spec": {{**pod["spec"], "restartPolicy": "Never"}}}}}})
    """)
    output = stack.fails("up", "--yes", "--skip-preview")
    assert "[DeadlineExceeded] Job was active longer than specified deadline" in output


def test_wait_for_takes_no_answer_about_an_older_generation(stack: Stack, things: str) -> None:
    path = things.format(stack.namespace) + "/thing"
    stack.program(thing("", revision=1))
    stack.up()
    stack.cluster.status(path, {"conditions": [condition("True", 1)]})
    stack.program(thing(AVAILABLE, revision=2))
    running = stack.start("up", "--yes", "--skip-preview")
    stack.cluster.until(lambda: stack.cluster.get(path)["spec"]["revision"] == 2)
    assert running.stdout is not None
    seen = ""
    while not any(words in seen for words in ("Waiting for ", "Generation 1 is less than expected 2")):
        line = running.stdout.readline()
        assert line, f"up ended on the old condition:\n{seen}"
        seen += line
    stack.cluster.status(path, {"conditions": [condition("True", 2)]})
    output, _ = running.communicate(timeout=60)
    assert running.returncode == 0, seen + output


def test_a_failed_wait_for_says_that_the_time_is_up_and_shows_warnings(stack: Stack, things: str) -> None:
    stack.program(thing(AVAILABLE, seconds=4))
    running = stack.start("up", "--yes", "--skip-preview")
    path = things.format(stack.namespace) + "/thing"
    stack.cluster.until(lambda: stack.cluster.get(path).get("spec"))
    stack.cluster.status(path, {"conditions": [condition("False", 1, "no node has 8 GPUs")]})
    live = stack.cluster.get(path)["metadata"]
    about = {"apiVersion": f"{GROUP}/v1", "kind": "Thing", **{key: live[key] for key in ("name", "namespace", "uid")}}
    warning = {"type": "Warning", "reason": "NodesMissing", "message": "a Warning of the operator"}
    event = {"metadata": {"name": "thing.1"}, "involvedObject": about, **warning}
    assert stack.cluster.call("POST", f"/api/v1/namespaces/{stack.namespace}/events", event)["kind"] == "Event"
    output, _ = running.communicate(timeout=60)
    assert running.returncode != 0
    assert "failed to fully initialize or become live: timed out waiting for the condition" in output
    assert "a Warning of the operator" in output
    assert "no node has 8 GPUs" not in output


@pytest.mark.standin_only("the official plugin has jsonpath= too")
def test_a_wait_for_something_else_than_a_condition_is_refused(stack: Stack, things: str) -> None:
    stack.program(thing("jsonpath={.status.revision}=2"))
    assert "pulumi.com/waitFor: the stand-in provider has one" in stack.fails("up", "--yes", "--skip-preview")


@pytest.mark.usefixtures("own_processes")
def test_ctrl_c_ends_a_wait(stack: Stack, things: str) -> None:
    stack.program(thing(AVAILABLE))
    running = stack.start("up", "--yes", "--skip-preview")
    path = things.format(stack.namespace) + "/thing"
    stack.cluster.until(lambda: stack.cluster.get(path).get("spec"))
    running.send_signal(signal.SIGINT)
    output, _ = running.communicate(timeout=60)
    assert running.returncode != 0
    assert "context canceled" in output
    assert "thing" in stack.state()


def test_a_quota_that_refuses_pods_ends_up_within_a_minute_in_the_api_servers_words(stack: Stack) -> None:
    quotas = f"/api/v1/namespaces/{stack.namespace}/resourcequotas"
    stack.cluster.call("POST", quotas, {"metadata": {"name": "small"}, "spec": {"hard": {"pods": "0"}}})
    stack.cluster.until(lambda: stack.cluster.get(f"{quotas}/small")["status"].get("used"))
    stack.program(f"""
        from components.availability import Availability
        from contract import names
        labels = {{names.LABEL_NAME: names.APPLICATION, names.LABEL_INSTANCE: "test"}}
        named = {{"name": "cpu", "namespace": namespace, "labels": labels}}
        workers = k.apps.v1.StatefulSet("cpu", metadata={{**named, "annotations": {{"pulumi.com/skipAwait": "true"}}}},
            opts=options, spec={{"serviceName": "cpu", "selector": {{"matchLabels": {{"a": "a"}}}}, "template": {POD}}})
        access = {{"kubeconfig": {str(stack.cluster.kubeconfig)!r}, "context": None}}
        inputs = {{**access, "namespace": namespace, "cluster": "test", "operatorImage": "", "seconds": 1800}}
        after = pulumi.ResourceOptions(depends_on=[workers])
        Availability("availability", pulumi.Output.from_input("r1"), inputs, after)
    """)
    output = " ".join(stack.fails("up", "--yes", "--skip-preview").split())
    ended = datetime.datetime.now(datetime.UTC)
    assert "StatefulSet cpu: " in output
    assert "is forbidden: exceeded quota: small, requested: pods=1" in output
    workers = stack.cluster.get(f"/apis/apps/v1/namespaces/{stack.namespace}/statefulsets/cpu")["metadata"]
    begun = datetime.datetime.fromisoformat(workers["creationTimestamp"])
    assert (ended - begun).total_seconds() < 60, "half of it is FAULT_SECONDS of components/wait_provider.py"


def test_a_deletion_that_hangs_names_the_finalizers(stack: Stack) -> None:
    stack.program("""
        timeouts = pulumi.CustomTimeouts(delete="3s")
        k.core.v1.ConfigMap("a", metadata={"name": "a", "namespace": namespace, "finalizers": ["example.com/hold"]},
            opts=pulumi.ResourceOptions(provider=provider, custom_timeouts=timeouts))
    """)
    stack.up()
    output = stack.fails("destroy", "--yes", "--skip-preview")
    assert "finalizers might be preventing deletion (example.com/hold" in output
    path = f"/api/v1/namespaces/{stack.namespace}/configmaps/a"
    stack.cluster.call("PATCH", path, {"metadata": {"finalizers": None}}, "application/merge-patch+json")
    stack.pulumi("destroy", "--yes", "--skip-preview")


def test_pods_stay_when_their_set_is_deleted_as_an_orphan_maker(stack: Stack) -> None:
    stack.program(f"""
        annotations = {{"pulumi.com/skipAwait": "true", "pulumi.com/deletionPropagationPolicy": "orphan"}}
        k.apps.v1.StatefulSet("set", metadata={{"name": "set", "namespace": namespace, "annotations": annotations}},
            opts=options, spec={{"serviceName": "set", "selector": {{"matchLabels": {{"a": "a"}}}}, "template": {POD}}})
    """)
    stack.up()
    path = f"/api/v1/namespaces/{stack.namespace}/pods/set-0"
    stack.cluster.until(lambda: stack.cluster.get(path).get("spec"))
    stack.pulumi("destroy", "--yes", "--skip-preview")
    sets = f"/apis/apps/v1/namespaces/{stack.namespace}/statefulsets/set"
    stack.cluster.until(lambda: stack.cluster.get(sets).get("code") == 404)
    assert stack.cluster.get(path)["kind"] == "Pod"
