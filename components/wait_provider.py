"""A dynamic provider that waits for Kubernetes, and ends with its words about faults that stay.

A Kubernetes provider can wait for a field of an object. After a failed wait it says only that the time is up.
"""

import re
import time
from collections.abc import Callable, Container, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Final

import httpx
import pulumi.dynamic as dynamic

from components.kubernetes import kubeconfig, kubernetes_reader
from components.kubernetes.kubernetes_reader import UnreachableError

Object = Mapping[str, Any]

FAULT_SECONDS: Final = 30.0
"""Time for which an image may be missing, or pods forbidden, before the wait ends. A registry may be down briefly."""
_PAUSE_SECONDS: Final = 1.0
_ASK_SECONDS: Final = 30.0
_FORBIDDEN: Final = re.compile(
    r"exceeded quota|violates PodSecurity|usage per (Container|Pod) is|denied (the )?request"
)
"""The API server's words about pods that a quota, a PodSecurity level, a LimitRange, a webhook or a policy forbids.

Other refusals pass by themselves: a ServiceAccount is not there yet, say, or a webhook does not answer.
"""
_NO_IMAGE: Final = frozenset(
    {"ImagePullBackOff", "ErrImagePull", "InvalidImageName", "ErrImageNeverPull", "ImageInspectError"}
    | {"RegistryUnavailable", "SignatureValidationFailed"}
)
"""The kubelet's reasons of a container whose image is missing (pkg/kubelet/images, and cri-api's errors)."""


class UnavailableError(Exception):
    """The state that was waited for does not come; the text says why."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """Progress of what is waited for.

    Attributes:
        ready: Whether the wait is over.
        lacking: What is missing, in a sentence.
        final: Whether waiting longer is of no use.
        faults: Object → Kubernetes' words about its fault. Somebody has to repair it unless it passes within
            FAULT_SECONDS.
    """

    ready: bool
    lacking: str = ""
    final: bool = False
    faults: Mapping[str, str] = field(default_factory=dict)


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


def containers(pod: Object) -> list[Object]:
    """Return the states of a pod's containers, those that prepare it first."""
    status = pod.get("status") or {}
    return [*(status.get("initContainerStatuses") or []), *(status.get("containerStatuses") or [])]


def missing_images(pods: Iterable[Object]) -> Mapping[str, str]:
    """Return the pods whose image cannot be pulled, in kubelet's words."""
    missing = {}
    for pod in pods:
        metadata = pod["metadata"]
        if "deletionTimestamp" in metadata:
            continue
        for container in containers(pod):
            waiting = (container.get("state") or {}).get("waiting") or {}
            if waiting.get("reason") in _NO_IMAGE:
                words = f"{waiting['reason']}: {waiting.get('message') or container['image']}"
                missing[metadata["name"]] = f"pod {metadata['name']}, container {container['name']}: {words}"
    return missing


def forbidden_pods(sets: Iterable[Object], events: Iterable[Object]) -> Mapping[str, str]:
    """Return the sets that lack pods because something forbids them, in the API server's words."""
    lacking = {
        pod_set["metadata"]["uid"]
        for pod_set in sets
        if (pod_set.get("status") or {}).get("replicas", 0) < (pod_set.get("spec") or {}).get("replicas", 1)
    }
    return lasting_refusals(lacking, events)


def lasting_refusals(lacking: Container[str], events: Iterable[Object]) -> Mapping[str, str]:
    """Return why pods are forbidden until somebody changes something, by the uid of what lacks them.

    Args:
        lacking: uids of objects that lack pods.
        events: Warnings of the namespace.
    """
    newest: dict[str, str] = {}
    for event in sorted(events, key=lambda event: str(event.get("lastTimestamp") or event.get("eventTime") or "")):
        about = event.get("involvedObject") or {}
        if about.get("uid") in lacking and _FORBIDDEN.search(str(event.get("message"))):
            newest[about["uid"]] = f"{about.get('kind')} {about.get('name')}: {event['message']}"
    return newest


def refused_pods(connection: httpx.Client, namespace: str) -> list[Object]:
    """Return warnings about pods that Kubernetes refused to make.

    Raises:
        UnreachableError: It refuses to tell.
    """
    path = f"/api/v1/namespaces/{namespace}/events"
    return kubernetes_reader.items(connection, path, fieldSelector="type=Warning,reason=FailedCreate")


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
        time.sleep(min(_PAUSE_SECONDS, ends - now))  # Between two looks; the verdict draws on several kinds.


class WaitProvider(dynamic.ResourceProvider):
    """Waits when its resource is created, or a compared input changes. The next update repeats a wait that failed.

    Attributes:
        compared: Inputs whose change needs another wait; the state keeps them.
        id_input: Input that is the resource's id.
    """

    serialize_as_secret_always = False
    compared: ClassVar[tuple[str, ...]]
    id_input: ClassVar[str]

    def wait(self, props: Mapping[str, Any]) -> None:
        """Wait for what the inputs declare.

        Raises:
            UnavailableError: It does not come.
        """
        raise NotImplementedError  # Each provider says what it waits for.

    def create(self, props: dict[str, Any]) -> dynamic.CreateResult:
        """Wait; the state begins with the compared inputs."""
        self.wait(props)
        return dynamic.CreateResult(id_=str(props[self.id_input]), outs={key: props[key] for key in self.compared})

    def update(self, _id: str, _olds: dict[str, Any], news: dict[str, Any]) -> dynamic.UpdateResult:
        """Wait again."""
        self.wait(news)
        return dynamic.UpdateResult(outs={key: news[key] for key in self.compared})

    def diff(self, _id: str, olds: dict[str, Any], news: dict[str, Any]) -> dynamic.DiffResult:
        """Find a change of a compared input."""
        return dynamic.DiffResult(changes=any(olds.get(key) != news.get(key) for key in self.compared))
