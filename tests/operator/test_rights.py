"""What the operator's ServiceAccount may write, tried on a real API server under the declared Role and policy."""

from __future__ import annotations

import copy
import functools
import itertools
import json
from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from components import slurm_cluster
from components.config import parse
from components.control.declared_pods import CONTAINER_FIELDS, POD_FIELDS
from components.kubernetes.manifest import plural
from contract import names
from tests.manifests.test_server_side_dry_run import VARIANTS
from tests.operator.world import STRATEGIC, Admin, until
from tests.unit.samples import EVERYTHING, SMALL, changed

pytestmark = pytest.mark.apiserver

Body = dict[str, Any]

APPLY = {"Content-Type": "application/apply-patch+yaml"}
JSON_PATCH = {"Content-Type": "application/json-patch+json"}
DRY = {"dryRun": "All"}
OURS = {"fieldManager": names.FIELD_MANAGER, "force": "true"}
CLUSTER_WIDE = ("ClusterRole", "ClusterRoleBinding", "ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding")
REPLACES = changed("nodeSets.0.reactions", {"replace": True}, EVERYTHING)
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
        """What Pulumi does."""
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

    def write(self, body: Mapping[str, Any], user: str = "") -> str:
        """Apply an object as a heal does."""
        return self.call("PATCH", f"{path_of(body)}/{body['metadata']['name']}", body, user, **APPLY)

    def change(self, kind: str, name: str, change: Any, user: str = "", **headers: str) -> str:
        """Merge a change into an object, or carry out a JSON patch."""
        return self.call("PATCH", f"{self.path(kind)}/{name}", change, user, **(headers or STRATEGIC))

    def path(self, kind: str) -> str:
        api = {
            "StatefulSet": "apps/v1", "NodeSet": names.API_VERSION, "SlurmCluster": names.API_VERSION,
            "Lease": "coordination.k8s.io/v1", "Event": "events.k8s.io/v1",
        }.get(kind, "v1")  # fmt: skip
        metadata = {} if kind == "Node" else self.metadata("")
        return path_of({"apiVersion": api, "kind": kind, "metadata": metadata})

    def workloads(self) -> list[Body]:
        return [each for each in self.held if "template" in each.get("spec", {})]


@pytest.fixture(scope="module", params=[*VARIANTS])
def any_stack(admin: Admin, request: pytest.FixtureRequest) -> Stack:
    return Stack(admin, VARIANTS[request.param])


@pytest.fixture(scope="module")
def stack(admin: Admin) -> Stack:
    return Stack(admin, REPLACES)


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
CLONE["spec"]["resources"] = {"requests": {"storage": "1Gi"}}  # type: ignore[dict-item]
EXTRA_OF_PODS: dict[str, tuple[Body, str]] = {
    "host path": ({"volumes": [HOST]}, "the program's volumes alone; got {} with host"),
    "Secret": ({"volumes": [{"name": "host", "secret": {"secretName": "x"}}]}, "the program's volumes alone"),
    "token": (
        {"volumes": [{"name": "host", "projected": {"sources": [{"serviceAccountToken": {"path": "x"}}]}}]},
        "the program's volumes alone",
    ),
    "clone": ({"volumes": [{"name": "host", "ephemeral": {"volumeClaimTemplate": CLONE}}]}, "volumes alone"),
    **{
        name: ({name: True}, f"access to the machine and to Kubernetes; got {{}} with another {name}")
        for name in ("hostNetwork", "hostPID", "hostIPC")
    },
    "node": ({"nodeName": "x"}, "another nodeName"),
    "account": ({"serviceAccountName": "default"}, "another serviceAccountName"),
    "kernel": ({"securityContext": {"sysctls": [{"name": "kernel.msgmax", "value": "1"}]}}, "another securityContext"),
    "init": ({"initContainers": [{"name": "first", "image": "evil"}]}, "with another image"),
    "second": ({"containers": [{"name": "second", "image": "evil"}]}, "with another image"),
}
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


POD_SPEC = {"containers": [{"name": "a", "image": "none"}]}


@pytest.fixture(scope="module")
def objects(stack: Stack) -> Stack:
    """A cluster's pod and a stranger's, a removed node set's StatefulSet and a stranger's, a NodeSet and its cluster."""
    labels = {names.LABEL_NAME: names.APPLICATION, names.LABEL_INSTANCE: stack.cluster, names.LABEL_COMPONENT: "worker"}
    spec = {"serviceName": "a", "selector": {"matchLabels": labels}}
    spec["template"] = {"metadata": {"labels": labels}, "spec": POD_SPEC}
    nodes = {"cluster": stack.cluster, "statefulSet": "cpu"}
    for name, own in (("removed", labels), ("strangers", {"app": "x"})):
        metadata = stack.metadata(name, labels=own)
        for api, kind, content in (("v1", "Pod", POD_SPEC), ("apps/v1", "StatefulSet", spec)):
            stack.declare({"apiVersion": api, "kind": kind, "metadata": metadata, "spec": content})
    for kind, name, content in (("NodeSet", "cpu", nodes), ("SlurmCluster", "dev", {"revision": "r"})):
        stack.declare(
            {"apiVersion": names.API_VERSION, "kind": kind, "metadata": stack.metadata(name), "spec": content}
        )
    return stack


EVICTABLE, CONFIG = {names.LABEL_EVICTABLE: "true"}, {names.ANNOTATION_CONFIG: "now"}
POD_KEEPS = f"changes nothing of a pod but {names.LABEL_EVICTABLE} and {names.ANNOTATION_CONFIG}"


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"metadata": {"labels": EVICTABLE}}, ""),
        ({"metadata": {"annotations": CONFIG}}, ""),
        ({"metadata": {"labels": {"x": "y"}}}, POD_KEEPS),
        ({"metadata": {"labels": {names.LABEL_COMPONENT: None}}}, POD_KEEPS),
        ({"metadata": {"annotations": {"x": "y"}}}, POD_KEEPS),
        ({"metadata": {"finalizers": ["x/y"]}}, POD_KEEPS),
        ({"spec": {"containers": [{"name": "a", "image": "evil"}]}}, POD_KEEPS),
        ({"spec": {"activeDeadlineSeconds": 1}}, POD_KEEPS),
    ],
)
def test_a_pod_is_labelled_and_no_more(objects: Stack, change: Body, words: str) -> None:
    answer = objects.change("Pod", "removed", change)
    assert (words in answer) if words else not answer, answer
    assert "touches no pods but the cluster's" in objects.change("Pod", "strangers", change)


def test_pods_are_deleted_and_never_made(objects: Stack) -> None:
    assert objects.call("DELETE", f"{objects.path('Pod')}/removed") == ""
    assert "touches no pods but" in objects.call("DELETE", f"{objects.path('Pod')}/strangers")
    body = {"apiVersion": "v1", "kind": "Pod", "metadata": objects.metadata("new"), "spec": POD_SPEC}
    assert "cannot create" in objects.create(body)


def test_a_removed_node_sets_statefulset_shrinks_and_goes(objects: Stack) -> None:
    smaller = {"spec": {"replicas": 0}}
    assert objects.change("StatefulSet", "removed", smaller) == ""
    assert objects.call("DELETE", f"{objects.path('StatefulSet')}/removed") == ""
    only = "writes only objects that the program declares; got statefulsets.apps/strangers"
    assert only in objects.change("StatefulSet", "strangers", smaller)
    assert only in objects.call("DELETE", f"{objects.path('StatefulSet')}/strangers")
    other_pod = {"spec": {"template": {"spec": {"containers": [{"name": "a", "image": "evil"}]}}}}
    assert "with another image" in objects.change("StatefulSet", "removed", other_pod)


def test_a_declared_set_is_sized_while_its_pods_are_those_of_another_revision(objects: Stack) -> None:
    declared = next(each for each in objects.workloads() if each["metadata"]["name"] == "cpu")
    before = copy.deepcopy(declared)
    before["spec"]["template"]["spec"]["containers"][0]["image"] = "before"
    objects.declare(before)
    assert objects.change("StatefulSet", "cpu", {"spec": {"replicas": 5}}) == ""
    assert objects.change("StatefulSet", "cpu", {"spec": {"updateStrategy": {"type": "OnDelete"}}}) == ""
    assert objects.call("DELETE", f"{objects.path('StatefulSet')}/cpu") == ""


SET_KEEPS = f"changes nothing of a NodeSet but replicas, {names.ANNOTATION_REST} and its own finalizer"


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"spec": {"replicas": 3}}, ""),
        ({"metadata": {"finalizers": [names.FINALIZER], "annotations": {names.ANNOTATION_REST: "http://x"}}}, ""),
        ({"metadata": {"finalizers": ["x/y"]}}, SET_KEEPS),
        ({"metadata": {"annotations": {names.ANNOTATION_FORCE: "true"}}}, SET_KEEPS),
        ({"metadata": {"labels": {"x": "y"}}}, SET_KEEPS),
        ({"spec": {"update": {"paused": True}}}, SET_KEEPS),
    ],
)
def test_of_a_node_set_it_writes_its_finalizer_and_a_first_size(objects: Stack, change: Body, words: str) -> None:
    answer = objects.change("NodeSet", "cpu", change)
    assert (words in answer) if words else not answer, answer


def test_a_size_that_somebody_said_stays(objects: Stack) -> None:
    spec = {"cluster": objects.cluster, "statefulSet": "sized", "replicas": 2}
    body = {"apiVersion": names.API_VERSION, "kind": "NodeSet", "metadata": objects.metadata("sized"), "spec": spec}
    objects.declare(body)
    assert "only where nobody has said one" in objects.change("NodeSet", "sized", {"spec": {"replicas": 3}})


@pytest.mark.parametrize(("kind", "name"), [("NodeSet", "cpu"), ("SlurmCluster", "dev")])
def test_it_tells_the_status_of_what_it_works_from(objects: Stack, kind: str, name: str) -> None:
    body = {
        "apiVersion": names.API_VERSION,
        "kind": kind,
        "metadata": {"name": name},
        "status": {"message": "all well"},
    }
    assert objects.call("PATCH", f"{objects.path(kind)}/{name}/status", body, **APPLY) == ""
    assert "cannot patch" in objects.change("SlurmCluster", "dev", {"spec": {"revision": "r2"}})


def test_it_writes_events_and_its_own_lease(objects: Stack) -> None:
    lease = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "spec": {"holderIdentity": "me"}}
    assert objects.create({**lease, "metadata": objects.metadata(names.LEASE)}) == ""
    assert "holds no lease but its own" in objects.create({**lease, "metadata": objects.metadata("another")})
    about = {"apiVersion": "v1", "kind": "Pod", "name": "removed", "namespace": objects.namespace}
    core = {"apiVersion": "v1", "kind": "Event", "metadata": objects.metadata("told"), "involvedObject": about}
    assert objects.create(core) == ""
    new = {"apiVersion": "events.k8s.io/v1", "kind": "Event", "metadata": objects.metadata("new"), "regarding": about}
    new |= {"eventTime": "2026-01-01T00:00:00.000000Z", "reportingController": "a", "reportingInstance": "a"}
    assert objects.create({**new, "action": "a", "reason": "a", "type": "Normal"}) == ""


NODE_KEEPS = "changes nothing of a Kubernetes node but unschedulable, and taint and annotation"
OTHERS_TAINT = {"key": "others", "value": "x", "effect": "NoExecute"}
UNFIT = {"key": names.UNFIT_TAINT, "value": "cpu-0", "effect": "NoSchedule"}


@pytest.fixture(scope="module")
def node(stack: Stack) -> Iterator[str]:
    name = f"machine-of-{stack.namespace}"
    metadata = {"name": name, "labels": {"zone": "a"}, "annotations": {"others": "x"}}
    spec = {"podCIDR": "10.9.0.0/24", "podCIDRs": ["10.9.0.0/24"], "providerID": "", "taints": [OTHERS_TAINT]}
    body = {"apiVersion": "v1", "kind": "Node", "metadata": metadata, "spec": spec}
    # Kubernetes adds a taint of its own to a new node.
    stack.admin.call("POST", "/api/v1/nodes", body)
    stack.admin.call("PATCH", f"/api/v1/nodes/{name}", {"spec": {"taints": [OTHERS_TAINT]}}, headers=STRATEGIC)
    yield name
    stack.admin.call("DELETE", f"/api/v1/nodes/{name}")


def cordon(**spec: Any) -> Body:
    """What the operator writes to a machine that it takes a worker from."""
    annotations = {names.UNFIT_TAINT: "cpu-0: gpus"}
    return {
        "metadata": {"annotations": annotations},
        "spec": {"unschedulable": True, "taints": [OTHERS_TAINT, UNFIT], **spec},
    }


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (cordon(), ""),
        (cordon(taints=[UNFIT]), "changes no taint of a Kubernetes node but"),
        (cordon(taints=[OTHERS_TAINT, {**UNFIT, "effect": "NoExecute"}]), "which is NoSchedule"),
        (cordon(taints=[{**OTHERS_TAINT, "value": "y"}, UNFIT]), "changes no taint of a Kubernetes node but"),
        (cordon(providerID="evil://x"), NODE_KEEPS),
        ({"metadata": {"labels": {"zone": "b"}}}, NODE_KEEPS),
        ({"metadata": {"labels": {"new": "b"}}}, NODE_KEEPS),
        ({"metadata": {"labels": {"zone": None}}}, NODE_KEEPS),
        ({"metadata": {"annotations": {"others": None}}}, NODE_KEEPS),
        ({"metadata": {"annotations": {"new": "y"}}}, NODE_KEEPS),
        ({"metadata": {"finalizers": ["x/y"]}}, NODE_KEEPS),
    ],
)
def test_a_kubernetes_node_is_cordoned_and_no_more(stack: Stack, node: str, change: Body, words: str) -> None:
    answer = stack.change("Node", node, change)
    assert (words in answer) if words else not answer, answer


def test_no_cordon_is_lifted(stack: Stack, node: str) -> None:
    stack.admin.call("PATCH", f"/api/v1/nodes/{node}", cordon(), headers=STRATEGIC)
    assert "lifts no cordon" in stack.change("Node", node, {"spec": {"unschedulable": False}})


def test_a_right_that_somebody_gives_it_opens_nothing_more(stack: Stack) -> None:
    """The policy knows what the operator writes; a binding by mistake, such as to cluster-admin, does not matter."""
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"}
    subject = {"kind": "ServiceAccount", "name": names.OPERATOR, "namespace": stack.namespace}
    binding = {"metadata": {"name": "mistake"}, "roleRef": role, "subjects": [subject]}
    path = f"/apis/rbac.authorization.k8s.io/v1/namespaces/{stack.namespace}/rolebindings"
    stack.admin.call("POST", path, binding)
    try:
        pod = {"apiVersion": "v1", "kind": "Pod", "metadata": stack.metadata("new"), "spec": POD_SPEC}
        until(lambda: "creates no pods" in stack.create(pod), "the right is in force")
        job = {"apiVersion": "batch/v1", "kind": "Job", "metadata": stack.metadata("new")}
        template = {"spec": {**POD_SPEC, "restartPolicy": "Never"}}
        assert "writes no other kind than it needs; got jobs.batch/new" in stack.create(
            {**job, "spec": {"template": template}}
        )
    finally:
        stack.admin.call("DELETE", f"{path}/mistake")


def test_nobody_else_is_bound(admin: Admin, stack: Stack) -> None:
    """An administrator is not, nor is the operator of another stack: each has a policy of its own namespace."""
    other = Stack(admin, SMALL)
    binding = {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding", "metadata": stack.metadata("guest")}
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"}
    guest = {"kind": "ServiceAccount", "name": names.OPERATOR, "namespace": other.namespace}
    stack.declare({**binding, "roleRef": role, "subjects": [guest]})
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": stack.metadata("new"), "spec": POD_SPEC}
    until(lambda: stack.create(pod, f"system:serviceaccount:{other.namespace}:{names.OPERATOR}") == "", "it may")
    assert stack.call("POST", path_of(pod), pod, "admin", **{"Impersonate-Group": "system:masters"}) == ""
