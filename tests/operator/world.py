"""A namespace of a real API server with a Slurm cluster declared in it, for the operator's tests.

No controller manager and no kubelet run beside the API server: fake_workloads.py stands in for both.
"""

from __future__ import annotations

import base64
import contextlib
import dataclasses
import functools
import gzip
import json
import os
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import httpx
import kopf
import yaml
from slurm_operator.clients import access, informer

from components.control import operator as program
from components.control import operator_policy
from contract import names
from tests.operator import operator_process
from tests.operator.fake_slurm import FakeSlurm

REPOSITORY = Path(__file__).parents[2]
CRDS = REPOSITORY / "operator" / "crds"
CUSTOM = f"/apis/{names.API_GROUP}/{names.CRD_VERSION}"
STRATEGIC = {"Content-Type": "application/merge-patch+json"}
KEY = b"k" * 32
WORKLOADS = (("slurm-controller", "controller"), ("slurm-login", "login"), ("cpu", "worker"))
CONF = "ClusterName=test\nPartitionName=main Nodes=ns_cpu Default=YES\nPartitionName=side Nodes=ns_cpu\n"


def access_by(kubeconfig: Path) -> kopf.ConnectionInfo:
    """Return the access to the API server that an operator with that kubeconfig has."""
    with mock.patch.dict(os.environ, KUBECONFIG=str(kubeconfig)):
        return access.find()


class Admin:
    """An administrator's view of the API server."""

    def __init__(self, kubeconfig: Path) -> None:
        self.access = access_by(kubeconfig)
        self._threads = threading.local()

    @property
    def client(self) -> httpx.Client:
        """A client of this thread's own: connections that two threads share are closed under one by the other."""
        if not hasattr(self._threads, "client"):
            found = self.access
            self._threads.client = httpx.Client(
                base_url=found.server, verify=access.tls(found), timeout=10, trust_env=False
            )
        client: httpx.Client = self._threads.client
        return client

    def call(self, method: str, path: str, body: Any = None, **options: Any) -> dict[str, Any]:
        """Call and return the object; an error raises with the API server's words."""
        answer = self.client.request(method, path, json=body, **options)
        if answer.is_error:
            raise RuntimeError(f"{answer.status_code} {answer.json().get('message')}")
        result: dict[str, Any] = answer.json()
        return result

    def install_crds(self) -> None:
        """Create the operator's CRDs if they are missing, and wait until they are served."""
        for path in sorted(CRDS.glob("*.yaml")):
            body = yaml.safe_load(path.read_text())
            try:
                self.call("POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", body)
            except RuntimeError as error:
                if not str(error).startswith("409"):
                    raise
            until(functools.partial(self._established, body["metadata"]["name"]), "the CRD is established")

    def _established(self, name: str) -> bool:
        found = self.call("GET", f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{name}")
        conditions = {item["type"]: item["status"] for item in found.get("status", {}).get("conditions") or []}
        return conditions.get("Established") == "True"


def until(condition: Callable[[], Any], what: str, seconds: float = 60) -> Any:
    """Wait for a condition and return its value.

    It is asked less often the longer it takes: most conditions are a call to the API server, on cores that all share.
    """
    end, pause = time.monotonic() + seconds, 0.05
    while time.monotonic() < end:
        value = condition()
        if value:
            return value
        time.sleep(pause)  # Between two questions: the API server tells of no condition that is made of several.
        pause = min(pause * 1.2, 0.25)
    raise AssertionError(f"not within {seconds} s: {what}")


@dataclasses.dataclass(frozen=True)
class RunningOperator:
    """An operator as a process of its own."""

    process: operator_process.ForkServerProcess
    log: Path
    port: int

    def says(self, lines: int = 40) -> str:
        """Return whether it runs, whether its passes make progress, and its last lines."""
        status = self.process.exitcode
        try:
            health = httpx.get(f"http://127.0.0.1:{self.port}/readyz", timeout=5, trust_env=False).text.strip()
        except httpx.HTTPError as error:
            health = repr(error)
        last = self.log.read_text(errors="replace").splitlines()[-lines:]
        return "\n".join(["it runs" if status is None else f"it ended with status {status}", health, *last])


class World:
    """One namespace, its declared objects, and what stands for Slurm in it."""

    def __init__(
        self, admin: Admin, namespace: str, slurm: FakeSlurm, rest_url: str, dry_run_url: str = "http://127.0.0.1:9"
    ) -> None:
        self.admin, self.namespace, self.slurm, self.rest_url = admin, namespace, slurm, rest_url
        self.dry_run_url = dry_run_url
        self.broken: dict[str, str] = {}
        """Pods that do not start, and why; those without a reason are only starting."""
        self.operators: list[RunningOperator] = []
        """Operators whose logs and metrics a failed test shows."""
        admin.call("POST", "/api/v1/namespaces", {"metadata": {"name": namespace}})

    def path(self, plural: str, name: str = "", subresource: str = "") -> str:
        """URL path of an object of this namespace."""
        groups = {
            "apps/v1": ("statefulsets", "deployments"),
            "events.k8s.io/v1": ("events",),
            "coordination.k8s.io/v1": ("leases",),
            "rbac.authorization.k8s.io/v1": ("roles", "rolebindings"),
            "networking.k8s.io/v1": ("networkpolicies",),
            names.API_VERSION: (names.SLURM_CLUSTERS, names.NODE_SETS),
        }
        group = next((group for group, kinds in groups.items() if plural in kinds), "")
        prefix = f"/apis/{group}" if group else "/api/v1"
        parts = [prefix, "namespaces", self.namespace, plural, name, subresource]
        return "/".join(part for part in parts if part)

    def create(self, plural: str, body: dict[str, Any]) -> dict[str, Any]:
        """Create an object."""
        return self.admin.call("POST", self.path(plural), body)

    def get(self, plural: str, name: str) -> dict[str, Any]:
        """Read an object."""
        return self.admin.call("GET", self.path(plural, name))

    def uid(self, plural: str, name: str) -> str:
        """Return which object has the name now; empty while none has."""
        items = self.admin.call("GET", self.path(plural), params={"fieldSelector": f"metadata.name={name}"})["items"]
        return items[0]["metadata"]["uid"] if items else ""

    def patch(
        self, plural: str, name: str, change: dict[str, Any], subresource: str = "", manager: str = "kubectl-edit"
    ) -> dict[str, Any]:
        """Merge a change into an object."""
        path = self.path(plural, name, subresource)
        return self.admin.call("PATCH", path, change, headers=STRATEGIC, params={"fieldManager": manager})

    def delete(self, plural: str, name: str) -> None:
        """Delete an object; a finalizer may keep it."""
        self.admin.call("DELETE", self.path(plural, name))

    def names(self, plural: str) -> list[str]:
        """Names of the objects of a kind."""
        return [item["metadata"]["name"] for item in self.admin.call("GET", self.path(plural))["items"]]

    def events(self) -> list[tuple[str, str]]:
        """Reasons and notes of the namespace's Events."""
        items = self.admin.call("GET", self.path("events"))["items"]
        return [(item["reason"], item["note"]) for item in items]

    def told(self, kind: str) -> list[tuple[str, str, str]]:
        """Type, reason and message of the SlurmCluster's Events about a condition, as Pulumi reads them."""
        uid = self.uid("slurmclusters", "test")
        items = self.admin.call("GET", f"/api/v1/namespaces/{self.namespace}/events")["items"]
        about = [item for item in items if item["involvedObject"].get("uid") == uid]
        return [(item["type"], item["reason"], item["message"]) for item in about if item["reason"].startswith(kind)]

    def declare(self, replicas: int | None = 2, revision: str = "r1", slurm_conf: str = CONF) -> None:
        """Declare what `pulumi up` would, in its order."""
        self.ledger(revision)
        meta = {"name": "slurm-config-wanted"}
        self.create("configmaps", {"metadata": meta, "data": {"slurm.conf": slurm_conf, "cgroup.conf": ""}})
        for name, component in WORKLOADS:
            self.create("statefulsets", stateful_set(name, component))
        deployment = stateful_set("slurm-rest", "rest")
        del deployment["spec"]["serviceName"], deployment["spec"]["updateStrategy"]
        self.create("deployments", deployment)
        spec: dict[str, Any] = {"cluster": "test", "statefulSet": "cpu"} | (
            {} if replicas is None else {"replicas": replicas}
        )
        self.create("nodesets", custom("NodeSet", "cpu", spec))
        spec = {"revision": revision, "rest": self.rest, "rehearsal": {"url": self.dry_run_url}}
        self.create("slurmclusters", custom("SlurmCluster", "test", spec))

    @property
    def rest(self) -> dict[str, str]:
        """SlurmCluster.spec.rest."""
        return {"url": self.rest_url}

    def ledger(
        self, revision: str, objects: Iterable[dict[str, Any]] = (), payloads: dict[str, str] | None = None
    ) -> None:
        """Write the ledger as components/control/ledger.py does."""
        document = gzip.compress(json.dumps({"format": 1, "objects": list(objects)}).encode())
        data = {"revision": revision.encode(), "ledger.json.gz": document}
        encoded = {key: base64.b64encode(value).decode() for key, value in data.items()}
        for name, content in (("slurm-ledger-payloads", payloads or {}), ("slurm-ledger", encoded)):
            self.apply({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}, "data": content})

    def apply(self, body: dict[str, Any], manager: str = "pulumi-slurm") -> dict[str, Any]:
        """Apply an object as Pulumi does."""
        path = self.path(informer.plural(body["kind"]), body["metadata"]["name"])
        headers = {"Content-Type": "application/apply-patch+yaml"}
        return self.admin.call("PATCH", path, body, headers=headers, params={"fieldManager": manager, "force": "true"})

    def scale(self, replicas: int) -> None:
        """`kubectl scale nodeset cpu`."""
        self.patch("nodesets", "cpu", {"spec": {"replicas": replicas}}, "scale")

    def size(self) -> int:
        """StatefulSet.spec.replicas of the worker set."""
        return int(self.get("statefulsets", "cpu")["spec"]["replicas"])

    def condition(self, kind: str, plural: str = "slurmclusters", name: str = "test") -> dict[str, Any]:
        """A condition of a resource's status, with empty words if it is not there yet."""
        status = self.get(plural, name).get("status", {})
        found = [item for item in status.get("conditions", []) if item["type"] == kind]
        return found[0] if found else {"status": "", "reason": "", "message": ""}

    def wait(self, kind: str, status: str, reason: str = "", seconds: float = 90, **where: str) -> dict[str, Any]:
        """Wait for a condition."""
        last: dict[str, Any] = {}

        def there() -> dict[str, Any] | None:
            nonlocal last
            last = self.condition(kind, **where)
            return last if last["status"] == status and reason in (last["reason"], "") else None

        try:
            result: dict[str, Any] = until(there, "", seconds)
        except AssertionError:
            raise AssertionError(f"{kind} did not become {status} {reason} within {seconds} s, but: {last}") from None
        return result


def custom(kind: str, name: str, spec: dict[str, Any]) -> dict[str, Any]:
    """A resource of ours."""
    return {
        "apiVersion": names.API_VERSION,
        "kind": kind,
        "metadata": {"name": name},
        "spec": spec,
    }


def stateful_set(name: str, component: str) -> dict[str, Any]:
    """A StatefulSet without replicas, as the program declares worker sets."""
    labels = {names.LABEL_NAME: "slurm", names.LABEL_INSTANCE: "test", names.LABEL_COMPONENT: component}
    container = {"name": "slurm", "image": "none"}
    return {
        "metadata": {"name": name, "labels": labels},
        "spec": {
            "serviceName": name,
            "updateStrategy": {"type": "OnDelete" if component == "worker" else "RollingUpdate"},
            "selector": {"matchLabels": labels | {"set": name}},
            "template": {"metadata": {"labels": labels | {"set": name}}, "spec": {"containers": [container]}},
        },
    }


def _declared(held: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return what the rights are about: the objects of World.declare, or those of the ledger in their place."""
    sets = [stateful_set(name, component) for name, component in WORKLOADS]
    own = [{**each, "apiVersion": "apps/v1", "kind": "StatefulSet"} for each in sets]
    own.append({**stateful_set("slurm-rest", "rest"), "apiVersion": "apps/v1", "kind": "Deployment"})
    for kind, name in (("ConfigMap", "slurm-config-wanted"), ("Secret", "slurm-keys")):
        own.append({"apiVersion": "v1", "kind": kind, "metadata": {"name": name}})
    bodies = {(each["kind"], each["metadata"]["name"]): each for each in (*own, *held)}
    return [*bodies.values()]


def kubeconfig_of_role(world: World, folder: Path, held: Iterable[dict[str, Any]] = ()) -> Path:
    """A kubeconfig of a service account with the Role and the policy that the program declares, and nothing else.

    Args:
        world: the namespace.
        folder: where the file is to stand.
        held: bodies of the ledger's objects.
    """
    objects = _declared(held)
    metadata = {"name": f"slurm-operator-{world.namespace}"}
    policies = operator_policy.manifests(world.namespace, objects, metadata)
    for each in policies:
        path = f"/apis/admissionregistration.k8s.io/v1/{informer.plural(each.kind)}"
        world.admin.call("POST", path, dict(each.body))
    named = {"metadata": {"name": "slurm-operator"}}
    world.create("serviceaccounts", named)
    identities = {(each["apiVersion"], each["kind"], each["metadata"]["name"]) for each in objects}
    world.create("roles", named | {"rules": program.rules(identities)})
    subject = {"kind": "ServiceAccount", "name": "slurm-operator", "namespace": world.namespace}
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "slurm-operator"}
    world.create("rolebindings", named | {"subjects": [subject], "roleRef": role})
    request: dict[str, Any] = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
    path = world.path("serviceaccounts", "slurm-operator", "token")
    token = world.admin.call("POST", path, request)["status"]["token"]
    found = world.admin.access
    cluster = {"server": found.server, "certificate-authority-data": found.ca_data}
    path_ = folder / "kubeconfig"
    path_.write_text(
        json.dumps(
            {
                "current-context": "c",
                "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
                "clusters": [{"name": "c", "cluster": cluster}],
                "users": [{"name": "u", "user": {"token": token}}],
            }
        )
    )
    return path_


def let_read_nodes(world: World) -> None:
    """Give the operator of a namespace the rights to Kubernetes nodes that the program declares."""
    rbac, metadata = "/apis/rbac.authorization.k8s.io/v1", {"name": f"operator-{world.namespace}"}
    role = {"metadata": metadata, "rules": program.node_rules(replaces=True)}
    world.admin.call("POST", f"{rbac}/clusterroles", role)
    binding = {
        "metadata": metadata,
        "subjects": [{"kind": "ServiceAccount", "name": "slurm-operator", "namespace": world.namespace}],
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": metadata["name"]},
    }
    world.admin.call("POST", f"{rbac}/clusterrolebindings", binding)


@contextlib.contextmanager
def operator(
    world: World, folder: Path, kubeconfig: Path, port: int, name: str = "one", *, has_short_pauses: bool = True
) -> Iterator[operator_process.ForkServerProcess]:
    """Run the operator as a process; its log stands in `folder`.

    With short pauses a story of many reconciles takes seconds in place of a minute. Benchmarks need those of users.
    """
    key = folder / "jwt.key"
    key.write_bytes(KEY)
    environment = {
        "PATH": os.environ["PATH"],
        "KUBECONFIG": str(kubeconfig),
        "POD_NAMESPACE": world.namespace,
        "POD_NAME": f"slurm-operator-{name}",
        "JWT_KEY_FILE": str(key),
        "HEALTH_PORT": str(port),
        "CONFIG_DRY_RUN_URL": world.dry_run_url,
    }
    file = folder / f"{name}.log"
    process = operator_process.start(environment, file, has_short_pauses=has_short_pauses)
    world.operators.append(RunningOperator(process, file, port))
    try:
        yield process
    finally:
        process.terminate()
        process.join(15)
        process.kill()
        process.join()


def settles(world: World, size: int) -> None:
    """Wait until so many nodes take jobs, and nothing is under way."""

    def ready() -> Any:
        return world.get("slurmclusters", "test").get("status", {}).get("nodes", {}).get("ready")

    until(lambda: ready() == size, f"{size} nodes take jobs")
    world.wait("Available", "True")
    world.wait("Progressing", "False")


def passes(world: World, count: int) -> None:
    """Wait until the operator has looked at Slurm some more times."""
    calls = world.slurm.calls
    seen = len(calls)
    until(lambda: sum(call == ("GET", "/nodes/") for call in calls[seen:]) >= count, f"{count} more passes", 90)


def metrics(port: int) -> str:
    """Return the page of an operator's metrics."""
    return httpx.get(f"http://127.0.0.1:{port}/metrics", timeout=30).text
