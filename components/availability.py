"""Waits until jobs can run as declared. If they never will, it ends with Kubernetes' or Slurm's own words.

A Kubernetes provider can wait for a field of an object. After a failed wait it says only that the time is up. This wait
knows which faults stay, also those that the operator cannot tell because it does not start itself.

Pulumi's state names the provider by its module and class. So neither name may change.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import httpx
import pulumi
import pulumi.dynamic as dynamic

from components.kubernetes import kubernetes_reader
from components.wait_provider import (
    Object,
    Verdict,
    WaitProvider,
    forbidden_pods,
    missing_images,
    refused_pods,
    wait_for,
)
from contract import names
from contract.conditions import ConditionType


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


def judge(wanted: Wanted, state: ClusterState) -> Verdict:
    """Return whether jobs can run as declared."""
    faults = {**_images(state.pods), **forbidden_pods(state.sets, state.events)}
    if state.cluster is None:
        return Verdict(False, "there is no SlurmCluster", faults=faults)
    status = state.cluster.get("status") or {}
    if wanted.operator_image and status.get("operatorImage") != wanted.operator_image:
        return Verdict(False, f"no operator of image {wanted.operator_image} has answered", faults=faults)
    if status.get("revision") != wanted.revision:
        return Verdict(False, f"the operator has not seen revision {wanted.revision}", faults=faults)
    generation = state.cluster["metadata"]["generation"]
    conditions = {condition["type"]: condition for condition in status.get("conditions") or []}
    available = conditions.get(ConditionType.AVAILABLE)
    if available is None or available.get("observedGeneration") != generation:
        return Verdict(False, "the operator has not judged the newest SlurmCluster", faults=faults)
    if available["status"] == "True":
        return Verdict(True)
    # Available also tells what may pass, such as a node that is down.
    final = conditions.get(ConditionType.STALLED, {}).get("status") == "True"
    told = conditions[ConditionType.STALLED] if final else available
    return Verdict(False, f"{told['reason']}: {told['message']}", final=final, faults=faults)


def _images(pods: Iterable[Object]) -> Mapping[str, str]:
    """Return the pods whose image cannot be pulled. The jail's have a wait of their own (jail_ready.py)."""
    return missing_images(
        pod for pod in pods if (pod["metadata"].get("labels") or {}).get(names.LABEL_COMPONENT) != "jail"
    )


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


class _AvailabilityProvider(WaitProvider):
    """Waits when the cluster is created, or when an input changes that says which cluster this is."""

    compared = ("revision", "operatorImage")
    id_input = "cluster"

    def wait(self, props: Mapping[str, Any]) -> None:
        wait(props)


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
