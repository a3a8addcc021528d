"""The CRD of NodeSets."""

from typing import Any, Final

from components.config.nodes import node_sets
from components.config.nodes.health import Health, NodeCondition
from components.config.nodes.reactions import Reactions
from components.config.topologies import Place
from components.config.values.object_names import FEATURE, LONGEST_SET_NAME, SET_NAME
from components.config.values.quantities import PERCENTAGE
from components.control.crds import definition
from components.control.crds.schema import INT32, TIME, Schema, checked, described, limits, policy, section, text
from contract import names, policies

_LARGEST: Final = node_sets.LARGEST_SET
_NODE: Final = text(64)


def _window() -> Schema:
    a_week_at_most = checked(
        f"self.start.endsWith('Z') || self.durationSeconds <= {policies.WEEK_SECONDS}",
        f"a weekly window opens anew after {policies.WEEK_SECONDS} seconds, so durationSeconds may be no more",
    )
    in_the_calendar = checked(
        "!self.endsWith('Z') || string(timestamp(self.replace('Z', ':00Z'))) == self.replace('Z', ':00Z')",
        "must be a date of the calendar",
    )
    start: Schema = {
        "maxLength": len("2026-12-05T03:00Z"),
        "pattern": f"^({policies.WINDOW_START})$",
        "x-kubernetes-validations": [in_the_calendar],
    }
    seconds = {"minimum": policies.LEAST_WINDOW_SECONDS}
    return policy(
        node_sets.Window,
        {"start": start, "durationSeconds": seconds},
        [{**a_week_at_most, "fieldPath": ".durationSeconds"}],
    )


def _update() -> Schema:
    nodes: Schema = {"minimum": 1, "maximum": _LARGEST, "pattern": f"^{PERCENTAGE}$"}
    return policy(node_sets.Update, {"maxUnavailable": nodes, "window": _window()})


def _removal() -> Schema:
    deadline = node_sets.JobsOfRemoved.DEADLINE
    both_or_none = checked(
        f"(has(self.jobs) && self.jobs == '{deadline}') == has(self.deadlineSeconds)",
        f"deadlineSeconds belongs to jobs {deadline}, and only to it",
    )
    return policy(node_sets.Removal, {}, [both_or_none])


def _words(description: str | None, length: int, **more: Any) -> Schema:
    """A list of texts of so many characters at most; `more` are further keywords of each."""
    return {"description": description, "type": "array", "maxItems": 256, "items": {**text(length), **more}}


def _node_conditions() -> Schema:
    of = NodeCondition.model_fields
    condition = {
        "type": {"description": of["type"].description, **text(317)},
        "failsWhen": {**described("boolean", of["fails_when"].description or ""), "default": True},
        "unknownDrains": {
            **described("boolean", "Whether the condition drains when it is Unknown, or when nobody has written it."),
            "default": False,
        },
    }
    told = Health.model_fields["node_conditions"].description
    return {"description": told, "type": "array", "maxItems": 32, "items": section("", condition, ["type"])}


def _places() -> Schema:
    """Where the nodes of a set are in topologies."""
    of = Place.model_fields
    place = {
        "name": {"description": of["name"].description, **text(64)},
        "unit": {"description": of["unit"].description, **text(64)},
        "labels": {**_words(of["labels"].description, 317), "maxItems": 16},
    }
    told = (
        "Where its nodes are in the topologies of the configuration. Absent: where administrators say. A change takes "
        "effect at once, and jobs run on."
    )
    return {"description": told, "type": "array", "maxItems": 64, "items": section("", place, ["name"])}


def _spec() -> Schema:
    fields = node_sets.NodeSet.model_fields
    cluster = "SlurmCluster of this namespace that the nodes belong to."
    stateful_set = "StatefulSet of the worker pods; pod N-0 is Slurm's node N-0."
    replicas = (
        "Wanted number of nodes. A smaller number drains the highest ordinals and waits for their jobs. Absent means "
        "as many as there are, so that dropping the field never removes a node."
    )
    sections = {"removal": _removal(), "update": _update(), "reactions": policy(Reactions, {})}
    return section(
        "",
        {
            "cluster": definition.label(cluster, SET_NAME, LONGEST_SET_NAME, definition.IMMUTABLE),
            "statefulSet": definition.label(stateful_set, SET_NAME, LONGEST_SET_NAME, definition.IMMUTABLE),
            "replicas": {"description": replicas, **INT32, **limits(fields["replicas"])},
            "features": _words(fields["features"].description, 64, pattern=f"^{FEATURE}$"),
            "featureLabels": _words(fields["feature_labels"].description, 317),
            "nodeConditions": _node_conditions(),
            "topology": _places(),
            **{key: {"description": fields[key].description, **schema} for key, schema in sections.items()},
        },
        ["cluster", "statefulSet"],
    )


def _status() -> Schema:
    moved = described("boolean", "Whether the pod was to leave its Kubernetes node")
    uid = {"description": "uid of the pod that was to end.", **text(64)}
    drain = {"node": _NODE, "reason": text(256), "user": text(256)}
    restart = {"node": _NODE, "at": TIME, "replace": moved, "uid": uid}
    return section(
        definition.STATUS,
        {
            "observedGeneration": definition.OBSERVED_GENERATION,
            "replicas": described("integer", "Pods of the set"),
            "readyReplicas": described("integer", "Wanted nodes that are registered and usable now"),
            **definition.COUNTED,
            "updating": {
                "description": "Nodes that an update has taken and that have not worked since.",
                "type": "array",
                "maxItems": _LARGEST,
                "items": _NODE,
            },
            "drainsOfOthers": {
                "description": "Drains of people and of Slurm, which stay theirs if Slurm replaces their reason.",
                "type": "array",
                "maxItems": policies.MOST_DRAINS_KEPT,
                "items": section("", drain, [*drain]),
            },
            "restarts": {
                "description": "Restarts of unfit nodes within the last day, the oldest first.",
                "type": "array",
                "maxItems": 500,
                "items": section("", restart, ["node", "at"]),
            },
            "selector": described("string", "Label selector of the pods"),
            "message": described("string", "The most important condition in one sentence"),
            "conditions": definition.conditions(
                "Available (all wanted nodes take jobs), Progressing (something still moves), Degraded (what is "
                "wrong), DrainedByPeople (what people took out of service), ScaledOutsidePulumi; Ready, Reconciling "
                "and Stalled for tools that read kstatus."
            ),
        },
    )


def crd() -> dict[str, Any]:
    """The CRD of NodeSets."""
    not_reserved = checked(
        f"!self.metadata.name.startsWith('{names.RESERVED_PREFIX}')",
        f"metadata.name must not start with '{names.RESERVED_PREFIX}', which is for the cluster's own objects",
    )
    own_set = checked(
        "self.spec.statefulSet == self.metadata.name",
        "spec.statefulSet must be the node set's own, of the same name",
    )
    schema = definition.resource(
        "A set of like Slurm worker nodes. Pulumi declares their StatefulSet; the operator sets its size from here, "
        "sparing jobs.",
        _spec(),
        _status(),
        not_reserved,
        own_set,
    )
    return definition.definition(
        "NodeSet",
        schema,
        [
            definition.column("Wanted", "integer", ".spec.replicas"),
            definition.column("Ready", "integer", ".status.readyReplicas", "Nodes that take jobs now"),
            *definition.count_columns(".status"),
        ],
        scale={
            "specReplicasPath": ".spec.replicas",
            "statusReplicasPath": ".status.replicas",
            "labelSelectorPath": ".status.selector",
        },
    )
