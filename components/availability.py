"""Waits until jobs can run as declared. If they never will, it ends with Kubernetes' or Slurm's own words.

A Kubernetes provider can wait for a field of an object. After a failed wait it says only that the time is up. This wait
knows which faults stay, also those that the operator cannot tell because it does not start itself.

Pulumi's state names the provider by its module and class. So neither name may change.
"""

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import httpx
import pulumi
import pulumi.dynamic as dynamic

from components.kubernetes import kubeconfig, kubernetes_reader
from components.kubernetes.kubernetes_reader import UnreachableError
from contract import names, reasons

Object = Mapping[str, Any]

FAULT_SECONDS: Final = 30.0
"""Time for which an image may be missing, or a quota full, before the wait ends. A registry may be down briefly."""
_PAUSE_SECONDS: Final = 1.0
_ASK_SECONDS: Final = 30.0
_NO_IMAGE: Final = frozenset({"ImagePullBackOff", "ErrImagePull", "InvalidImageName", "ErrImageNeverPull"})
_COMPARED: Final = ("revision", "operatorImage")
"""Inputs that say which cluster this is. A change of one means a new cluster to wait for."""


class UnavailableError(Exception):
    """Jobs cannot run as declared; the text says why."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """The state to wait for.

    Attributes:
        revision: Of the declared objects.
        operator_image: Image that the operator is to run; empty where this program does not declare it.
    """

    revision: str
    operator_image: str


@dataclass(frozen=True, slots=True)
class ClusterState:
    """The objects at one moment.

    Attributes:
        cluster: The SlurmCluster, None if it is not there.
        pods: Pods of the cluster.
        sets: Its StatefulSets, and the ReplicaSets of its Deployments.
        events: Warnings of the namespace.
    """

    cluster: Object | None
    pods: Iterable[Object]
    sets: Iterable[Object]
    events: Iterable[Object]


@dataclass(frozen=True, slots=True)
class Verdict:
    """Progress of the cluster.

    Attributes:
        ready: Whether jobs can run.
        lacking: What is missing, in a sentence.
        final: Whether waiting longer is of no use.
        faults: Object → Kubernetes' words about its fault. Somebody has to repair it unless it passes within
            FAULT_SECONDS.
    """

    ready: bool
    lacking: str = ""
    final: bool = False
    faults: Mapping[str, str] = field(default_factory=dict)


def judge(wanted: Wanted, state: ClusterState) -> Verdict:
    """Return whether jobs can run as declared."""
    faults = {**_images(state.pods), **full_quotas(state.sets, state.events)}
    if state.cluster is None:
        return Verdict(False, "there is no SlurmCluster", faults=faults)
    status = state.cluster.get("status") or {}
    if wanted.operator_image and status.get("operatorImage") != wanted.operator_image:
        return Verdict(False, f"no operator of image {wanted.operator_image} has answered", faults=faults)
    if status.get("revision") != wanted.revision:
        return Verdict(False, f"the operator has not seen revision {wanted.revision}", faults=faults)
    generation = state.cluster["metadata"]["generation"]
    available = next(
        (condition for condition in status.get("conditions") or [] if condition["type"] == "Available"), None
    )
    if available is None or available.get("observedGeneration") != generation:
        return Verdict(False, "the operator has not judged the newest SlurmCluster", faults=faults)
    if available["status"] == "True":
        return Verdict(True)
    words = f"{available['reason']}: {available['message']}"
    return Verdict(False, words, final=available["reason"] == reasons.CONFIGURATION_REFUSED, faults=faults)


def _images(pods: Iterable[Object]) -> Mapping[str, str]:
    """Return the pods whose image cannot be pulled, in kubelet's words. Pulumi waits for the jail's Job by itself."""
    missing = {}
    for pod in pods:
        metadata, status = pod["metadata"], pod.get("status") or {}
        if "deletionTimestamp" in metadata or (metadata.get("labels") or {}).get(names.LABEL_COMPONENT) == "jail":
            continue
        for container in [*(status.get("initContainerStatuses") or []), *(status.get("containerStatuses") or [])]:
            waiting = (container.get("state") or {}).get("waiting") or {}
            if waiting.get("reason") in _NO_IMAGE:
                words = f"{waiting['reason']}: {waiting.get('message') or container['image']}"
                missing[metadata["name"]] = f"pod {metadata['name']}, container {container['name']}: {words}"
    return missing


def full_quotas(sets: Iterable[Object], events: Iterable[Object]) -> Mapping[str, str]:
    """Return the sets that lack pods because a quota forbids them, in the API server's words."""
    lacking = {
        pod_set["metadata"]["uid"]
        for pod_set in sets
        if (pod_set.get("status") or {}).get("replicas", 0) < (pod_set.get("spec") or {}).get("replicas", 1)
    }
    newest: dict[str, str] = {}
    for event in sorted(events, key=lambda event: str(event.get("lastTimestamp") or event.get("eventTime") or "")):
        about = event.get("involvedObject") or {}
        if about.get("uid") in lacking and "exceeded quota" in str(event.get("message")):
            newest[about["uid"]] = f"{about.get('kind')} {about.get('name')}: {event['message']}"
    return newest


@dataclass(slots=True)
class Patience:
    """Gives faults time to pass. `since` maps each object to the moment when its present fault began."""

    since: dict[str, float]

    def ended_by(self, verdict: Verdict, now: float) -> str | None:
        """Return why waiting is of no use; None while it may still help."""
        if verdict.final:
            return verdict.lacking
        self.since = {about: self.since.get(about, now) for about in verdict.faults}
        lasting = [verdict.faults[about] for about, first in self.since.items() if now - first >= FAULT_SECONDS]
        return "; ".join(lasting) or None


def read(connection: httpx.Client, namespace: str, cluster: str) -> ClusterState:
    """Reads the cluster's objects from Kubernetes.

    Raises:
        UnreachableError: The API server refuses.
    """
    labels = f"{names.LABEL_NAME}={names.APPLICATION},{names.LABEL_INSTANCE}={cluster}"
    core, apps = f"/api/v1/namespaces/{namespace}", f"/apis/apps/v1/namespaces/{namespace}"
    return ClusterState(
        kubernetes_reader.item(
            connection, f"/apis/{names.API_VERSION}/namespaces/{namespace}/{names.SLURM_CLUSTERS}/{cluster}"
        ),
        kubernetes_reader.items(connection, f"{core}/pods", labelSelector=labels),
        [
            *kubernetes_reader.items(connection, f"{apps}/statefulsets", labelSelector=labels),
            *kubernetes_reader.items(connection, f"{apps}/replicasets", labelSelector=labels),
        ],
        refused_pods(connection, namespace),
    )


def refused_pods(connection: httpx.Client, namespace: str) -> list[Object]:
    """Return warnings about pods that Kubernetes refused to make.

    Raises:
        UnreachableError: It refuses to tell.
    """
    path = f"/api/v1/namespaces/{namespace}/events"
    return kubernetes_reader.items(connection, path, fieldSelector="type=Warning,reason=FailedCreate")


def wait(props: Mapping[str, Any]) -> None:
    """Wait until jobs can run.

    Args:
        props: Inputs of the resource.

    Raises:
        UnavailableError: Jobs cannot run, and the time is up or waiting longer would not help.
    """
    wanted, namespace, name = Wanted(props["revision"], props["operatorImage"]), props["namespace"], props["cluster"]
    wait_for(
        lambda connection: judge(wanted, read(connection, namespace, name)),
        props,
        "timeouts.available",
        f"kubectl --namespace {namespace} describe slurmcluster {name}",
    )


def wait_for(look: Callable[[httpx.Client], Verdict], props: Mapping[str, Any], timeout: str, command: str) -> None:
    """Wait until a look at Kubernetes finds everything ready.

    Args:
        look: Asks and judges.
        props: Inputs of the resource, among them `seconds`, `kubeconfig` and `context`.
        timeout: Key of the configuration that says how long it may take.
        command: What shows more.

    Raises:
        UnavailableError: Waiting longer would not help, or the time is up.
    """
    patience, ends = Patience({}), time.monotonic() + float(props["seconds"])

    def ask() -> Verdict:
        # Anew each time: a credential plugin's token may end before the wait does.
        access = kubeconfig.read(props.get("kubeconfig"), props.get("context"))
        with kubernetes_reader.client(access) as connection:
            return look(connection)

    while True:
        try:
            verdict = kubernetes_reader.within(_ASK_SECONDS, ask)
        except UnreachableError as failure:
            verdict = Verdict(False, str(failure))
        now = time.monotonic()
        if verdict.ready:
            return
        if reason := patience.ended_by(verdict, now):
            raise UnavailableError(f"{reason}. More: {command}")
        if now >= ends:
            raise UnavailableError(f"{timeout} is over: {verdict.lacking}. More: {command}")
        time.sleep(min(_PAUSE_SECONDS, ends - now))


class _AvailabilityProvider(dynamic.ResourceProvider):
    """Waits when the cluster is created or changes. The next update repeats a wait that failed."""

    serialize_as_secret_always = False

    def create(self, props: dict[str, Any]) -> dynamic.CreateResult:
        wait(props)
        return dynamic.CreateResult(id_=str(props["cluster"]), outs={key: props[key] for key in _COMPARED})

    def update(self, _id: str, _olds: dict[str, Any], news: dict[str, Any]) -> dynamic.UpdateResult:
        wait(news)
        return dynamic.UpdateResult(outs={key: news[key] for key in _COMPARED})

    def diff(self, _id: str, olds: dict[str, Any], news: dict[str, Any]) -> dynamic.DiffResult:
        return dynamic.DiffResult(changes=any(olds.get(key) != news.get(key) for key in _COMPARED))


class Availability(dynamic.Resource, module="pulumi-slurm", name="Availability"):
    """A resource that exists once jobs can run as declared.

    Args:
        name: Name of the resource in the stack.
        revision: Of the declared objects.
        inputs: `operatorImage`, `namespace`, `cluster`, `seconds`, `context` and `kubeconfig`.
        opts: Options of the resource.
    """

    def __init__(
        self, name: str, revision: pulumi.Output[str], inputs: Mapping[str, Any], opts: pulumi.ResourceOptions
    ) -> None:
        super().__init__(_AvailabilityProvider(), name, {"revision": revision, **inputs}, opts)
