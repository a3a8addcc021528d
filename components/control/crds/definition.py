"""Parts that both CRDs share: their frame, the counts of nodes, and conditions."""

from collections.abc import Iterable, Mapping
from typing import Any, Final

from components.config.values.object_names import LONGEST_SET_NAME, SET_NAME
from components.control.crd_policy import EDITION
from components.control.crds.schema import INT64, TIME, Schema, checked, described, section, text
from components.kubernetes.manifest import plural
from contract import names
from contract.conditions import ConditionType

_EDITION: Final = "17"
_LABEL: Final = "must be a DNS label (lower case letters, digits, '-')"

OBSERVED_GENERATION: Final[Schema] = {"description": "Generation of the spec that this status speaks of.", **INT64}
IMMUTABLE: Final = checked("self == oldSelf", "is immutable")
COUNTS: Final = {
    "idle": "Usable and without jobs",
    "allocated": "With at least one job",
    "drained": "Drained by somebody else than the operator",
    "drainedByPeople": "Drained nodes that people took out of service",
    "down": "Down in Slurm",
    "draining": "Drained by the operator and still at work",
    "updated": "Nodes with the current pod template",
}
"""Numbers of nodes that the status of both resources has, with their descriptions."""
COUNTED: Final[Mapping[str, Schema]] = {key: described("integer", words) for key, words in COUNTS.items()}
STATUS: Final = "What the operator sees. Written by the operator alone."


def label(description: str, pattern: str, length: int, *rules: Schema, **more: Any) -> Schema:
    """The name of an object.

    Args:
        description: Which object it is.
        pattern: Regular expression of the whole name, but for its length.
        length: The largest number of characters.
        rules: Rules besides the pattern.
        more: Further keywords.
    """
    fits = checked(f"self.matches('^{pattern}$')", _LABEL)
    return {"description": description, **text(length), "x-kubernetes-validations": [fits, *rules], **more}


def conditions(description: str) -> Schema:
    """Return the schema of a status's list of conditions; each type stands in it once."""
    condition = {
        "type": text(64),
        "status": {"type": "string", "enum": ["True", "False", "Unknown"]},
        "reason": text(128),
        "message": text(4096),
        "observedGeneration": INT64,
        "lastTransitionTime": TIME,
    }
    return {
        "description": description,
        "type": "array",
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["type"],
        "items": section("", condition, ["type", "status", "reason", "message", "lastTransitionTime"]),
    }


def column(name: str, kind: str, path: str, description: str = "") -> Schema:
    """A column of `kubectl get`."""
    more = {"description": description} if description else {}
    return {"name": name, "type": kind, "jsonPath": path, **more}


def count_columns(path: str) -> list[Schema]:
    """Columns of the counts, which are below that path."""
    shown = {key: words for key, words in COUNTS.items() if key != "drainedByPeople"}
    return [column(key.title(), "integer", f"{path}.{key}", words) for key, words in shown.items()]


def definition(
    kind: str,
    schema: Schema,
    columns: Iterable[Schema],
    short_names: Iterable[str] = (),
    scale: Mapping[str, str] | None = None,
) -> dict[str, Any]:
    """A CRD.

    Args:
        kind: Kind of its resources.
        schema: Their schema.
        columns: Columns of `kubectl get`, between Available and Message.
        short_names: What `kubectl` calls them too.
        scale: Paths of their scale subresource.
    """
    name, available = plural(kind), ConditionType.AVAILABLE.value
    version = {
        "name": names.CRD_VERSION,
        "served": True,
        "storage": True,
        "subresources": {"status": {}, **({"scale": dict(scale)} if scale else {})},
        "additionalPrinterColumns": [
            column(available, "string", f'.status.conditions[?(@.type=="{available}")].status'),
            *columns,
            column("Message", "string", ".status.message"),
            column("Age", "date", ".metadata.creationTimestamp"),
        ],
        "schema": {"openAPIV3Schema": schema},
    }
    called = {"kind": kind, "listKind": f"{kind}List", "plural": name, "singular": kind.lower()}
    shorter = {"shortNames": [*short_names]} if short_names else {}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {
            "name": f"{name}.{names.API_GROUP}",
            "labels": {
                names.LABEL_NAME: names.APPLICATION,
                names.LABEL_COMPONENT: "operator",
                names.LABEL_MANAGED_BY: names.PROJECT,
            },
            "annotations": {EDITION: _EDITION},
        },
        "spec": {
            "group": names.API_GROUP,
            "scope": "Namespaced",
            "names": {**called, **shorter, "categories": ["slurm"]},
            "versions": [version],
        },
    }


def resource(description: str, spec: Schema, status: Schema, *rules: Schema) -> Schema:
    """The schema of a resource; the rules hold for its whole."""
    named = checked(
        f"self.metadata.name.matches('^{SET_NAME}$') && size(self.metadata.name) <= {LONGEST_SET_NAME}",
        f"metadata.name must be a DNS label of at most {LONGEST_SET_NAME} characters (lower case letters, digits, '-')",
    )
    anything = {"apiVersion": {"type": "string"}, "kind": {"type": "string"}, "metadata": {"type": "object"}}
    return section(description, {**anything, "spec": spec, "status": status}, ["spec"], [named, *rules])
