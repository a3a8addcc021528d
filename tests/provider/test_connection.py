"""A stack's connection to its cluster, and what works without one."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.provider.stacks import Stack

pytestmark = pytest.mark.apiserver

OBJECTS = """
    k.core.v1.ConfigMap("a", metadata={"name": "a", "namespace": namespace}, opts=options)
    k.core.v1.ConfigMap("b", metadata={"name": "b", "namespace": namespace}, opts=options)
"""


def kubeconfig_for(stack: Stack, server: str, namespace: str = "default") -> str:
    """The content of a kubeconfig that names the cluster by another URL."""
    config = json.loads(Path(stack.cluster.kubeconfig).read_text())
    config["clusters"][0]["cluster"]["server"] = server
    config["contexts"].append({**config["contexts"][0], "name": "other"})
    config["contexts"][1]["context"] = {**config["contexts"][1]["context"], "namespace": namespace}
    return json.dumps(config)


def test_another_server_url_replaces_nothing_when_the_cluster_has_an_identifier(stack: Stack) -> None:
    stack.program(OBJECTS)
    stack.up()
    other = kubeconfig_for(stack, stack.cluster.url.replace("127.0.0.1", "localhost"))
    stack.program(OBJECTS, kubeconfig=other)
    assert stack.steps() == {"cluster": "update"}
    stack.up()
    stack.pulumi("preview", "--expect-no-changes")


@pytest.mark.standin_only("the official plugin compares the clusters of the kubeconfigs")
def test_another_server_url_is_refused_without_an_identifier(stack: Stack) -> None:
    stack.program(OBJECTS, cluster_identifier=None)
    stack.up()
    other = kubeconfig_for(stack, stack.cluster.url.replace("127.0.0.1", "localhost"))
    stack.program(OBJECTS, kubeconfig=other, cluster_identifier=None)
    assert "a Provider without clusterIdentifier: the stand-in provider does not have this" in stack.fails("preview")


def test_a_preview_needs_no_cluster_and_an_up_says_that_it_has_none(stack: Stack) -> None:
    stack.program(OBJECTS)
    stack.up()
    more = OBJECTS + '\n    k.core.v1.ConfigMap("c", metadata={"name": "c", "namespace": namespace}, opts=options)'
    stack.program(more, kubeconfig=kubeconfig_for(stack, "https://127.0.0.1:9"))
    assert stack.steps() == {"cluster": "update", "c": "create"}
    output = stack.fails("up", "--yes", "--skip-preview")
    assert "configured Kubernetes cluster is unreachable" in output
    assert "https://127.0.0.1:9" in output


def test_the_context_chooses_where_objects_go_that_name_no_namespace(stack: Stack) -> None:
    config = kubeconfig_for(stack, stack.cluster.url, stack.namespace)
    text = 'k.core.v1.ConfigMap("a", metadata={"name": "a"}, opts=options)'
    stack.program(text, kubeconfig=config, context="other")
    stack.up()
    names = stack.cluster.get(f"/api/v1/namespaces/{stack.namespace}/configmaps")["items"]
    assert {item["metadata"]["name"] for item in names} == {"a"}
    assert stack.steps() == {}


def test_outputs_of_objects_to_come_may_be_unknown_in_a_preview(stack: Stack) -> None:
    stack.program("""
        group = k.core.v1.Namespace("new", metadata={"name": f"{namespace}-new"}, opts=options)
        parent = pulumi.ComponentResource("standin:index:Parent", "parent", {},
            pulumi.ResourceOptions(providers=[provider], depends_on=[provider]))
        inside = k.core.v1.ConfigMap("in", metadata={"name": "in", "namespace": group.metadata.name},
            opts=pulumi.ResourceOptions(parent=parent))
        k.core.v1.ConfigMap("after", metadata={"name": "after", "namespace": namespace},
            data={"name": inside.metadata.name, "uid": inside.metadata.apply(lambda made: made.get("uid") or "none")},
            opts=options)
    """)
    assert set(stack.steps()) >= {"new", "in", "after"}
    stack.up()
    made = stack.cluster.get(f"/api/v1/namespaces/{stack.namespace}/configmaps/after")
    assert made["data"]["name"] == "in"
    assert len(made["data"]["uid"]) == 36
    stack.pulumi("destroy", "--yes", "--skip-preview")
    assert stack.cluster.get(f"/api/v1/namespaces/{stack.namespace}-new")["code"] == 404
