"""Waits until the nodes of a set take jobs, and ends with the operator's words when they do not.

Only a set with `waitForNodes` is waited for, and only when its number changes: an update of its nodes may take as long
as jobs run.

Pulumi's state names the provider by its module and class. So neither name may change.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Final

import httpx
import pulumi
import pulumi.dynamic as dynamic

from components.kubernetes import kubernetes_reader
from components.wait_provider import Object, Verdict, WaitProvider, forbidden_pods, refused_pods, wait_for
from contract import names
from contract.conditions import ConditionType

_TOLD: Final = {
    ConditionType.AVAILABLE: "False Unknown",
    ConditionType.DEGRADED: "True",
    ConditionType.PROGRESSING: "True",
}
"""Conditions of a NodeSet that may say why nodes are missing, each with the status in which it does."""


def judge(node_set: Object | None, stateful_set: Object | None, events: Iterable[Object]) -> Verdict:
    """Return whether the wanted nodes take jobs, except those that people took out of service.

    Args:
        node_set: The NodeSet.
        stateful_set: Its StatefulSet.
        events: Warnings of the namespace about pods that Kubernetes refused to make.
    """
    faults = forbidden_pods([stateful_set] if stateful_set else [], events)
    if node_set is None:
        return Verdict(False, "there is no NodeSet", faults=faults)
    metadata, status = node_set["metadata"], node_set.get("status") or {}
    if status.get("observedGeneration") != metadata["generation"]:
        return Verdict(False, f"the operator has not judged the newest NodeSet {metadata['name']}", faults=faults)
    # Without them the operator does not see Slurm.
    ready, wanted = status.get("readyReplicas"), (node_set.get("spec") or {}).get("replicas", 0)
    if ready is not None and ready + status.get("drainedByPeople", 0) >= wanted:
        return Verdict(True)
    counted = f"{'an unknown number' if ready is None else ready} of {wanted} nodes of {metadata['name']} take jobs"
    return Verdict(False, f"{counted}: {_words(status)}", faults=faults)


def _words(status: Object) -> str:
    """Return the operator's own messages about missing nodes."""
    conditions = {condition["type"]: condition for condition in status.get("conditions") or []}
    telling = (
        conditions[kind]
        for kind, when in _TOLD.items()
        if kind in conditions and conditions[kind]["status"] in when.split()
    )
    return "; ".join(dict.fromkeys(condition["message"] for condition in telling)) or "nothing is told yet"


def read(connection: httpx.Client, namespace: str, node_set: str) -> Verdict:
    """Judge the NodeSet that Kubernetes has now.

    Raises:
        UnreachableError: It refuses.
    """
    custom = f"/apis/{names.API_VERSION}/namespaces/{namespace}/{names.NODE_SETS}/{node_set}"
    return judge(
        kubernetes_reader.item(connection, custom),
        kubernetes_reader.item(connection, f"/apis/apps/v1/namespaces/{namespace}/statefulsets/{node_set}"),
        refused_pods(connection, namespace),
    )


def wait(props: Mapping[str, Any]) -> None:
    """Wait until the nodes take jobs.

    Args:
        props: Inputs of the resource.

    Raises:
        UnavailableError: They do not, and waiting longer would not help, or the time is up.
    """
    namespace, node_set = props["namespace"], props["nodeSet"]
    wait_for(
        lambda connection: read(connection, namespace, node_set),
        props,
        "timeouts.nodes",
        f"kubectl --namespace {namespace} describe nodeset {node_set}",
    )


class _NodesReadyProvider(WaitProvider):
    """Waits when the number of nodes changes."""

    compared = ("replicas",)
    id_input = "nodeSet"

    def wait(self, props: Mapping[str, Any]) -> None:
        wait(props)


class NodesReady(dynamic.Resource, module="pulumi-slurm", name="NodesReady"):
    """A resource that exists once the nodes of a set take jobs.

    Args:
        name: Name of the resource in the stack.
        inputs: `nodeSet`, `replicas`, `namespace`, `seconds`, `context` and `kubeconfig`.
        opts: Options of the resource.
    """

    def __init__(self, name: str, inputs: Mapping[str, Any], opts: pulumi.ResourceOptions) -> None:
        super().__init__(_NodesReadyProvider(), name, dict(inputs), opts)
