"""A cluster with declared objects of each kind that the operator heals, and the halves of a `pulumi up`."""

from __future__ import annotations

import base64
from typing import Any

from components.control import operator as program
from contract import names
from tests.operator.worlds.world import World, until

Body = dict[str, Any]
LABELS = {"app.kubernetes.io/name": "slurm"}
RBAC = "rbac.authorization.k8s.io"
CONFIG = ("configmaps", "slurm-config-wanted")
POLICY = ("networkpolicies", "slurm-default")
LONG_AGO = "2020-01-01T00:00:00Z"
SECRET_VALUE = base64.b64encode(b"hunter2-of-the-payload").decode()
MOUNT = {"name": "data", "mountPath": "/data"}
DATA: Body = {"name": "data", "emptyDir": {}}


def declared(api: str, kind: str, name: str, **content: Any) -> Body:
    return {"apiVersion": api, "kind": kind, "metadata": {"name": name, "labels": LABELS}, **content}


def container(**fields: Any) -> Body:
    return {"name": "slurm", "image": "none", **fields}


def workload(kind: str, name: str, component: str, **spec: Any) -> Body:
    labels = {names.LABEL_NAME: "slurm", names.LABEL_INSTANCE: "test", names.LABEL_COMPONENT: component, "set": name}
    own = container(env=[{"name": "A", "value": "1"}], resources={"limits": {"cpu": "0.5"}}, volumeMounts=[MOUNT])
    pod = {"containers": [own], "volumes": [DATA]}
    spec |= {"selector": {"matchLabels": labels}, "template": {"metadata": {"labels": labels}, "spec": pod}}
    return {**declared("apps/v1", kind, name, spec=spec), "metadata": {"name": name, "labels": labels}}


SSH = {"name": "ssh", "port": 22}
CLAIM = {"accessModes": ["ReadWriteMany"], "resources": {"requests": {"storage": "1024Mi"}}}
OBJECTS = [
    declared("v1", "ConfigMap", "slurm-config-wanted", data={"slurm.conf": "ClusterName=test\n", "cgroup.conf": ""}),
    declared("v1", "Secret", "slurm-keys", type="Opaque", data={"slurm.key": "hmac-sha256:0"}),
    declared("v1", "Service", "slurm-login", spec={"type": "NodePort", "selector": {"a": "b"}, "ports": [SSH]}),
    declared("v1", "ServiceAccount", "other", automountServiceAccountToken=False),
    declared(
        "networking.k8s.io/v1", "NetworkPolicy", "slurm-default", spec={"podSelector": {}, "policyTypes": ["Ingress"]}
    ),
    declared("v1", "PersistentVolumeClaim", "slurm-jail", spec=CLAIM),
    workload("StatefulSet", "slurm-controller", "controller", serviceName="a", replicas=1),
    workload("StatefulSet", "slurm-login", "login", serviceName="a", replicas=1),
    workload("StatefulSet", "cpu", "worker", serviceName="a", updateStrategy={"type": "OnDelete"}),
    workload("Deployment", "slurm-rest", "rest", replicas=1),
]


def identities(objects: list[Body]) -> set[tuple[str, str, str]]:
    return {(each["apiVersion"], each["kind"], each["metadata"]["name"]) for each in objects}


RULES = program.rules({*identities(OBJECTS), (f"{RBAC}/v1", "Role", "slurm-operator")})
HELD = [*OBJECTS, declared(f"{RBAC}/v1", "Role", "slurm-operator", rules=RULES)]


def begin(world: World, revision: str, objects: list[Body] = HELD) -> None:
    """The first half of `pulumi up`: the ledger, then the objects."""
    world.ledger(revision, objects, {"slurm-keys.slurm.key": SECRET_VALUE})
    for each in objects:
        world.apply({**each, "data": {"slurm.key": SECRET_VALUE}} if each["kind"] == "Secret" else each)


def finish(world: World, revision: str) -> None:
    """Its second half: the resources that the operator works from."""
    api = f"{names.API_GROUP}/{names.CRD_VERSION}"
    nodes = {"cluster": "test", "statefulSet": "cpu", "replicas": 2}
    cluster = {"revision": revision, "rest": world.rest}
    for kind, name, spec in (("NodeSet", "cpu", nodes), ("SlurmCluster", "test", cluster)):
        world.apply({"apiVersion": api, "kind": kind, "metadata": {"name": name}, "spec": spec})


def heals(world: World) -> list[str]:
    return [note for reason, note in world.events() if reason == "Heal"]


def half_an_hour_passes(world: World) -> None:
    """The update began long ago. The operator may be writing the times that it has read before: then once more."""

    def is_told() -> bool:
        rows = world.get("slurmclusters", "test")["status"]["conditions"]
        aged = [{**row, "lastTransitionTime": LONG_AGO} for row in rows]
        if rows != aged:
            world.patch("slurmclusters", "test", {"status": {"conditions": aged}}, "status")
        return bool(world.condition("Healing")["reason"] == "UpdateFailed")

    until(is_told, "the update counts as failed")
