"""A namespace of a real API server in which the operator's ServiceAccount has the declared Role and policy."""

from __future__ import annotations

import copy
import itertools
from collections.abc import Mapping
from typing import Any

from components import slurm_cluster
from components.config import parse
from components.kubernetes.manifest import plural
from contract import names
from tests.operator.worlds.api_server import STRATEGIC, Admin, until
from tests.unit.samples import EVERYTHING, changed

Body = dict[str, Any]

APPLY = {"Content-Type": "application/apply-patch+yaml"}
DRY = {"dryRun": "All"}
OURS = {"fieldManager": names.FIELD_MANAGER, "force": "true"}
CLUSTER_WIDE = ("ClusterRole", "ClusterRoleBinding", "ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding")
REPLACES = changed("nodeSets.0.reactions", {"replace": True}, EVERYTHING)
"""A configuration with every component, whose operator cordons Kubernetes nodes."""
_NUMBERS = itertools.count()


def path_of(body: Mapping[str, Any]) -> str:
    api, metadata = str(body["apiVersion"]), body["metadata"]
    within = f"/namespaces/{metadata['namespace']}" if "namespace" in metadata else ""
    return f"/{'apis' if '/' in api else 'api'}/{api}{within}/{plural(body['kind'])}"


class Stack:
    """A namespace with the operator's account, its rights and its policy, as the program declares them."""

    def __init__(self, admin: Admin, raw: Mapping[str, Any]) -> None:
        self.admin, self.namespace = admin, f"rights-{next(_NUMBERS)}"
        config = parse(changed("cluster.namespace", self.namespace, raw))
        self.cluster = config.cluster.name
        manifests = slurm_cluster.manifests(config)
        self.held: list[Body] = [copy.deepcopy(dict(each.body)) for each in manifests if each.held]
        admin.call("POST", "/api/v1/namespaces", {"metadata": {"name": self.namespace}})
        for each in manifests:
            if each.kind in CLUSTER_WIDE or (each.held and each.name == names.OPERATOR):
                self.declare(dict(each.body))
        account = {"kind": "ServiceAccount", "apiVersion": "v1", "metadata": self.metadata("another")}
        until(lambda: "that the program declares" in self.create(account), "the policy is in force")

    def metadata(self, name: str, **more: Any) -> Body:
        return {"name": name, "namespace": self.namespace, **more}

    def declare(self, body: Body) -> Body:
        """Apply a manifest as Pulumi does."""
        path = f"{path_of(body)}/{body['metadata']['name']}"
        return self.admin.call("PATCH", path, body, headers=APPLY, params=OURS)

    def call(self, method: str, path: str, body: Any = None, user: str = "", **headers: str) -> str:
        """Try a call as the operator; returns why it is refused, empty if it is not."""
        account = user or f"system:serviceaccount:{self.namespace}:{names.OPERATOR}"
        headers = {"Impersonate-User": account, **headers}
        params = {**DRY, **(OURS if APPLY.items() <= headers.items() else {})}
        answer = self.admin.client.request(method, path, json=body, headers=headers, params=params)
        if not answer.is_error:
            return ""
        said = answer.json()
        assert said["code"] != 404, f"{path}: {said['message']}"
        return str(said["message"])

    def create(self, body: Mapping[str, Any], user: str = "") -> str:
        """Create an object."""
        return self.call("POST", path_of(body), body, user)

    def write(self, body: Mapping[str, Any]) -> str:
        """Apply an object as a heal does."""
        return self.call("PATCH", f"{path_of(body)}/{body['metadata']['name']}", body, **APPLY)

    def change(self, kind: str, name: str, change: Body) -> str:
        """Merge a change into an object."""
        return self.call("PATCH", f"{self.path(kind)}/{name}", change, **STRATEGIC)

    def path(self, kind: str) -> str:
        api = {
            "StatefulSet": "apps/v1", "NodeSet": names.API_VERSION, "SlurmCluster": names.API_VERSION,
            "Lease": "coordination.k8s.io/v1", "Event": "events.k8s.io/v1",
        }.get(kind, "v1")  # fmt: skip
        metadata = {} if kind == "Node" else self.metadata("")
        return path_of({"apiVersion": api, "kind": kind, "metadata": metadata})

    def workloads(self) -> list[Body]:
        return [each for each in self.held if "template" in each.get("spec", {})]
