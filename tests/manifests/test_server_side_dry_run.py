"""Everything that a stack declares is taken by a real API server, to the last field: a server-side dry run of each."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml

from components.control import operator
from contract import names
from devcluster.apiserver.control_plane import ApiServer
from devcluster.machine.bootstrap import CHECKOUT
from devcluster.standin import kubeconfig
from tests.operator.worlds.api_server import until
from tests.unit.effects import network_effects, submount_effects
from tests.unit.golden_files import raw_stack
from tests.unit.samples import EVERYTHING, changed, run_program

FAKES = CHECKOUT / "devcluster" / "fakes" / "crds"
CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
APPLY = {"Content-Type": "application/apply-patch+yaml"}
STRICT = {"fieldManager": names.FIELD_MANAGER, "force": "true", "fieldValidation": "Strict"}
NOT_OBJECTS = "kubernetes:helm.sh/"
"""Types that are no object of Kubernetes: what comes of them is Helm's."""

VARIANTS: dict[str, Mapping[str, Any]] = {
    "dev": raw_stack("dev"),
    "gpu.example": raw_stack("gpu.example"),
    "everything": EVERYTHING,
    "networks": network_effects.INTERFACES,
    "virtual functions": network_effects.VIRTUAL,
    "submounts": submount_effects.EVERYWHERE,
    "certificates": changed("certificates.mode", "existing"),
    "PodMonitors": changed("monitoring", {"mode": "prometheusOperator", "interval": "30s"}),
}


class Server:
    """The API server, asked what it would do."""

    def __init__(self, kubeconfig_file: Path) -> None:
        found = kubeconfig.read(str(kubeconfig_file))
        self.client = httpx.Client(base_url=found.server, verify=found.tls, timeout=30, trust_env=False)
        self._known: dict[str, dict[str, tuple[str, bool]]] = {}

    def apply(self, path: str, body: Mapping[str, Any], **query: str) -> Any:
        """A server-side apply's answer, whatever its status."""
        return self.client.patch(path, content=json.dumps(body), headers=APPLY, params={**STRICT, **query}).json()

    def install(self, crd: Mapping[str, Any]) -> None:
        """A CRD, served when this returns."""
        name = crd["metadata"]["name"]
        answer = self.apply(f"{CRDS}/{name}", crd)
        assert answer["kind"] == "CustomResourceDefinition", answer
        group, version = crd["spec"]["group"], crd["spec"]["versions"][0]["name"]
        kind = crd["spec"]["names"]["kind"]
        until(lambda: kind in self._kinds(f"/apis/{group}/{version}"), f"{name} is served")

    def _kinds(self, base: str) -> dict[str, tuple[str, bool]]:
        """Kinds of a group and version: plural, and whether they live in namespaces."""
        answer = self.client.get(base)
        found = answer.json().get("resources", []) if answer.is_success else []
        return {each["kind"]: (each["name"], each["namespaced"]) for each in found if "/" not in each["name"]}

    def path(self, body: Mapping[str, Any]) -> str:
        """The path of an object."""
        api_version, kind = str(body["apiVersion"]), str(body["kind"])
        base = f"/api/{api_version}" if "/" not in api_version else f"/apis/{api_version}"
        if base not in self._known:
            self._known[base] = self._kinds(base)
        known = self._known[base]
        assert kind in known, f"the API server has no {api_version}/{kind}: add a fake of its CRD"
        plural, namespaced = known[kind]
        metadata = body["metadata"]
        assert namespaced == ("namespace" in metadata), f"{kind} {metadata['name']}: namespaced is {namespaced}"
        within = f"/namespaces/{metadata['namespace']}" if namespaced else ""
        return f"{base}{within}/{plural}/{metadata['name']}"

    def dry_run(self, body: Mapping[str, Any]) -> Any:
        """Return what the API server would make of an object, or why it refuses it."""
        return self.apply(self.path(body), body, dryRun="All")


@pytest.fixture(scope="module")
def server(apiserver: ApiServer) -> Iterator[Server]:
    found = Server(apiserver.kubeconfig)
    crds = [yaml.safe_load(file.read_text()) for file in sorted(FAKES.glob("*.yaml"))]
    crds += [dict(manifest.body) for manifest in operator.crd_manifests()]
    for crd in crds:
        found.install(crd)
    yield found
    found.client.close()


def declared(raw: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Every object of Kubernetes that the program registers, custom resources and the ledger among them."""
    engine, _ = run_program(raw)
    return [each.inputs for each in engine.kubernetes() if not each.type.startswith(NOT_OBJECTS)]


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
