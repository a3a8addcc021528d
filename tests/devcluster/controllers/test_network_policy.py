from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.devcluster.node_under_test import Node, eventually, in_namespace, probe_pod

pytestmark = pytest.mark.e2e


@pytest.fixture
def pods(node: Node, namespace: str) -> Iterator[str]:
    """A server with two ports behind a Service, a friend and a stranger; gives the namespace."""
    service = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "server"},
        "spec": {
            "selector": {"app": "server"},
            "ports": [{"name": "a", "port": 80, "targetPort": 8080}, {"name": "b", "port": 81, "targetPort": 8081}],
        },
    }
    server = probe_pod("server", "serve", ":8080", ":8081")
    node.apply(*in_namespace(namespace, server, probe_pod("friend"), probe_pod("stranger"), service))
    node.kubectl("wait", "-n", namespace, "--for=condition=Ready", "pod", "--all", "--timeout=60s")

    def everything_answers() -> bool:
        clients = ("friend", "stranger")
        return all(
            answers(node, namespace, client, port, direct=port > 81) for client in clients for port in (80, 81, 8080)
        )

    eventually(everything_answers, "everything answers without a policy")
    yield namespace


def answers(node: Node, namespace: str, client: str, port: int = 80, *, direct: bool = False) -> bool:
    host = f"server.{namespace}.svc.cluster.local"
    if direct:
        host = node.get("-n", namespace, "pod", "server")["status"]["podIP"]
    return node.run_in(namespace, client, "get", f"http://{host}:{port}").stdout == "server\n"


def policy(name: str, selected: str, **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": {"name": name},
        "spec": {"podSelector": {"matchLabels": {"app": selected}}, **spec},
    }


FRIEND = {"podSelector": {"matchLabels": {"app": "friend"}}}


def test_an_address_that_answered_refuses_under_a_policy_and_answers_again_without(node: Node, pods: str) -> None:
    node.apply(*in_namespace(pods, policy("p", "server", ingress=[{"from": [FRIEND], "ports": [{"port": 8080}]}])))

    eventually(lambda: not answers(node, pods, "stranger"), "the stranger is refused at the Service")
    assert not answers(node, pods, "stranger", 8080, direct=True)
    assert not answers(node, pods, "friend", 81)
    assert answers(node, pods, "friend")
    assert answers(node, pods, "friend", 8080, direct=True)

    node.kubectl("delete", "-n", pods, "networkpolicy", "p")
    eventually(lambda: answers(node, pods, "stranger"), "the stranger is let in again")


def test_egress_is_limited_to_peers_also_behind_a_service(node: Node, pods: str) -> None:
    dns = {"ports": [{"port": 5353, "protocol": "UDP"}, {"port": 5353}]}
    to_server = {"to": [{"podSelector": {"matchLabels": {"app": "server"}}}], "ports": [{"port": 8080}]}
    node.apply(
        *in_namespace(
            pods,
            policy("friend", "friend", policyTypes=["Egress"], egress=[dns, to_server]),
            policy("stranger", "stranger", policyTypes=["Egress"], egress=[dns]),
        )
    )

    eventually(lambda: not answers(node, pods, "stranger"), "the stranger gets nowhere")
    assert answers(node, pods, "friend")
    assert not answers(node, pods, "friend", 81)
    api = node.run_in(pods, "friend", "get", "https://kubernetes.default.svc.cluster.local")
    assert "certificate" not in api.stderr, "the API server on the node was reached against the policy"


def test_a_refused_policy_closes_its_pods_and_says_so_in_an_event(node: Node, pods: str) -> None:
    sctp = [{"from": [FRIEND], "ports": [{"port": 8080}, {"port": 8081, "protocol": "SCTP"}]}]
    node.apply(*in_namespace(pods, policy("odd", "server", ingress=sctp)))

    eventually(lambda: not answers(node, pods, "friend"), "the server is closed")

    def is_said() -> bool:
        events = node.get("-n", pods, "events", "--field-selector=involvedObject.name=odd")["items"]
        return any("SCTP" in event["message"] for event in events)

    eventually(is_said, "an event names SCTP")


def test_a_pod_reaches_itself_through_its_service_whatever_the_policy(node: Node, pods: str) -> None:
    node.apply(*in_namespace(pods, policy("closed", "server", ingress=[])))
    eventually(lambda: not answers(node, pods, "friend"), "the server is closed")

    assert answers(node, pods, "server")
