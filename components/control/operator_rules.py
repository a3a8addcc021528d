"""The operator's rights to write, as rules of an admission policy.

The variables that the rules use are those of operator_policy.py.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from components.control.cel import literal, same, same_items, strings
from contract import names

WORKLOADS: Final = ("deployments.apps", "statefulsets.apps")
"""Kinds of declared objects that have a pod template."""
BOUND_FIELDS: Final[Mapping[str, tuple[str, ...]]] = {
    "rolebindings.rbac.authorization.k8s.io": ("roleRef", "subjects"),
    # Kubernetes fills a Secret of another type with the token of a ServiceAccount.
    "secrets": ("type",),
    "services": ("externalIPs", "externalName", "selector", "type"),
}
"""Fields that stay as declared: of the object, or of a Service's spec."""

_NODE_SETS: Final = f"{names.NODE_SETS}.{names.API_GROUP}"
_STATUSES: Final = (f"{_NODE_SETS}/status", f"{names.SLURM_CLUSTERS}.{names.API_GROUP}/status")
_EVENTS: Final = ("events", "events.events.k8s.io")
_LEASES: Final = "leases.coordination.k8s.io"
_CLAIMS: Final = "persistentvolumeclaims"
_POD_STATUS: Final = "pods/status"
_CHANGES: Final = "request.operation == 'UPDATE'"
_DELETES: Final = "request.operation == 'DELETE'"


@dataclass(frozen=True, slots=True)
class Rule:
    """A promise of the policy.

    Attributes:
        kinds: Which requests it is about, by `variables.kind`; without any it is about all.
        holds: CEL expression; the API server refuses the request where it does not hold.
        words: What the operator does by this rule, for the refusal.
        what: CEL expression of a string that says where the request breaks it.
    """

    kinds: Sequence[str]
    holds: str
    words: str
    what: str = "variables.key"

    def validation(self) -> dict[str, str]:
        """The rule as Kubernetes takes it.

        The refusal is Forbidden. Invalid would tell the operator that a field can't change, and it deletes the object.
        """
        about = f"!(variables.kind in {strings(self.kinds)}) || " if self.kinds else ""
        sentence = f"{literal(f'the operator {self.words}; got ')} + {self.what}"
        return {"expression": f"{about}({self.holds})", "messageExpression": sentence, "reason": "Forbidden"}


def rules(declared: Iterable[str]) -> list[Rule]:
    """All rules.

    Args:
        declared: Kinds of the declared objects.
    """
    own = (*_STATUSES, *_EVENTS, _LEASES, _NODE_SETS, "pods", _POD_STATUS, "nodes")
    return [
        Rule((), f"variables.kind in {strings((*declared, *own))}", "writes no other kind than it needs"),
        *_declared_rules(list(declared)),
        *_workload_rules(),
        *_pod_rules(),
        *_node_rules(),
        *_custom_rules(),
        Rule([_LEASES], f"variables.name == {literal(names.LEASE)}", "holds no lease but its own"),
    ]


def _declared_rules(kinds: list[str]) -> list[Rule]:
    unchanged = "oldObject != null && variables.content[?field] == variables.oldContent[?field]"
    return [
        Rule(
            kinds,
            "variables.isDeclared || variables.isRemovedSet",
            "writes only objects that the program declares",
        ),
        Rule([_CLAIMS], _CHANGES, "makes and deletes no claims: what is on a volume can't be declared"),
        *(
            Rule(
                [kind],
                f"{_DELETES} || {strings(fields)}.all(field,"
                f" variables.content[?field] == variables.bound[?variables.key][?field] || ({unchanged}))",
                f"writes {', '.join(fields)} as the program declares them",
            )
            for kind, fields in BOUND_FIELDS.items()
        ),
    ]


def _workload_rules() -> list[Rule]:
    """Rules about pod templates that the operator creates or changes."""
    allowed = (
        "variables.declaredPod.?annotations[?annotation] == optional.of(variables.annotations[annotation])"
        " || variables.oldAnnotations[?annotation] == optional.of(variables.annotations[annotation])"
    )
    return [
        Rule(
            WORKLOADS,
            "variables.otherContainerFields.size() == 0",
            "declares containers with the program's images, commands, mounts and privileges",
            "variables.key + ' with another ' + variables.otherContainerFields.join(', ')",
        ),
        Rule(
            WORKLOADS,
            "variables.otherPodFields.size() == 0",
            "declares pods with the program's access to its node and to Kubernetes",
            "variables.key + ' with another ' + variables.otherPodFields.join(', ')",
        ),
        Rule(
            WORKLOADS,
            "variables.otherVolumes.size() == 0",
            "declares pods with the program's volumes alone",
            "variables.key + ' with ' + variables.otherVolumes.join(', ')",
        ),
        Rule(
            WORKLOADS,
            f"variables.annotations.all(annotation, {allowed})",
            "annotates pods as the program does",
        ),
    ]


def _pod_rules() -> list[Rule]:
    conditions = [f"{root}.?status.?conditions.orValue([])" for root in ("object", "oldObject")]
    own = f"[{literal(names.POD_CONDITION)}, {literal(names.POD_HEALTH)}]"
    others = [f"{condition}.filter(item, !(item.type in {own}))" for condition in conditions]
    return [
        Rule([_POD_STATUS], "variables.isOurs", "tells the state of no pods but the cluster's"),
        Rule(
            [_POD_STATUS],
            f"{_CHANGES} && {same('status', ['conditions'])} && {same('metadata.labels')}"
            f" && {same('metadata.annotations')} && {_owned_as_before()}"
            f" && {others[0]}.all(item, item in {others[1]}) && {others[1]}.all(item, item in {others[0]})",
            f"changes nothing of a pod's status but the conditions {names.POD_CONDITION} and {names.POD_HEALTH}",
        ),
        Rule(["pods"], "request.operation in ['UPDATE', 'DELETE']", "creates no pods"),
        Rule(["pods"], "variables.isOurs", "touches no pods but the cluster's"),
        Rule(
            ["pods"],
            f"{_DELETES} || (object.?spec == oldObject.?spec"
            f" && {same('metadata.labels', [names.LABEL_EVICTABLE])}"
            f" && {same('metadata.annotations', [names.ANNOTATION_CONFIG])} && {_owned_as_before()})",
            f"changes nothing of a pod but {names.LABEL_EVICTABLE} and {names.ANNOTATION_CONFIG}",
        ),
    ]


def _node_rules() -> list[Rule]:
    """Rules about Kubernetes nodes: it takes one out of service, with its reason, and says nothing else about it."""
    taints = [f"{root}.?spec.?taints.orValue([])" for root in ("object", "oldObject")]
    key = literal(names.UNFIT_TAINT)
    others = [f"{taint_list}.filter(taint, taint.key != {key})" for taint_list in taints]
    return [
        Rule(["nodes"], _CHANGES, "makes and deletes no Kubernetes nodes"),
        Rule(
            ["nodes"],
            f"!({_CHANGES}) || ({same('spec', ['unschedulable', 'taints'])} && {same('metadata.labels')}"
            f" && {same('metadata.annotations', [names.UNFIT_TAINT])} && {_owned_as_before()})",
            f"changes nothing of a Kubernetes node but unschedulable, and taint and annotation {names.UNFIT_TAINT}",
        ),
        Rule(
            ["nodes"],
            f"!({_CHANGES}) || (object.?spec.?unschedulable == oldObject.?spec.?unschedulable"
            " || object.?spec.?unschedulable == optional.of(true))",
            "lifts no cordon of a Kubernetes node",
        ),
        Rule(
            ["nodes"],
            f"!({_CHANGES}) || ({others[0]} == {others[1]}"
            f" && {taints[0]}.all(taint, taint.key != {key} || taint.effect == 'NoSchedule'))",
            f"changes no taint of a Kubernetes node but {names.UNFIT_TAINT}, which is NoSchedule",
        ),
    ]


def _custom_rules() -> list[Rule]:
    return [
        Rule([_NODE_SETS, *_STATUSES], _CHANGES, "makes and deletes no NodeSet and no SlurmCluster"),
        Rule(
            [_NODE_SETS],
            f"!({_CHANGES}) || ({same('spec', ['replicas'])} && {same('metadata.labels')}"
            f" && {same('metadata.annotations', [names.ANNOTATION_REST])}"
            f" && {same_items('metadata.finalizers', names.FINALIZER)}"
            " && object.metadata.?ownerReferences == oldObject.metadata.?ownerReferences)",
            f"changes nothing of a NodeSet but replicas, {names.ANNOTATION_REST} and its own finalizer",
        ),
        Rule(
            [_NODE_SETS],
            f"!({_CHANGES}) || !has(oldObject.spec.replicas) || object.spec.?replicas == oldObject.spec.?replicas",
            "says the size of a NodeSet only where nobody has said one",
        ),
    ]


def _owned_as_before() -> str:
    return " && ".join(
        f"object.metadata.?{key} == oldObject.metadata.?{key}" for key in ("finalizers", "ownerReferences")
    )
