"""The admission policy that binds what the operator's ServiceAccount may write.

A Role can't say which names may be created, nor what an object may contain. The operator restores objects, so it may
create workloads. With that right alone, whoever has its token could run any image as root on any Kubernetes node.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from components.control.cel import literal, strings
from components.control.declared_pods import CONTAINER_FIELDS, POD_FIELDS, UNBOUND_VOLUMES, rights
from components.control.operator_rules import BOUND_FIELDS, WORKLOADS, rules
from components.kubernetes.manifest import Manifest, plural
from contract import names

Object = Mapping[str, Any]

_API: Final = "admissionregistration.k8s.io/v1"
_SERVICE_DEFAULTS: Final = {"type": "ClusterIP"}
_PART_LENGTH: Final = 50_000
"""Characters of one expression; CEL's parser takes 100,000."""


def manifests(namespace: str, held: Iterable[Object], metadata: Mapping[str, Any]) -> list[Manifest]:
    """The policy and its binding. The operator can't change them: no right in a namespace reaches them.

    Args:
        namespace: The operator's.
        held: Bodies of the objects that the operator restores.
        metadata: Name, labels and annotations of both.
    """
    objects = list(held)
    account = f"system:serviceaccount:{namespace}:{names.OPERATOR}"
    anything = {"apiVersions": ["*"], "operations": ["*"]}
    policy = {
        "failurePolicy": "Fail",
        "matchConstraints": {
            # An object outside of namespaces matches whatever the selector says.
            "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": namespace}},
            "resourceRules": [
                {**anything, "apiGroups": ["*"], "resources": ["*/*"], "scope": "Namespaced"},
                {**anything, "apiGroups": [""], "resources": ["nodes"], "scope": "Cluster"},
            ],
        },
        # Nothing else is evaluated for anybody else: a rule that fails stops nobody but the operator.
        "matchConditions": [{"name": "operator", "expression": f"request.userInfo.username == {literal(account)}"}],
        "variables": [{"name": name, "expression": text} for name, text in _variables(objects).items()],
        "validations": [rule.validation() for rule in rules(_declared_names(objects))],
    }
    binding = {"policyName": metadata["name"], "validationActions": ["Deny"]}
    return [
        Manifest({"apiVersion": _API, "kind": kind, "metadata": metadata, "spec": spec}, held=False)
        for kind, spec in (("ValidatingAdmissionPolicy", policy), ("ValidatingAdmissionPolicyBinding", binding))
    ]


def _kind(declared: Object) -> str:
    """A kind as `variables.kind` has it, such as statefulsets.apps."""
    group = str(declared["apiVersion"]).rpartition("/")[0]
    return plural(declared["kind"]) + (f".{group}" if group else "")


def _key(declared: Object) -> str:
    return f"{_kind(declared)}/{declared['metadata']['name']}"


def _declared_names(objects: Iterable[Object]) -> dict[str, list[str]]:
    declared = {"configmaps": [names.CONFIG_ACTIVE]}
    for body in objects:
        declared.setdefault(_kind(body), []).append(body["metadata"]["name"])
    return {kind: sorted(declared[kind]) for kind in sorted(declared)}


def _bound(objects: Iterable[Object]) -> dict[str, dict[str, Any]]:
    """Return the fields that the operator may not change: kind/name → field → declared value."""
    bound = {}
    for body in objects:
        content = {**_SERVICE_DEFAULTS, **body["spec"]} if body["kind"] == "Service" else body
        if fields := BOUND_FIELDS.get(_kind(body)):
            bound[_key(body)] = {field: content[field] for field in fields if field in content}
    return bound


def _pods(objects: Iterable[Object]) -> list[dict[str, Any]]:
    """Kind and name → rights of the declared pods, in as many maps as expressions take."""
    parts: list[dict[str, Any]] = [{}]
    length = 0
    for body in (body for body in objects if _kind(body) in WORKLOADS):
        pod = rights(body["spec"]["template"])
        length += len(literal(pod))
        if length > _PART_LENGTH and parts[-1]:
            parts.append({})
            length = len(literal(pod))
        parts[-1][_key(body)] = pod
    return parts


def _variables(objects: Sequence[Object]) -> dict[str, str]:
    """Variables of the rules. Each may use those before it, and is evaluated when it is first used."""
    return {**_request_variables(objects), **_content_variables(objects), **_pod_variables(objects)}


def _request_variables(objects: Iterable[Object]) -> dict[str, str]:
    """Return the variables that name the request's object, and tell whether it belongs to this cluster."""
    application, component = literal(names.LABEL_NAME), literal(names.LABEL_COMPONENT)
    return {
        "kind": "request.resource.resource + (request.resource.group == '' ? '' : '.' + request.resource.group)"
        " + (has(request.subResource) && request.subResource != '' ? '/' + request.subResource : '')",
        "name": "object == null ? oldObject.metadata.name : object.metadata.name",
        "key": "variables.kind + '/' + variables.name",
        "declared": literal(_declared_names(objects)),
        "isDeclared": "variables.name in variables.declared[?variables.kind].orValue([])",
        "labels": "oldObject == null ? {} : oldObject.metadata.?labels.orValue({})",
        # A namespace holds one Slurm cluster.
        "isOurs": f"variables.labels[?{application}] == optional.of({literal(names.APPLICATION)})",
        # The StatefulSet of a node set that is declared no more; it shrinks until its jobs have ended.
        "isRemovedSet": "variables.kind == 'statefulsets.apps' && request.operation in ['UPDATE', 'DELETE']"
        f" && variables.isOurs && variables.labels[?{component}] == optional.of('worker')",
    }


def _content_variables(objects: Iterable[Object]) -> dict[str, str]:
    """Fields of objects without pods."""
    return {
        "bound": literal(_bound(objects)),
        "content": "variables.kind == 'services' ? object.spec : object",
        "oldContent": "variables.kind == 'services' ? oldObject.spec : oldObject",
    }


def _pod_variables(objects: Iterable[Object]) -> dict[str, str]:
    """The pods of a workload that the request makes or changes, the declared ones, and how they differ."""
    parts = {f"pods{number}": part for number, part in enumerate(_pods(objects))}
    declared = "{}"
    for part in reversed(parts):
        declared = f"variables.key in variables.{part} ? variables.{part}[variables.key] : ({declared})"
    volume = "variables.declaredPod.?volumes[?volume.name].orValue({})"
    copied = "volume.?ephemeral.?volumeClaimTemplate.?spec.orValue({})"
    return {
        **{name: literal(part) for name, part in parts.items()},
        "declaredPod": declared,
        # A template that stays is nobody's change: an update may be under way, or the object another's.
        "setsPod": f"variables.kind in {strings(WORKLOADS)} && (request.operation == 'CREATE'"
        " || (request.operation == 'UPDATE' && object.spec.template != oldObject.spec.template))",
        "pod": "variables.setsPod ? object.spec.template.spec : {}",
        "containers": "variables.pod.?containers.orValue([]) + variables.pod.?initContainers.orValue([])",
        "otherContainerFields": f"{strings(CONTAINER_FIELDS)}.filter(field, variables.containers.exists(container,"
        " container[?field] != variables.declaredPod.?containers[?container.name][?field]))",
        "otherPodFields": f"!variables.setsPod ? [] : {strings(POD_FIELDS)}.filter(field,"
        " variables.pod[?field] != variables.declaredPod.?pod[?field])",
        "otherVolumes": "variables.pod.?volumes.orValue([]).filter(volume, 'dataSource' in"
        f" {copied} || 'dataSourceRef' in {copied} || !dyn(volume).all(source, source == 'name'"
        f" || (source in {volume} && (source in {strings(UNBOUND_VOLUMES)} || volume[source] == {volume}[source]))))"
        ".map(volume, volume.name)",
        "annotations": "variables.setsPod ? object.spec.template.metadata.?annotations.orValue({}) : {}",
        "oldAnnotations": "variables.setsPod && oldObject != null"
        " ? oldObject.spec.template.metadata.?annotations.orValue({}) : {}",
    }
