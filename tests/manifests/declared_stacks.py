"""Stacks with all that they declare, and an API server that is asked about it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import httpx

from contract import names
from devcluster.standin import kubeconfig
from tests.operator.worlds.api_server import until
from tests.unit.effects import network_effects, submount_effects
from tests.unit.golden_files import raw_stack
from tests.unit.samples import EVERYTHING, changed, run_program

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


def declared(raw: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Every object of Kubernetes that the program registers, custom resources and the ledger among them."""
    engine, _ = run_program(raw)
    return [each.inputs for each in engine.kubernetes() if not each.type.startswith(NOT_OBJECTS)]
