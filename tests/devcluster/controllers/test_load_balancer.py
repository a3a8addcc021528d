from __future__ import annotations

from typing import Any

import pytest

from devcluster.controllers.load_balancer import Publish, actions
from devcluster.node import node_cli
from tests.devcluster.node_under_test import Node, eventually, fetch, in_namespace, probe_pod

ADDRESS = "10.213.0.2"


def service(name: str, created: int, *ports: int, published: str = "", kind: str = "LoadBalancer") -> dict[str, Any]:
    return {
        "metadata": {"namespace": "n", "name": name, "uid": name, "creationTimestamp": f"2026-01-01T00:00:0{created}Z"},
        "spec": {"type": kind, "ports": [{"port": port} for port in ports]},
        "status": {"loadBalancer": {"ingress": [{"ip": published}]} if published else {}},
    }


def test_a_service_gets_the_nodes_address_once() -> None:
    assert actions([service("a", 1, 22)], ADDRESS) == ([Publish("n", "a", ADDRESS)], [])
    assert actions([service("a", 1, 22, published=ADDRESS)], ADDRESS) == ([], [])


def test_an_address_from_before_the_node_moved_is_replaced() -> None:
    assert actions([service("a", 1, 22, published="10.213.0.6")], ADDRESS)[0] == [Publish("n", "a", ADDRESS)]


def test_a_port_stays_with_the_older_service_and_the_younger_learns_whose_it_is() -> None:
    publishes, conflicts = actions([service("young", 2, 80, 22), service("old", 1, 22)], ADDRESS)

    assert publishes == [Publish("n", "old", ADDRESS)]
    assert [(each.service["metadata"]["name"], each.reason) for each in conflicts] == [
        ("young", "port 22 belongs to Service n/old")
    ]


def test_the_api_servers_port_is_not_given_away() -> None:
    publishes, [conflict] = actions([service("a", 1, 6443)], ADDRESS)

    assert publishes == []
    assert "the node itself" in conflict.reason


def test_a_service_that_no_longer_asks_for_an_address_loses_it() -> None:
    assert actions([service("a", 1, 22, published=ADDRESS, kind="ClusterIP")], ADDRESS)[0] == [Publish("n", "a", "")]
    assert actions([service("a", 1, 22, kind="ClusterIP")], ADDRESS) == ([], [])


@pytest.mark.e2e
def test_a_load_balanced_service_answers_on_the_host(node: Node, namespace: str) -> None:
    balanced = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "web"},
        "spec": {"type": "LoadBalancer", "selector": {"app": "web"}, "ports": [{"port": 2222, "targetPort": 8080}]},
    }
    node.apply(*in_namespace(namespace, probe_pod("web"), balanced))
    node.kubectl("wait", "-n", namespace, "--for=condition=Ready", "pod/web", "--timeout=60s")
    node.kubectl(
        *("wait", "-n", namespace, "service/web", "--timeout=30s"),
        f"--for=jsonpath={{.status.loadBalancer.ingress[0].ip}}={node_cli.address(node.instance)}",
    )
    url = f"http://{node_cli.address(node.instance)}:2222"

    eventually(lambda: fetch(url) == "web\n", url)
