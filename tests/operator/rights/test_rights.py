"""Rights of the operator's ServiceAccount to write declared objects, at a real API server."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Any

import pytest

from components.control.declared_pods import CONTAINER_FIELDS, POD_FIELDS
from components.kubernetes.manifest import plural
from tests.manifests.declared_stacks import VARIANTS
from tests.operator.rights.rights import APPLY, REPLACES, Body, Stack, path_of
from tests.operator.worlds.api_server import Admin
from tests.unit.samples import SMALL, changed

pytestmark = pytest.mark.apiserver


MANY = changed("nodeSets", [{**SMALL["nodeSets"][0], "name": f"set-{number}"} for number in range(25)])
"""More pods than one expression of the policy holds."""
STACKS = {**VARIANTS, "many node sets": MANY}


@pytest.fixture(scope="module", params=[*STACKS])
def any_stack(admin: Admin, request: pytest.FixtureRequest) -> Iterator[Stack]:
    yield from _declared(admin, STACKS[request.param])


@pytest.fixture(scope="module")
def stack(admin: Admin) -> Iterator[Stack]:
    yield from _declared(admin, REPLACES)


def _declared(admin: Admin, raw: Mapping[str, Any]) -> Iterator[Stack]:
    """Yield a stack. At its end its Services go: other files on this API server declare the same node ports."""
    stack = Stack(admin, raw)
    yield stack
    for each in stack.held:
        if each["kind"] == "Service":
            with suppress(RuntimeError):  # Not every test declares all of them.
                admin.call("DELETE", f"{path_of(each)}/{each['metadata']['name']}")


def test_every_declared_object_can_be_restored(any_stack: Stack) -> None:
    refused = {}
    for each in any_stack.held:
        key = f"{each['kind']} {each['metadata']['name']}"
        if each["kind"] != "PersistentVolumeClaim":
            refused[f"{key} deleted"] = any_stack.write(each)
        spoilt = copy.deepcopy(each)
        spoilt["metadata"]["labels"]["somebody"] = "else"
        if "template" in each.get("spec", {}):
            spoilt["spec"]["template"]["spec"]["containers"][0]["image"] = "another"
            spoilt["spec"]["template"]["metadata"]["annotations"] = {"kubectl.kubernetes.io/restartedAt": "now"}
        any_stack.admin.call("PATCH", f"{path_of(each)}/{each['metadata']['name']}", spoilt, headers=APPLY,
                             params={"fieldManager": "kubectl", "force": "true"})  # fmt: skip
        refused[f"{key} edited"] = any_stack.write(each)
    assert {key: words for key, words in refused.items() if words} == {}
    assert len(refused) > 30


def spoilt(value: Any) -> Iterator[tuple[str, Any]]:
    """Each way to change one value of what is declared, and where that is."""
    if isinstance(value, dict):
        for key, item in value.items():
            yield from ((f".{key}{path}", {**value, key: other}) for path, other in spoilt(item))
    elif isinstance(value, list):
        for number, item in enumerate(value):
            for path, other in spoilt(item):
                yield f"[{number}]{path}", [*value[:number], other, *value[number + 1 :]]
    else:
        yield "", (not value if isinstance(value, bool) else value + 1 if isinstance(value, int) else f"{value}x")


def spoilt_pods(declared: Body) -> Iterator[tuple[str, Body]]:
    """A workload with one declared value changed that decides what its pods may do."""
    pod = declared["spec"]["template"]["spec"]
    parts = [([*declared], key, pod[key]) for key in (*POD_FIELDS, "volumes") if key in pod]
    for _, key, value in parts:
        for path, other in spoilt(value):
            yield f"{key}{path}", with_pod(declared, {**pod, key: other})
    for number, container in enumerate(pod["containers"]):
        for key in (key for key in CONTAINER_FIELDS if key in container):
            for path, other in spoilt(container[key]):
                containers = [*pod["containers"]]
                containers[number] = {**container, key: other}
                yield f"{container['name']}.{key}{path}", with_pod(declared, {**pod, "containers": containers})


def with_pod(declared: Body, pod: Body) -> Body:
    return {**declared, "spec": {**declared["spec"], "template": {**declared["spec"]["template"], "spec": pod}}}


UNBOUND = ("emptyDir", "ephemeral")
"""Nothing of the size of an empty volume is bound."""
INVALID = "is invalid: "
"""The API server's own word about an object; it comes before the policy's."""


def test_no_declared_value_of_a_pod_can_be_changed(stack: Stack) -> None:
    answers = {
        f"{each['metadata']['name']} {where}": stack.write(other)
        for each in stack.workloads()
        for where, other in spoilt_pods(each)
        if not any(word in where for word in UNBOUND)
    }
    assert [key for key, words in answers.items() if not words] == []
    refused = [words for words in answers.values() if INVALID not in words]
    assert all("the operator declares" in words for words in refused)
    assert len(refused) > 150


HOST: Body = {"name": "host", "hostPath": {"path": "/"}}
CLONE = {"spec": {"dataSource": {"kind": "PersistentVolumeClaim", "name": "x"}, "accessModes": ["ReadWriteOnce"]}}
CLONE["spec"]["resources"] = {"requests": {"storage": "1Gi"}}
EXTRA_OF_PODS: dict[str, tuple[Body, str]] = {
    "host path": ({"volumes": [HOST]}, "the program's volumes alone; got {} with host"),
    "Secret": ({"volumes": [{"name": "host", "secret": {"secretName": "x"}}]}, "the program's volumes alone"),
    "token": (
        {"volumes": [{"name": "host", "projected": {"sources": [{"serviceAccountToken": {"path": "x"}}]}}]},
        "the program's volumes alone",
    ),
    "clone": ({"volumes": [{"name": "host", "ephemeral": {"volumeClaimTemplate": CLONE}}]}, "volumes alone"),
    **{
        name: ({name: True}, f"access to its node and to Kubernetes; got {{}} with another {name}")
        for name in ("hostNetwork", "hostPID", "hostIPC")
    },
    "node": ({"nodeName": "x"}, "another nodeName"),
    "account": ({"serviceAccountName": "default"}, "another serviceAccountName"),
    "kernel": ({"securityContext": {"sysctls": [{"name": "kernel.msgmax", "value": "1"}]}}, "another securityContext"),
    "init": ({"initContainers": [{"name": "first", "image": "evil"}]}, "with another image"),
    "second": ({"containers": [{"name": "second", "image": "evil"}]}, "with another image"),
}
# What whoever has the operator's token might give a container: the policy refuses each, and says so.
EXTRA_OF_CONTAINERS: dict[str, tuple[Body, str]] = {
    "image": ({"image": "evil"}, "images, commands, mounts and privileges; got {} with another image"),
    "command": ({"command": ["/bin/sh"]}, "another command"),
    "privileged": ({"securityContext": {"privileged": True}}, "another securityContext"),
    "key": (
        {"env": [{"name": "A", "valueFrom": {"secretKeyRef": {"name": "x", "key": "y"}}}]},
        "with another env",
    ),
    "keys": ({"envFrom": [{"secretRef": {"name": "x"}}]}, "with another envFrom"),
    "hook": ({"lifecycle": {"postStart": {"exec": {"command": ["x"]}}}}, "with another lifecycle"),
    "probe": ({"livenessProbe": {"exec": {"command": ["x"]}}}, "with another livenessProbe"),
}


def test_no_pod_gets_more_than_is_declared(stack: Stack) -> None:
    for each in stack.workloads():
        pod = each["spec"]["template"]["spec"]
        key = f"{plural(each['kind'])}.apps/{each['metadata']['name']}"
        for extra, words in EXTRA_OF_PODS.values():
            joined = {
                name: pod.get(name, []) + item if isinstance(item, list) else item for name, item in extra.items()
            }
            assert words.format(key) in stack.write(with_pod(each, {**pod, **joined})), extra
        first, *others = pod["containers"]
        for extra, words in EXTRA_OF_CONTAINERS.values():
            changed_pod = {**pod, "containers": [{**first, **extra}, *others]}
            if "livenessProbe" in extra and "httpGet" in first.get("livenessProbe", {}):
                continue  # Two handlers in one probe are invalid.
            assert words.format(key) in stack.write(with_pod(each, changed_pod)), extra
        annotated = copy.deepcopy(each)
        kept = annotated["spec"]["template"]["metadata"].setdefault("annotations", {})
        kept[f"container.apparmor.security.beta.kubernetes.io/{first['name']}"] = "unconfined"
        assert "annotates pods as the program does" in stack.write(annotated)


def test_nothing_is_made_under_another_name(stack: Stack) -> None:
    kinds = {each["kind"]: each for each in stack.held}
    for kind, each in kinds.items():
        answer = stack.create({**each, "metadata": {**each["metadata"], "name": "another"}})
        expected = (
            "cannot create" if kind == "PersistentVolumeClaim" else "writes only objects that the program declares"
        )
        assert expected in answer, (kind, answer)
    assert len(kinds) == 11


@pytest.mark.parametrize(
    ("kind", "change", "words"),
    [
        (
            "Secret",
            {"type": "kubernetes.io/service-account-token", "annotations": {"kubernetes.io/service-account.name": "x"}},
            "writes type as the program declares them; got secrets/slurm-",
        ),
        (
            "Service",
            {"spec": {"type": "ExternalName", "externalName": "evil.example"}},
            "writes externalIPs, externalN",
        ),
        (
            "Service",
            {"spec": {"externalIPs": ["192.0.2.1"], "ports": [{"port": 1}]}},
            "writes externalIPs, externalName",
        ),
        (
            "RoleBinding",
            {"subjects": [{"kind": "ServiceAccount", "name": "default"}]},
            "writes roleRef, subjects as the program declares them",
        ),
    ],
)
def test_what_gives_rights_is_as_declared(stack: Stack, kind: str, change: Body, words: str) -> None:
    declared = next(each for each in stack.held if each["kind"] == kind)
    spec = {key: value for key, value in change.items() if key != "annotations"}
    metadata = {**declared["metadata"], "annotations": change.get("annotations", {})}
    assert words in stack.create({**declared, **spec, "metadata": metadata})
