"""Waits until a root of the jail is complete. If it never will be, it ends with Kubernetes' or populate's own words.

Pulumi's state names the provider by its module and class. So neither name may change.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import httpx
import pulumi
import pulumi.dynamic as dynamic

from components.kubernetes import kubernetes_reader
from components.wait_provider import (
    Object,
    Verdict,
    WaitProvider,
    containers,
    lasting_refusals,
    missing_images,
    refused_pods,
    wait_for,
)


def judge(name: str, job: Object | None, pods: Iterable[Object], events: Iterable[Object]) -> Verdict:
    """Return whether a root is complete.

    Populate says what its storage or its image lacks. A second attempt that ends with the same words is the last.

    Args:
        name: Of the Job that populates it.
        job: The Job.
        pods: Its attempts.
        events: Warnings of the namespace about pods that Kubernetes refused to make.
    """
    if job is None:
        words = f"there is no Job {name}: pulumi up --refresh makes it anew"
        return Verdict(False, words, faults={name: words})
    status = job.get("status") or {}
    conditions = {item["type"]: item for item in status.get("conditions") or [] if item["status"] == "True"}
    if "Complete" in conditions:
        return Verdict(True)
    attempts = sorted(pods, key=lambda pod: str(pod["metadata"].get("creationTimestamp")))
    told = [words for words in map(_last_words, attempts) if words]
    if failed := conditions.get("Failed"):
        words = str(failed.get("message") or failed.get("reason"))
        return Verdict(False, f"Job {name}: {'; '.join([words, *told[-1:]])}", final=True)
    if told and told[-1] in told[:-1]:
        return Verdict(False, f"Job {name}: {told[-1]}", final=True)
    refused = lasting_refusals(() if status.get("active") else {job["metadata"]["uid"]}, events)
    lacking = f"Job {name} is not complete: {'; '.join([*map(_state, attempts[-1:]), *told[-1:]]) or 'it has no pod'}"
    return Verdict(False, lacking, faults={**missing_images(attempts), **refused})


def _last_words(pod: Object) -> str:
    """Return why an attempt failed; empty if it did not."""
    status = pod.get("status") or {}
    if status.get("phase") != "Failed":
        return ""
    ended = [(container.get("state") or {}).get("terminated") or {} for container in containers(pod)]
    words = [str(end.get("message") or "").strip() for end in ended if end.get("exitCode")]
    return next((text for text in words if text), str(status.get("message") or ""))


def _state(pod: Object) -> str:
    """Return how far an attempt is, with what it waits for."""
    status = pod.get("status") or {}
    conditions = {item["type"]: item for item in status.get("conditions") or []}
    scheduled = conditions.get("PodScheduled") or {}
    waits = [(container.get("state") or {}).get("waiting") or {} for container in containers(pod)]
    words = [scheduled.get("message") if scheduled.get("status") == "False" else None]
    words += [f"{wait.get('reason')} {wait.get('message') or ''}".rstrip() for wait in waits if wait]
    return ": ".join([f"pod {pod['metadata']['name']} is {status.get('phase')}", *filter(None, words)])


def read(connection: httpx.Client, namespace: str, name: str) -> Verdict:
    """Judge the Job that Kubernetes has now.

    Raises:
        UnreachableError: It refuses.
    """
    job = kubernetes_reader.item(connection, f"/apis/batch/v1/namespaces/{namespace}/jobs/{name}")
    path = f"/api/v1/namespaces/{namespace}/pods"
    pods = kubernetes_reader.items(connection, path, labelSelector=f"job-name={name}")
    return judge(name, job, _of(job, pods), refused_pods(connection, namespace))


def _of(job: Object | None, pods: Sequence[Object]) -> list[Object]:
    """Return a Job's own pods: those of one that it replaced go later than that."""
    uid = job["metadata"]["uid"] if job else ""
    owners = [(pod, pod["metadata"].get("ownerReferences") or []) for pod in pods]
    return [pod for pod, references in owners if any(reference["uid"] == uid for reference in references)]


def wait(props: Mapping[str, Any]) -> None:
    """Wait until the root is complete.

    Args:
        props: Inputs of the resource.

    Raises:
        UnavailableError: It is not, and waiting longer would not help, or the time is up.
    """
    namespace, name = props["namespace"], props["job"]
    wait_for(
        lambda connection: read(connection, namespace, name),
        props,
        "timeouts.populate",
        f"kubectl --namespace {namespace} describe pods --selector job-name={name}",
    )


class _JailReadyProvider(WaitProvider):
    """Waits for each new Job."""

    compared = ("job", "uid")
    id_input = "job"

    def wait(self, props: Mapping[str, Any]) -> None:
        wait(props)


class JailReady(dynamic.Resource, module="pulumi-slurm", name="JailReady"):
    """A resource that exists once a root of the jail is complete.

    Args:
        name: Name of the resource in the stack.
        inputs: `job`, its `uid`, `namespace`, `seconds`, `context` and `kubeconfig`.
        opts: Options of the resource.
    """

    def __init__(self, name: str, inputs: Mapping[str, Any], opts: pulumi.ResourceOptions) -> None:
        super().__init__(_JailReadyProvider(), name, dict(inputs), opts)
