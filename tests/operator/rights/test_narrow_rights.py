"""Rights of the operator's ServiceAccount to write pods, Kubernetes nodes and NodeSets, and to read Secrets."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

import pytest

from contract import names
from tests.operator.rights.rights import APPLY, REPLACES, Body, Stack, path_of
from tests.operator.worlds.api_server import STRATEGIC, Admin, until
from tests.unit.samples import SMALL

pytestmark = pytest.mark.apiserver


@pytest.fixture(scope="module")
def stack(admin: Admin) -> Stack:
    return Stack(admin, REPLACES)


POD_SPEC = {"containers": [{"name": "a", "image": "none"}]}


@pytest.fixture(scope="module")
def objects(stack: Stack) -> Stack:
    """The cluster's pod and StatefulSet of a removed node set, those of a stranger, a NodeSet and a SlurmCluster."""
    labels = {names.LABEL_NAME: names.APPLICATION, names.LABEL_INSTANCE: stack.cluster, names.LABEL_COMPONENT: "worker"}
    spec: Body = {"serviceName": "a", "selector": {"matchLabels": labels}}
    spec["template"] = {"metadata": {"labels": labels}, "spec": POD_SPEC}
    nodes: Body = {"cluster": stack.cluster, "statefulSet": "cpu"}
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


STATUS_KEEPS = f"changes nothing of a pod's status but the conditions {names.POD_CONDITION} and {names.POD_HEALTH}"


@pytest.mark.parametrize(
    ("status", "words"),
    [
        ({"conditions": [{"type": names.POD_CONDITION, "status": "True"}]}, ""),
        ({"conditions": [{"type": names.POD_HEALTH, "status": "True"}]}, ""),
        ({"conditions": [{"type": "Ready", "status": "True"}]}, STATUS_KEEPS),
        ({"conditions": [{"type": names.POD_CONDITION, "status": "True"}], "phase": "Failed"}, STATUS_KEEPS),
        ({"podIP": "192.0.2.1", "podIPs": [{"ip": "192.0.2.1"}]}, STATUS_KEEPS),
    ],
)
def test_of_a_pods_status_it_tells_slurms_state_alone(objects: Stack, status: Body, words: str) -> None:
    for name, expected in (("removed", words), ("strangers", "tells the state of no pods but the cluster's")):
        body = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "status": status}
        answer = objects.call("PATCH", f"{objects.path('Pod')}/{name}/status", body, **APPLY)
        assert (expected in answer) if expected else not answer, answer


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
    """Return what the operator writes to a Kubernetes node that it takes a worker from."""
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


@pytest.fixture
def mistake(stack: Stack, node: str) -> Iterator[Stack]:
    """Somebody made the operator's ServiceAccount an administrator of Kubernetes."""
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"}
    subject = {"kind": "ServiceAccount", "name": names.OPERATOR, "namespace": stack.namespace}
    path, name = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings", f"mistake-{stack.namespace}"
    stack.admin.call("POST", path, {"metadata": {"name": name}, "roleRef": role, "subjects": [subject]})
    until(lambda: "cannot delete" not in stack.call("DELETE", f"/api/v1/nodes/{node}"), "the right is in force")
    yield stack
    stack.admin.call("DELETE", f"{path}/{name}")


def test_a_right_by_mistake_opens_nothing_more_in_its_namespace(mistake: Stack, node: str) -> None:
    metadata = mistake.metadata("new")
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": POD_SPEC}
    assert "creates no pods" in mistake.create(pod)
    job = {"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata}
    job |= {"spec": {"template": {"spec": {**POD_SPEC, "restartPolicy": "Never"}}}}
    assert "writes no other kind than it needs; got jobs.batch/new" in mistake.create(job)
    claim = next(each for each in mistake.held if each["kind"] == "PersistentVolumeClaim")
    assert "makes and deletes no claims" in mistake.create(claim)
    nodes = {"cluster": mistake.cluster, "statefulSet": "new"}
    node_set = {"apiVersion": names.API_VERSION, "kind": "NodeSet", "metadata": metadata, "spec": nodes}
    assert "makes and deletes no NodeSet" in mistake.create(node_set)
    assert "makes and deletes no Kubernetes nodes" in mistake.call("DELETE", f"/api/v1/nodes/{node}")


def test_of_secrets_it_reads_the_declared_ones_and_the_ledger_alone(objects: Stack) -> None:
    secrets = objects.path("Secret")
    declared = [each for each in objects.held if each["kind"] == "Secret"]
    assert declared
    for secret in declared:
        objects.declare(secret)
        assert objects.call("GET", f"{secrets}/{secret['metadata']['name']}") == ""
    for ledger in (names.LEDGER, names.LEDGER_PAYLOADS):
        objects.declare({"apiVersion": "v1", "kind": "Secret", "metadata": objects.metadata(ledger)})
        assert objects.call("GET", f"{secrets}/{ledger}") == ""
    assert "cannot get" in objects.call("GET", f"{secrets}/strangers")
    assert "cannot list" in objects.call("GET", secrets)


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
