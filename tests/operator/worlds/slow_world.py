"""A namespace and a Slurm in memory: each call of slurmrestd takes its time, by a clock that nobody waits for."""

from __future__ import annotations

import asyncio
import contextlib
import json
import selectors
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar, cast

from slurm_operator import handlers, health
from slurm_operator.clients.kubernetes import KubernetesApi, KubernetesError, Object
from slurm_operator.clients.lease import Lease
from slurm_operator.clients.slurm.slurmrestd import SlurmRest
from slurm_operator.reconcile.cluster import Reconciler
from slurm_operator.reconcile.drift import DriftReconciler

from contract import names
from tests.operator.fakes.fake_slurm import FakeSlurm
from tests.operator.fakes.fake_slurmrestd import answer
from tests.operator.played.played_clients import LeaseFor
from tests.operator.worlds.world import CONF, WORKLOADS, custom, stateful_set

_T = TypeVar("_T")
URL = "http://rest"


class VirtualLoop(asyncio.SelectorEventLoop):
    """An event loop whose clock jumps to the next moment for which something waits."""

    def __init__(self) -> None:
        super().__init__(_Jumping(self))
        self.moment = 0.0

    def time(self) -> float:
        return self.moment


class _Jumping(selectors.SelectSelector):
    def __init__(self, loop: VirtualLoop) -> None:
        super().__init__()
        self._loop = loop

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        self._loop.moment += timeout or 0
        return super().select(0)


def at_once(work: Callable[[VirtualLoop], Coroutine[Any, Any, _T]]) -> _T:
    """Run what waits in virtual time."""
    loop = VirtualLoop()
    try:
        return loop.run_until_complete(work(loop))
    finally:
        loop.close()


class SlowRest(SlurmRest):
    """A slurmrestd that takes some seconds for each call."""

    def __init__(self, slurm: FakeSlurm, seconds: float) -> None:
        super().__init__(URL, Path("/dev/null"))
        self.slurm = slurm
        self.seconds = seconds

    async def _request(
        self, method: str, path: str, body: dict[str, Any] | None, params: Mapping[str, str] | None, seconds: float
    ) -> tuple[int, bytearray]:
        async with asyncio.timeout(seconds):
            await asyncio.sleep(self.seconds)  # By the clock of a virtual loop, as in most tests here.
        status, content = answer(self.slurm, method, path, params or {}, body)
        return status, bytearray(json.dumps(content).encode())


class Objects(KubernetesApi):
    """Objects by kind and name. Who writes a status is noted with the time."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self.clock = clock
        self.written = []
        self.there: dict[tuple[str, str], Object] = {}
        self.told: list[tuple[float, str, Object]] = []
        self.refused: dict[tuple[str, str], int] = {}
        """With which HTTP status a change of an object is refused."""
        self._version = 0

    def add(self, kind: str, body: Mapping[str, Any], **more: Any) -> None:
        """Create an object, as somebody did before."""
        self._version += 1
        now = {"namespace": "slurm", "uid": f"u{self._version}", "creationTimestamp": "2026-01-01T00:00:00Z"}
        metadata = {**now, **body["metadata"], "generation": 1, "resourceVersion": str(self._version)}
        self.there[kind, metadata["name"]] = {**body, "metadata": metadata, **more}

    async def list_as(self, read: Callable[[Object], _T], api: str, plural: str, selector: str = "") -> Sequence[_T]:
        wanted = dict(term.split("=") for term in selector.split(",") if term)
        found = [body for (kind, _), body in sorted(self.there.items()) if kind == plural]
        return [read(body) for body in found if wanted.items() <= body["metadata"].get("labels", {}).items()]

    async def get(self, api: str, plural: str, name: str) -> Object | None:
        return self.there.get((plural, name))

    async def pages(self, api: str, plural: str, params: dict[str, str]) -> AsyncIterator[tuple[str, Iterator[Object]]]:
        wanted = dict(term.split("=") for term in params.get("fieldSelector", "").split(",") if term)
        there = [body for (kind, _), body in self.there.items() if kind == plural]
        yield "1", iter([body for body in there if all(_field(body, path) == said for path, said in wanted.items())])

    async def watch(self, api: str, plural: str, params: dict[str, str]) -> AsyncIterator[tuple[str, Object]]:
        await asyncio.Event().wait()
        yield "", {}

    async def create(self, api: str, plural: str, body: Object) -> Object:
        self.add(plural, body)
        return body

    async def merge(self, api: str, plural: str, name: str, change: Object) -> Object:
        return self._change(plural, name, change)

    async def replace(self, api: str, plural: str, body: Object) -> Object:
        return self._change(plural, body["metadata"]["name"], body)

    async def apply(
        self, api: str, plural: str, body: Object, subresource: str = "", manager: str = names.OPERATOR_FIELD_MANAGER
    ) -> Object:
        name = body["metadata"]["name"]
        if plural == "pods":
            return body  # Its condition stands beside others, and nobody reads it here.
        if subresource == "status":
            self.told.append((self.clock(), name, body["status"]))
        return self._change(plural, name, body)

    async def delete(
        self, api: str, plural: str, name: str, preconditions: Mapping[str, str], *, orphan: bool = False
    ) -> bool:
        return self.there.pop((plural, name), None) is not None

    def _change(self, plural: str, name: str, change: Mapping[str, Any]) -> Object:
        there = self.there[plural, name]
        if (plural, name) in self.refused:
            raise KubernetesError(self.refused[plural, name], f"{name} is refused")
        now = there["metadata"]["resourceVersion"]
        if change.get("metadata", {}).get("resourceVersion", now) != now:
            raise KubernetesError(409, f"{name} has been modified")
        self._version += 1
        for part, said in change.items():
            there[part] = {**there.get(part, {}), **said} if isinstance(said, dict) else said
        there["metadata"]["resourceVersion"] = str(self._version)
        return there


def _field(body: Mapping[str, Any], path: str) -> Any:
    """Return a field by its dotted path, empty without one, as field selectors have it."""
    for part in path.split("."):
        body = body.get(part, {})
    return body or ""


class _NoDrift:
    condition = None
    problems = ()

    def has_drifted(self, *_: object) -> bool:
        return False


class SlowWorld:
    """A cluster of one or more node sets whose slurmrestd takes some seconds for each call."""

    def __init__(
        self,
        loop: VirtualLoop,
        sizes: Mapping[str, int],
        seconds: float = 2.0,
        api: Objects | None = None,
        lease: Lease | None = None,
    ) -> None:
        self.api = api or Objects(loop.time)
        self.slurm = FakeSlurm(b"")
        self.slurm.memory = True
        self.slurm.parameters = []
        for name, component in WORKLOADS:
            if component != "worker":
                self._add_workload("statefulsets", name, component, 1)
        self._add_workload("deployments", "slurm-rest", "rest", 1)
        for name, size in sizes.items():
            self._add_set(name, size)
        for config in (names.CONFIG_WANTED, names.CONFIG_ACTIVE):
            self.api.add("configmaps", {"metadata": {"name": config}, "data": {"slurm.conf": CONF}})
        self.slurm.partitions = {"main": "UP", "side": "UP"}
        self.api.add("secrets", {"metadata": {"name": names.LEDGER}, "data": {names.LEDGER_REVISION: "cjE="}})
        parts = {"wantedConfig": names.CONFIG_WANTED, "activeConfig": names.CONFIG_ACTIVE}
        parts |= {"controller": "slurm-controller", "restDeployment": "slurm-rest", "login": "slurm-login"}
        spec = {"revision": "r1", "rest": {"url": URL}, "rehearsal": {"url": URL}, **parts}
        self.api.add(names.SLURM_CLUSTERS, custom("SlurmCluster", "test", spec))
        drift, lease = cast(DriftReconciler, _NoDrift()), lease or LeaseFor(1e9)
        self.reconciler = Reconciler(self.api, lease, Path("/dev/null"), drift, clock=loop.time)
        self.reconciler._rest.client = SlowRest(self.slurm, seconds)

    def scale(self, name: str, replicas: int | None) -> None:
        """Say how many nodes a set is to have, or leave that to others."""
        self.api.there[names.NODE_SETS, name]["spec"]["replicas"] = replicas

    def change_template(self, name: str) -> None:
        """Give a set a new template, of which no pod is yet; all of its pods run on one Kubernetes node."""
        self.api.add("nodes", {"metadata": {"name": "machine"}}, spec={})
        self.api.there["statefulsets", name]["status"]["updateRevision"] = "newer"
        for (kind, pod), body in self.api.there.items():
            if kind == "pods" and pod.startswith(f"{name}-"):
                body["spec"]["nodeName"] = "machine"

    def size(self, name: str) -> int:
        """StatefulSet.spec.replicas of a node set."""
        return int(self.api.there["statefulsets", name]["spec"]["replicas"])

    def remove_partitions(self, number: int) -> None:
        """Declare a configuration without partitions in which jobs run."""
        more = {f"old{n}": "UP" for n in range(number)}
        lines = "".join(f"PartitionName={name} Nodes=ns_cpu\n" for name in more)
        self.slurm.partitions |= more
        for name in more:
            self.slurm.run_job(next(iter(self.slurm.nodes)), partition=name)
        self.api.there["configmaps", names.CONFIG_ACTIVE]["data"] = {"slurm.conf": CONF + lines}

    def _add_set(self, name: str, size: int) -> None:
        metadata = {"name": name, "finalizers": [names.FINALIZER], "annotations": {names.ANNOTATION_REST: URL}}
        body = custom("NodeSet", name, {"cluster": "test", "statefulSet": name, "replicas": size})
        self.api.add(names.NODE_SETS, {**body, "metadata": metadata})
        self._add_workload("statefulsets", name, "worker", size)
        for ordinal in range(size):
            self.slurm.register(f"{name}-{ordinal}")

    def _add_workload(self, kind: str, name: str, component: str, size: int) -> None:
        body = stateful_set(name, component)
        status = {"observedGeneration": 1, "readyReplicas": size, "updatedReplicas": size, "replicas": size}
        self.api.add(kind, {**body, "spec": {**body["spec"], "replicas": size}}, status=status)
        for ordinal in range(size):
            ready = {"type": "Ready", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"}
            container = {"name": "slurm", "ready": True, "state": {"running": {}}}
            runs = {"phase": "Running", "conditions": [ready], "containerStatuses": [container]}
            pod = {"metadata": {"name": f"{name}-{ordinal}", "labels": body["metadata"]["labels"]}}
            self.api.add("pods", pod, spec={}, status=runs)


async def passes(world: SlowWorld, minutes: float) -> None:
    """Pass after pass as the operator makes them, each with its deadline, for some minutes of virtual time."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(minutes * 60):
            await handlers._keep_passing("slurm", world.reconciler.run, asyncio.Event(), health.Progress())
    await world.reconciler.close()
