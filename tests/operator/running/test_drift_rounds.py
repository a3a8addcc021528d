"""Promises of healing, against a real API server and with only the rights of the operator's Role."""

from __future__ import annotations

import contextlib
import copy
import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from components.kubernetes import manifest
from devcluster.apiserver.control_plane import free_ports
from tests.operator.fakes import fake_dry_run, fake_slurmrestd
from tests.operator.fakes.fake_workloads import FakeWorkloads
from tests.operator.worlds.healed_world import (
    CONFIG,
    DATA,
    HELD,
    MOUNT,
    OBJECTS,
    POLICY,
    SECRET_VALUE,
    SSH,
    Body,
    begin,
    container,
    finish,
    half_an_hour_passes,
    heals,
)
from tests.operator.worlds.operator_rights import kubeconfig_of_role
from tests.operator.worlds.world import KEY, Admin, World, operator, passes, until

pytestmark = pytest.mark.apiserver


_NUMBERS = itertools.count()
REST = ("deployments", "slurm-rest")
EVIL: Body = {"name": "evil", "emptyDir": {}}


def pod_template(*containers: Body, **fields: Any) -> Body:
    """A change of a workload's pods."""
    return {"spec": {"template": {"spec": {"containers": list(containers), **fields} if containers else fields}}}


UNOWNED: Body = {"metadata": {"managedFields": [{}]}}
"""Nobody is noted to have written anything."""


@pytest.fixture(scope="module")
def port() -> int:
    return free_ports(1)[0]


@contextlib.contextmanager
def served(admin: Admin, folder: Path, port: int) -> Iterator[World]:
    """A declared cluster in a namespace of its own, another each time, and its operator."""
    with fake_slurmrestd.running(KEY) as slurm, fake_dry_run.running() as dry_run_url:
        found = World(admin, f"healing-{next(_NUMBERS)}", slurm.slurm, slurm.url, dry_run_url)
        kubeconfig = kubeconfig_of_role(found, folder, HELD)
        with FakeWorkloads(found):
            begin(found, "r1")
            finish(found, "r1")
            with operator(found, folder, kubeconfig, port):
                found.wait("Healing", "True")
                found.wait("Available", "True")
                yield found


@pytest.fixture(scope="module")
def world(admin: Admin, tmp_path_factory: pytest.TempPathFactory, port: int) -> Iterator[World]:
    """One cluster for most tests of this file; each leaves it as it was, since they may run in any order."""
    with served(admin, tmp_path_factory.mktemp("healing"), port) as found:
        yield found


def up(world: World, revision: str, objects: list[Body] = HELD) -> None:
    """`pulumi up`, with its wait."""
    begin(world, revision, objects)
    finish(world, revision)
    until(lambda: world.get("slurmclusters", "test")["status"].get("revision") == revision, "the revision is seen")
    world.wait("Healing", "True")


def content(live: Body) -> Body:
    """Return what an object says."""
    found = {key: value for key, value in copy.deepcopy(live).items() if key != "status"}
    for key in ("resourceVersion", "managedFields", "generation"):
        found["metadata"].pop(key, None)
    return found


def test_what_is_as_declared_is_left_alone(world: World) -> None:
    versions = {name: world.get(*name)["metadata"]["resourceVersion"] for name in (CONFIG, POLICY)}
    world.patch(*REST, {"metadata": {"annotations": {"note": "of a controller"}}})
    world.patch("persistentvolumeclaims", "slurm-jail", {"metadata": {"labels": {"mine": "x"}}})
    until(lambda: any("mine" in note and "slurm-jail" in note for note in heals(world)), "the operator has looked")
    assert world.get(*REST)["metadata"]["annotations"]["note"] == "of a controller"
    assert {name: world.get(*name)["metadata"]["resourceVersion"] for name in versions} == versions


@pytest.mark.parametrize(
    ("plural", "name", "change", "told"),
    [
        (*CONFIG, {"data": {"slurm.conf": "ClusterName=mine\n"}}, "data.slurm.conf (by kubectl-edit)"),
        (*CONFIG, {"data": {"more.conf": "x"}}, "data.more.conf (by kubectl-edit)"),
        (*CONFIG, {"data": {"cgroup.conf": None}}, "data.cgroup.conf (removed, nobody is noted)"),
        (*CONFIG, {"data": None}, "data.slurm.conf (removed, nobody is noted)"),
        ("secrets", "slurm-keys", {"data": {"slurm.key": "b3RoZXI="}}, "data.slurm.key (by kubectl-edit)"),
        ("services", "slurm-login", {"spec": {"selector": {"a": "c"}}}, "spec.selector (by kubectl-edit)"),
        ("services", "slurm-login", {"metadata": {"labels": {"mine": "x"}}}, "metadata.labels.mine (by kubectl-edit)"),
        ("services", "slurm-login", {"metadata": {"labels": None}}, "labels.app.kubernetes.io/name (removed"),
        (
            "services",
            "slurm-login",
            {"spec": {"ports": [{**SSH, "port": 23}]}},
            "ports[port=23,protocol=TCP] (by kubectl",
        ),
        ("services", "slurm-login", {"spec": {"ports": [{**SSH, "port": 23}]}, **UNOWNED}, "[port=22,protocol=TCP]"),
        (*POLICY, {"spec": {"ingress": [{}]}}, "spec.ingress (by kubectl-edit)"),
        ("persistentvolumeclaims", "slurm-jail", {"metadata": {"labels": {"a": "x"}}}, "metadata.labels.a (by"),
        ("serviceaccounts", "other", {"automountServiceAccountToken": True}, "automountServiceAccountToken (by"),
        ("statefulsets", "slurm-controller", {"spec": {"replicas": 3}}, "spec.replicas (by kubectl-edit)"),
        (*REST, pod_template(hostNetwork=True), "spec.template.spec.hostNetwork (by kubectl-edit)"),
        (*REST, pod_template(container(image="other")), "containers[name=slurm].image (by kubectl-edit)"),
        (*REST, pod_template(container(), {"name": "evil", "image": "x"}), "containers[name=evil] (by kubectl-edit)"),
        (*REST, pod_template(volumes=[DATA, EVIL]), "spec.template.spec.volumes[name=evil] (by kubectl-edit)"),
        (
            *REST,
            pod_template(container(volumeMounts=[{**MOUNT, "name": "evil"}]), volumes=[DATA, EVIL]),
            "containers[name=slurm].volumeMounts[mountPath=/data].name (by kubectl-edit)",
        ),
    ],
)
def test_an_edit_is_undone_and_told(world: World, plural: str, name: str, change: Body, told: str) -> None:
    before = content(world.get(plural, name))
    assert content(world.patch(plural, name, change)) != before, "the edit was one"
    until(lambda: content(world.get(plural, name)) == before, f"{plural} {name} is as declared again")
    until(lambda: any(told in note for note in heals(world)), f"an Event says {told}")
    assert "hunter2" not in str(world.events())
    assert SECRET_VALUE not in str(world.events())


@pytest.mark.parametrize("kind", ["ConfigMap", "Secret", "Service", "ServiceAccount", "NetworkPolicy", "Deployment"])
def test_a_deleted_object_comes_again(world: World, kind: str) -> None:
    name = next(each["metadata"]["name"] for each in OBJECTS if each["kind"] == kind)
    plural = manifest.plural(kind)

    def essence() -> Body:
        found = content(world.get(plural, name))
        metadata = {key: value for key, value in found["metadata"].items() if key not in ("uid", "creationTimestamp")}
        spec = {key: value for key, value in found.get("spec", {}).items() if not key.startswith("clusterIP")}
        for port in spec.get("ports", ()):
            port.pop("nodePort", None)
        return {**found, "metadata": metadata, "spec": spec}

    if kind == "Deployment":  # An annotation of another test, which nobody declares.
        world.patch(plural, name, {"metadata": {"annotations": None}})
    before = essence()
    world.delete(plural, name)
    until(lambda: name in world.names(plural), f"{plural} {name} is there again")
    assert essence() == before
    until(lambda: f"restored {kind} {name}, which was deleted" in heals(world), "an Event says so")


def managers(live: Body) -> Body:
    """Return who owns which fields, apart from those of status."""
    entries = [entry for entry in live["metadata"]["managedFields"] if not entry.get("subresource")]
    return {entry["manager"]: entry["fieldsV1"] for entry in entries}


def test_a_worker_set_comes_again_with_the_size_of_its_pods(world: World) -> None:
    path = world.path("statefulsets", "cpu")
    world.admin.call("DELETE", path, {"propagationPolicy": "Background"})
    until(lambda: "cpu" in world.names("statefulsets"), "the set is there again")
    assert world.size() == 2
    size_only: dict[str, Any] = {"f:spec": {"f:replicas": {}}}
    until(
        lambda: managers(world.get("statefulsets", "cpu")).get("pulumi-slurm-operator") == size_only,
        "the operator owns the size and nothing else",
    )
    assert "f:replicas" not in managers(world.get("statefulsets", "cpu"))["pulumi-slurm"]["f:spec"]
    assert world.size() == 2
    assert {"cpu-0", "cpu-1"} <= set(world.names("pods"))
    assert world.slurm.killed == []


def test_a_persons_drain_outlives_the_heal_of_its_node_set(world: World) -> None:
    said = ("state", "reason", "reason_set_by_user", "reason_changed_at")
    world.slurm.drain("cpu-1", "bad-fan", "alice")
    before = {key: world.slurm.nodes["cpu-1"][key] for key in said}
    changes, uid = len(world.slurm.changes()), world.uid("statefulsets", "cpu")
    try:
        world.admin.call("DELETE", world.path("statefulsets", "cpu"), {"propagationPolicy": "Background"})
        until(lambda: world.uid("statefulsets", "cpu") not in ("", uid), "the set is there again, around its pods")
        passes(world, 2)
        assert {key: world.slurm.nodes["cpu-1"][key] for key in said} == before
        assert ("POST", "/node/cpu-1") not in world.slurm.changes()[changes:]
    finally:
        world.slurm.undrain("cpu-1")


def test_what_cannot_be_changed_back_is_made_anew(world: World) -> None:
    uid = world.get(*CONFIG)["metadata"]["uid"]
    world.patch(*CONFIG, {"immutable": True, "data": {"slurm.conf": "ClusterName=x\n"}})

    # Between the old one's deletion and the new one there is none.
    until(lambda: world.uid(*CONFIG) not in ("", uid), "there is a new one")
    assert world.get(*CONFIG)["data"]["slurm.conf"] == "ClusterName=test\n"
    assert "immutable" not in world.get(*CONFIG)


def test_a_worker_set_with_another_fixed_field_is_made_anew_around_its_pods_and_their_job(world: World) -> None:
    """The name of a set's Service can't be changed: who changes it makes another set, and so does the operator."""
    pods = {name: world.uid("pods", name) for name in ("cpu-0", "cpu-1")}
    job = world.slurm.run_job("cpu-1")
    begin(world, "another-set")
    world.wait("Healing", "False", "UpdateInProgress")
    live = world.get("statefulsets", "cpu")
    world.admin.call("DELETE", world.path("statefulsets", "cpu"), {"propagationPolicy": "Background"})
    other = {"name": "cpu", "labels": live["metadata"]["labels"]}
    world.create("statefulsets", {"metadata": other, "spec": {**live["spec"], "serviceName": "other"}})
    finish(world, "another-set")
    until(lambda: world.get("statefulsets", "cpu")["metadata"].get("deletionTimestamp"), "it is deleted")
    assert world.get("statefulsets", "cpu")["metadata"]["finalizers"] == ["orphan"], "its pods are to stay"
    # As Kubernetes' garbage collector does when it has let the pods go.
    world.patch("statefulsets", "cpu", {"metadata": {"finalizers": None}})

    def service() -> str:
        return str(world.get("statefulsets", "cpu")["spec"]["serviceName"]) if world.uid("statefulsets", "cpu") else ""

    until(lambda: service() == "a", "the declared set")
    until(lambda: world.size() == 2, "with both nodes")
    assert {name: world.uid("pods", name) for name in pods} == pods
    assert world.slurm.killed == []
    world.slurm.end_job(job)


def test_a_deleted_claim_is_told_and_not_made_anew(world: World) -> None:
    world.patch("persistentvolumeclaims", "slurm-jail", {"metadata": {"finalizers": ["test/keep"]}})
    world.delete("persistentvolumeclaims", "slurm-jail")
    assert "PersistentVolumeClaim slurm-jail was deleted" in world.wait("Degraded", "True", "ClaimDeleted")["message"]
    world.patch("persistentvolumeclaims", "slurm-jail", {"metadata": {"finalizers": None}})
    until(lambda: not world.names("persistentvolumeclaims"), "it is gone")
    world.apply(next(each for each in OBJECTS if each["kind"] == "PersistentVolumeClaim"))
    world.wait("Degraded", "False")


def test_an_added_right_of_its_own_goes_and_a_lost_one_is_told(world: World) -> None:
    def rules() -> list[Body]:
        found: list[Body] = world.get("roles", "slurm-operator")["rules"]
        return found

    before = rules()
    more = {"apiGroups": [""], "resources": ["pods"], "verbs": ["*"]}
    world.patch("roles", "slurm-operator", {"rules": [*before, more]})
    until(lambda: rules() == before, "the right is gone")
    world.patch("roles", "slurm-operator", {"rules": [each for each in before if each["resources"] != ["services"]]})
    assert "roles/slurm-operator" in world.wait("Degraded", "True", "ActionRefused")["message"]
    world.patch("roles", "slurm-operator", {"rules": before})
    world.wait("Degraded", "False")


def test_healing_pauses_while_an_update_is_under_way_and_goes_on_after_it(world: World) -> None:
    begin(world, "r2")
    world.wait("Healing", "False", "UpdateInProgress")
    world.patch(*CONFIG, {"data": {"slurm.conf": "ClusterName=hand\n"}})
    world.delete(*POLICY)
    half_an_hour_passes(world)
    until(lambda: any("until you run pulumi up" in note for _, note in world.events()), "an Event says what to do")
    assert world.get(*CONFIG)["data"]["slurm.conf"] == "ClusterName=hand\n"
    assert POLICY[1] not in world.names(POLICY[0])
    up(world, "r3", [each for each in HELD if each["kind"] != "NetworkPolicy"])
    world.patch("services", "slurm-login", {"spec": {"selector": {"a": "c"}}})
    until(lambda: world.get("services", "slurm-login")["spec"]["selector"] == {"a": "b"}, "healing goes on")
    assert POLICY[1] not in world.names(POLICY[0]), "what is declared no more stays away"
    up(world, "r4")


def test_a_field_that_was_healed_and_is_declared_no_more_goes(world: World) -> None:
    def environment() -> list[dict[str, str]]:
        found: list[dict[str, str]] = world.get(*REST)["spec"]["template"]["spec"]["containers"][0].get("env", [])
        return found

    world.patch(*REST, pod_template(container(env=[{"name": "A", "value": "2"}])))
    until(lambda: environment() == [{"name": "A", "value": "1"}], "it is healed")
    objects = copy.deepcopy(HELD)
    rest = next(each for each in objects if each["kind"] == "Deployment")
    del rest["spec"]["template"]["spec"]["containers"][0]["env"]
    up(world, "r5", objects)
    assert environment() == []
    up(world, "r6")


def test_heals_are_counted(world: World, port: int) -> None:
    def page() -> str:
        return httpx.get(f"http://127.0.0.1:{port}/metrics").text

    world.patch(*POLICY, {"spec": {"ingress": [{}]}})
    until(lambda: 'pulumi_slurm_heals_total{cause="edited",kind="NetworkPolicy",name="slurm-default"}' in page(), "one")
    world.delete(*POLICY)
    until(lambda: 'pulumi_slurm_heals_total{cause="deleted",kind="NetworkPolicy"' in page(), "another")
    assert "pulumi_slurm_healing_paused_seconds 0.0" in page()


def test_nothing_is_healed_once_destroy_has_begun(admin: Admin, tmp_path: Path) -> None:
    with served(admin, tmp_path, free_ports(1)[0]) as world:
        world.delete("slurmclusters", "test")
        world.delete("services", "slurm-login")
        world.patch("nodesets", "cpu", {"metadata": {"annotations": {"pulumi-slurm.dev/force-delete": "true"}}})
        world.delete("nodesets", "cpu")
        until(lambda: "cpu" not in world.names("nodesets"), "the operator has worked meanwhile")
        assert "slurm-login" not in world.names("services")
        assert "cpu" not in world.names("statefulsets")
