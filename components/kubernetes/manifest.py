"""Kubernetes objects as plain data, known from the configuration alone."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from components.config import Config
from contract import names

SKIP_AWAIT: Final = {"pulumi.com/skipAwait": "true"}
"""For objects that the program's own waits include. Pulumi does not wait for them by itself."""

REPLACEABLE: Final = {**SKIP_AWAIT, "pulumi.com/deletionPropagationPolicy": "background"}
"""For a set or a Job whose pods may be deleted with it.

Pulumi does not wait until one with SKIP_AWAIT is gone. A foreground deletion ends later, so the API server would refuse
the new object of a replacement.
"""


@dataclass(frozen=True, slots=True)
class Manifest:
    """One declared object.

    Args:
        body: The object as Kubernetes takes it. A Secret's data is left out.
        payload: For a Secret: the keys of its data, which come from the key resources.
        held: Whether the object stands in the ledger, so that the operator restores it.
        retain: Whether the object stays in Kubernetes when Pulumi drops it.
        protect: Whether Pulumi refuses to delete it.
        deadline_seconds: How long Pulumi waits for it; None leaves the provider's own limit.
    """

    body: Mapping[str, Any]
    payload: tuple[str, ...] = ()
    held: bool = True
    retain: bool = False
    protect: bool = False
    deadline_seconds: int | None = None

    @property
    def kind(self) -> str:
        """Kind of the object, such as StatefulSet."""
        return str(self.body["kind"])

    @property
    def name(self) -> str:
        """Name of the object."""
        return str(self.body["metadata"]["name"])


def plural(kind: str) -> str:
    """Return a kind's plural as in URLs and RBAC rules. It is right for every kind that is declared."""
    word = kind.lower()
    return f"{word[:-1]}ies" if word.endswith("y") else f"{word}s"


def selector(config: Config, component: str, **more: str) -> dict[str, str]:
    """Return the selector labels of a component's pods. They never change."""
    return {
        names.LABEL_NAME: "slurm",
        names.LABEL_INSTANCE: config.cluster.name,
        names.LABEL_COMPONENT: component,
        **more,
    }


def labels(config: Config, component: str, **more: str) -> dict[str, str]:
    """Return the labels of an object of a component."""
    return {**selector(config, component, **more), names.LABEL_MANAGED_BY: names.PROJECT}


def declared(
    config: Config,
    api_version: str,
    kind: str,
    name: str,
    component: str,
    content: Mapping[str, Any],
    *,
    annotations: Mapping[str, str] | None = None,
    more_labels: Mapping[str, str] | None = None,
    namespaced: bool = True,
) -> dict[str, Any]:
    """Return the body of an object.

    Args:
        config: The configuration.
        api_version: API group and version.
        kind: Kind of the object.
        name: Its name, fixed.
        component: Value of its component label.
        content: Everything besides apiVersion, kind and metadata.
        annotations: Annotations besides those of every declared object.
        more_labels: Labels besides those of every declared object.
        namespaced: Whether the kind lives in a namespace.
    """
    metadata: dict[str, Any] = {
        "name": name,
        "labels": labels(config, component, **(more_labels or {})),
        "annotations": {
            # Declared fields replace edits by hand and what the operator restored. The operator restores fields under
            # the same field manager. So a field that is dropped here also goes from those objects.
            "pulumi.com/patchForce": "true",
            "pulumi.com/patchFieldManager": names.FIELD_MANAGER,
            **(annotations or {}),
        },
    }
    if namespaced:
        metadata["namespace"] = config.cluster.namespace
    return {"apiVersion": api_version, "kind": kind, "metadata": metadata, **content}
