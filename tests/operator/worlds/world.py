"""A namespace of a real API server with a Slurm cluster declared in it, for the operator's tests.

No controller manager and no kubelet run beside the API server: fake_workloads.py stands in for both.
"""

from __future__ import annotations

import base64
import contextlib
import dataclasses
import gzip
import json
import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import urlsplit

import httpx
from slurm_operator.clients import informer

from contract import names
from tests.operator.fakes.fake_slurm import FakeSlurm
from tests.operator.worlds import operator_process
from tests.operator.worlds.api_server import STRATEGIC, WAIT_SECONDS, Admin, access_by, until

__all__ = [
    "CONF", "KEY", "STRATEGIC", "WORKLOADS", "Admin", "RunningOperator", "World", "access_by", "custom", "metrics",
    "operator", "passes", "stateful_set", "until",
]  # fmt: skip

KEY = b"k" * 32
WORKLOADS = (("slurm-controller", "controller"), ("slurm-login", "login"), ("cpu", "worker"))
CONF = "ClusterName=test\nPartitionName=main Nodes=ns_cpu Default=YES\nPartitionName=side Nodes=ns_cpu\n"


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


class Surroundings(Protocol):
    """Tells a running operator of its world, and keeps note of it."""

    namespace: str
    dry_run_url: str
    operators: list[RunningOperator]


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

    def wait(
        self, kind: str, status: str, reason: str = "", seconds: float = WAIT_SECONDS, **where: str
    ) -> dict[str, Any]:
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


@contextlib.contextmanager
def operator(
    world: Surroundings, folder: Path, kubeconfig: Path, port: int, name: str = "one", *, has_short_pauses: bool = True
) -> Iterator[operator_process.ForkServerProcess]:
    """Run the operator as a process; its log stands in `folder`.

    With short pauses a story of many reconciles takes seconds in place of a minute. Benchmarks need those of users.
    """
    key = folder / "jwt.key"
    key.write_bytes(KEY)
    environment = {
        "PATH": os.environ["PATH"],
        **_way_to_the_api_server(kubeconfig, folder / f"{name}-account"),
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


def _way_to_the_api_server(kubeconfig: Path, folder: Path) -> dict[str, str]:
    """Variables of an operator: those of a pod with a service account in `folder`, else the kubeconfig.

    An operator reads a kubeconfig before each call, since its token may be new: that takes two milliseconds.
    """
    found = access_by(kubeconfig)
    if not found.token or found.server.startswith("http://"):  # A pod's service account speaks HTTPS.
        return {"KUBECONFIG": str(kubeconfig)}
    folder.mkdir(exist_ok=True)
    (folder / "ca.crt").write_bytes(base64.b64decode(found.ca_data or b""))
    (folder / "token").write_text(found.token)
    address = urlsplit(found.server)
    return {
        "KUBERNETES_SERVICE_HOST": str(address.hostname),
        "KUBERNETES_SERVICE_PORT": str(address.port),
        operator_process.SERVICE_ACCOUNT: str(folder),
        "HOME": str(folder),
    }


def settles(world: World, size: int) -> None:
    """Wait until so many nodes take jobs, and nothing is under way."""

    def ready() -> Any:
        return world.get("slurmclusters", "test").get("status", {}).get("nodes", {}).get("ready")

    until(lambda: ready() == size, f"{size} nodes take jobs")
    world.wait("Available", "True")
    world.wait("Progressing", "False")


def knows(world: World, plural: str, name: str) -> None:
    """Wait until the operator's status says that it has seen the object as it is."""

    def current() -> bool:
        there = world.get(plural, name)
        return bool(there.get("status", {}).get("observedGeneration") == there["metadata"]["generation"])

    until(current, f"the operator knows {name} as it is")


def passes(world: World, count: int) -> None:
    """Wait until the operator has looked at Slurm some more times."""
    calls = world.slurm.calls
    seen = len(calls)
    until(lambda: sum(call == ("GET", "/nodes/") for call in calls[seen:]) >= count, f"{count} more passes")


def metrics(port: int) -> str:
    """Return the page of an operator's metrics."""
    # Trust in all known authorities would cost 20 ms.
    return httpx.get(f"http://127.0.0.1:{port}/metrics", timeout=30, verify=False).text
