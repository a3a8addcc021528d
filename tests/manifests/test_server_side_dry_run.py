"""Everything that a stack declares is taken by a real API server, to the last field: a server-side dry run of each."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import yaml

from components.control import operator
from devcluster.apiserver.control_plane import ApiServer
from devcluster.machine.bootstrap import CHECKOUT
from tests.manifests.declared_stacks import NOT_OBJECTS, VARIANTS, Server, declared
from tests.unit.golden_files import raw_stack
from tests.unit.samples import run_program

FAKES = CHECKOUT / "devcluster" / "fakes" / "crds"


@pytest.fixture(scope="module")
def server(apiserver: ApiServer) -> Iterator[Server]:
    found = Server(apiserver.kubeconfig)
    crds = [yaml.safe_load(file.read_text()) for file in sorted(FAKES.glob("*.yaml"))]
    crds += [dict(manifest.body) for manifest in operator.crd_manifests()]
    for crd in crds:
        found.install(crd)
    yield found
    found.client.close()


@pytest.mark.parametrize("name", VARIANTS)
def test_a_real_api_server_takes_everything_that_the_stack_declares(server: Server, name: str) -> None:
    bodies = declared(VARIANTS[name])
    for namespace in {each["metadata"]["namespace"] for each in bodies if "namespace" in each["metadata"]}:
        body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}}
        server.apply(f"/api/v1/namespaces/{namespace}", body)
    refused = [
        f"{each['kind']} {each['metadata']['name']}: {answer.get('message')}"
        for each in bodies
        if (answer := server.dry_run(each))["kind"] != each["kind"]
    ]
    assert refused == []
    assert len(bodies) > 20


def test_a_field_that_does_not_exist_would_be_refused(server: Server) -> None:
    """The dry run finds a mistake in one of our own objects, and in one of a fake's."""
    service = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "x", "namespace": "default"}}
    misspelt = server.dry_run({**service, "spec": {"ports": [{"port": 1}], "selectr": {}}})
    assert "not declared in schema" in misspelt["message"]
    policy = {"apiVersion": "mellanox.com/v1alpha1", "kind": "NicClusterPolicy", "metadata": {"name": "x"}}
    assert "not declared in schema" in server.dry_run({**policy, "spec": {"multus": {}}})["message"]
    assert "Required value" in server.dry_run({**policy, "spec": {"nvIpam": {"version": "1"}}})["message"]


def test_the_stand_in_would_need_no_chart_for_the_example() -> None:
    engine, _ = run_program(raw_stack("gpu.example"))
    assert [each.name for each in engine.registered if each.type.startswith(NOT_OBJECTS)] == []
