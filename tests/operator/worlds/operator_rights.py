"""The operator's rights as the program declares them, given to a service account of a test's namespace."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from slurm_operator.clients import informer

from components.control import operator as program
from components.control import operator_policy
from tests.operator.worlds.world import WORKLOADS, World, stateful_set


def _declared(held: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return what the rights are about: the objects of World.declare, or those of the ledger in their place."""
    sets = [stateful_set(name, component) for name, component in WORKLOADS]
    own = [{**each, "apiVersion": "apps/v1", "kind": "StatefulSet"} for each in sets]
    own.append({**stateful_set("slurm-rest", "rest"), "apiVersion": "apps/v1", "kind": "Deployment"})
    for kind, name in (("ConfigMap", "slurm-config-wanted"), ("Secret", "slurm-keys")):
        own.append({"apiVersion": "v1", "kind": kind, "metadata": {"name": name}})
    bodies = {(each["kind"], each["metadata"]["name"]): each for each in (*own, *held)}
    return [*bodies.values()]


def kubeconfig_of_role(world: World, folder: Path, held: Iterable[dict[str, Any]] = ()) -> Path:
    """A kubeconfig of a service account with the Role and the policy that the program declares, and nothing else.

    Args:
        world: the namespace.
        folder: where the file is to stand.
        held: bodies of the ledger's objects.
    """
    objects = _declared(held)
    metadata = {"name": f"slurm-operator-{world.namespace}"}
    policies = operator_policy.manifests(world.namespace, objects, metadata)
    for each in policies:
        path = f"/apis/admissionregistration.k8s.io/v1/{informer.plural(each.kind)}"
        world.admin.call("POST", path, dict(each.body))
    named = {"metadata": {"name": "slurm-operator"}}
    world.create("serviceaccounts", named)
    identities = {(each["apiVersion"], each["kind"], each["metadata"]["name"]) for each in objects}
    world.create("roles", named | {"rules": program.rules(identities)})
    subject = {"kind": "ServiceAccount", "name": "slurm-operator", "namespace": world.namespace}
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "slurm-operator"}
    world.create("rolebindings", named | {"subjects": [subject], "roleRef": role})
    request: dict[str, Any] = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
    path = world.path("serviceaccounts", "slurm-operator", "token")
    token = world.admin.call("POST", path, request)["status"]["token"]
    found = world.admin.access
    cluster = {"server": found.server, "certificate-authority-data": found.ca_data}
    path_ = folder / "kubeconfig"
    path_.write_text(
        json.dumps(
            {
                "current-context": "c",
                "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
                "clusters": [{"name": "c", "cluster": cluster}],
                "users": [{"name": "u", "user": {"token": token}}],
            }
        )
    )
    return path_


def let_read_nodes(world: World) -> None:
    """Give the operator of a namespace the rights to Kubernetes nodes that the program declares."""
    rbac, metadata = "/apis/rbac.authorization.k8s.io/v1", {"name": f"operator-{world.namespace}"}
    role = {"metadata": metadata, "rules": program.node_rules(replaces=True)}
    world.admin.call("POST", f"{rbac}/clusterroles", role)
    binding = {
        "metadata": metadata,
        "subjects": [{"kind": "ServiceAccount", "name": "slurm-operator", "namespace": world.namespace}],
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": metadata["name"]},
    }
    world.admin.call("POST", f"{rbac}/clusterrolebindings", binding)
