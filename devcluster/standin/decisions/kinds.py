"""Facts about kinds that need no cluster."""

from __future__ import annotations

import dataclasses
from typing import Any

Manifest = dict[str, Any]
"""A Kubernetes object as JSON has it."""

NAMESPACED = frozenset({
    ("", "v1", "ConfigMap"), ("", "v1", "PersistentVolumeClaim"), ("", "v1", "Secret"), ("", "v1", "Service"),
    ("", "v1", "ServiceAccount"), ("apps", "v1", "Deployment"), ("apps", "v1", "StatefulSet"), ("batch", "v1", "Job"),
    ("networking.k8s.io", "v1", "NetworkPolicy"), ("policy", "v1", "PodDisruptionBudget"),
    ("rbac.authorization.k8s.io", "v1", "Role"), ("rbac.authorization.k8s.io", "v1", "RoleBinding"),
})  # fmt: skip
CLUSTER_SCOPED = frozenset({
    ("", "v1", "Namespace"), ("", "v1", "PersistentVolume"),
    ("admissionregistration.k8s.io", "v1", "ValidatingAdmissionPolicy"),
    ("admissionregistration.k8s.io", "v1", "ValidatingAdmissionPolicyBinding"),
    ("apiextensions.k8s.io", "v1", "CustomResourceDefinition"), ("rbac.authorization.k8s.io", "v1", "ClusterRole"),
    ("rbac.authorization.k8s.io", "v1", "ClusterRoleBinding"),
})  # fmt: skip
"""Kubernetes' own kinds that the program declares (components/kubernetes/component.py); others are refused."""
_OWN_GROUPS = frozenset({"", "apps", "autoscaling", "batch", "policy"}) | {
    f"{name}.k8s.io"
    for name in (
        "admissionregistration", "apiextensions", "apiregistration", "authentication", "authorization", "certificates",
        "coordination", "discovery", "events", "flowcontrol.apiserver", "networking", "node", "rbac.authorization",
        "resource", "scheduling", "storage", "storagemigration",
    )
}  # fmt: skip

SKIP_AWAIT_SKIPS_DELETE = frozenset({"Namespace", "Deployment", "StatefulSet", "Job"})
"""Kinds whose `pulumi.com/skipAwait` also ends the wait for their deletion, as the official provider has it."""


@dataclasses.dataclass(frozen=True, slots=True)
class Kind:
    """Group, version and kind; the core group is the empty string."""

    group: str
    version: str
    name: str

    @property
    def api_version(self) -> str:
        """Its form in an object's `apiVersion`."""
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def builtin(self) -> bool:
        """Return whether the kind comes with Kubernetes, not with a CustomResourceDefinition."""
        return self.group in _OWN_GROUPS

    @property
    def namespaced(self) -> bool | None:
        """Return whether objects live in namespaces; None when only a cluster could tell."""
        known = dataclasses.astuple(self)
        return True if known in NAMESPACED else False if known in CLUSTER_SCOPED else None

    def __str__(self) -> str:
        """Readable form for messages."""
        return f"{self.api_version}/{self.name}"


def from_token(token: str) -> Kind:
    """Return the kind of a Pulumi type such as `kubernetes:apps/v1:StatefulSet`.

    Raises:
        ValueError: the type is none of a Kubernetes object.
    """
    # A child of a component has the types of its parents before its own, each followed by `$`.
    _, module, name = token.rpartition("$")[2].split(":")
    group, slash, version = module.partition("/")
    if not slash:
        raise ValueError(f"{token} is not the type of a Kubernetes object: its module has no version")
    return Kind("" if group == "core" else group, version, name)


def of(manifest: Manifest) -> Kind:
    """Return the kind that an object itself names."""
    group, slash, version = str(manifest.get("apiVersion", "")).rpartition("/")
    return Kind("" if group == "core" or not slash else group, version, str(manifest.get("kind", "")))


def refusal(token: str) -> str | None:
    """Return why the stand-in does not have this type; None where it has."""
    token = token.rpartition("$")[2]
    module = token.split(":")[1] if token.count(":") == 2 else token
    names = {"helm.sh": "Helm", "helm": "Helm", "kustomize": "kustomize", "yaml": "YAML files"}
    topic = names.get(module.partition("/")[0])
    if topic is None:
        kind = from_token(token)
        if not kind.builtin or kind.namespaced is not None:
            return None
        topic = f"the kind {kind.name}"
    return (
        f"{token}: the stand-in provider does not have {topic}: install the official plugin with "
        "`pulumi plugin install resource kubernetes 4.32.0`"
    )


def name_of(manifest: Manifest) -> str:
    """Return metadata.name, or the empty string."""
    name = metadata_of(manifest).get("name")
    return name if isinstance(name, str) else ""


def namespace_of(manifest: Manifest) -> str:
    """Return metadata.namespace, or the empty string."""
    namespace = metadata_of(manifest).get("namespace")
    return namespace if isinstance(namespace, str) else ""


def metadata_of(manifest: Manifest) -> Manifest:
    """Return the metadata, empty when missing or unknown."""
    metadata = manifest.get("metadata")
    return metadata if isinstance(metadata, dict) else {}


def annotation(manifest: Manifest, key: str) -> str:
    """Return the value of `pulumi.com/<key>`, or the empty string."""
    annotations = metadata_of(manifest).get("annotations")
    value = annotations.get(f"pulumi.com/{key}") if isinstance(annotations, dict) else None
    return value if isinstance(value, str) else ""


def resource_id(manifest: Manifest) -> str:
    """Return the id in Pulumi's state: `namespace/name`, or `name`."""
    namespace = namespace_of(manifest)
    return f"{namespace}/{name_of(manifest)}" if namespace else name_of(manifest)


def split_id(identity: str) -> tuple[str, str]:
    """Return the namespace and name of an id."""
    namespace, _, name = identity.rpartition("/")
    return namespace, name
