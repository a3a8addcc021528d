"""The API server and slurmrestd of a played cluster. A forbidden call fails the test.

The operator's own `Executor.perform` acts through them. Each call answers at once: many thousand actions take seconds.
"""

from __future__ import annotations

import dataclasses
import datetime
from collections.abc import Coroutine, Mapping, Sequence
from typing import Any, cast

import httpx
from slurm_operator.clients import lease
from slurm_operator.clients.kubernetes import KubernetesApi, KubernetesError, Object
from slurm_operator.clients.slurm.slurmrestd import SlurmRest
from slurm_operator.state.slurm import Reservation, SlurmNode

from contract import names, reasons
from tests.operator.played.played_cluster import (
    BROKEN,
    OUR_REASONS,
    REMOVAL_REASONS,
    UNFIT,
    UNTESTED,
    UPDATE_REASONS,
    PlayedCluster,
)
from tests.operator.played.played_hosts import MAINTENANCE
from tests.operator.played.played_slurmctld import ISSUED, SLURMS_OWN


class LeaseFor(lease.Lease):
    """A lease that is ours for some checks."""

    def __init__(self, checks: float) -> None:
        super().__init__(cast(KubernetesApi, None), "one")
        self.left = checks

    def held(self) -> bool:
        self.left -= 1
        return self.left >= 0


class PlayedApi(KubernetesApi):
    """The API server."""

    def __init__(self, cluster: PlayedCluster) -> None:
        self.cluster = cluster

    async def get(self, api: str, plural: str, name: str) -> Object | None:
        if (api, plural) == ("v1", "pods"):
            pod = self.cluster.pods.get(name)
            return {"metadata": {"uid": str(pod.uid)}} if pod else None
        assert (api, plural) == ("v1", "nodes")
        taints = [{"key": key, "effect": "NoSchedule"} for key in self.cluster.hosts[name].taints()]
        return {"metadata": {"uid": f"of {name}", "annotations": {"others": "x"}}, "spec": {"taints": taints}}

    async def _cordon(self, name: str, operations: Sequence[Object]) -> None:
        tests = {each["path"]: each["value"] for each in operations if each["op"] == "test"}
        there = await self.get("v1", "nodes", name)
        assert there and tests == {"/metadata/uid": f"of {name}", "/spec/taints": there["spec"]["taints"]}
        said = {each["path"]: each["value"] for each in operations if each["op"] == "add"}
        host, keys = self.cluster.hosts[name], {each["key"]: each.get("value", "") for each in said["/spec/taints"]}
        assert said["/spec/unschedulable"]
        assert self.cluster.pods[keys[names.UNFIT_TAINT]].k8s_node == name
        assert host.tainted == (MAINTENANCE in keys), "another's taint stays"
        assert not host.tainted or host.cordoned or host.ours, f"{name} was tainted by somebody else"
        host.ours = True

    async def apply(
        self, api: str, plural: str, body: Object, subresource: str = "", manager: str = names.OPERATOR_FIELD_MANAGER
    ) -> Object:
        cluster, metadata = self.cluster, body["metadata"]
        if plural == "statefulsets":
            _expect(metadata["resourceVersion"], cluster.set_version)
            for ordinal in range(body["spec"]["replicas"], cluster.size):
                cluster.no_job_is_on(f"cpu-{ordinal}")
            cluster.size, cluster.set_version = body["spec"]["replicas"], cluster.another_version()
        else:
            pod = cluster.pods[metadata["name"]]
            _expect(metadata["uid"], pod.uid)
            assert metadata["labels"] == {names.LABEL_EVICTABLE: "true"}
            pod.evictable = True
        return body

    async def patch(self, api: str, plural: str, name: str, operations: Sequence[Object]) -> Object:
        if plural == "nodes":
            await self._cordon(name, operations)
            return {}
        test, operation = operations
        assert (plural, operation["op"]) == ("pods", "remove")
        pod = self.cluster.pods[name]
        assert test == {"op": "test", "path": "/metadata/uid", "value": str(pod.uid)}
        assert pod.evictable, f"{name} has no label to remove"
        pod.evictable = False
        return {}

    async def delete(
        self, api: str, plural: str, name: str, preconditions: Mapping[str, str], *, orphan: bool = False
    ) -> bool:
        cluster = self.cluster
        assert plural == "pods"
        pod = cluster.pods[name]
        _expect(preconditions["uid"], pod.uid)
        cluster.no_job_is_on(name)
        if name in cluster.records and cluster.records[name].reboot == ISSUED:
            assert pod.created < cluster.records[name].since, f"{name} was started anew already"
            pod.phase = "ending"
            return True
        assert name not in cluster.records or cluster.records[name].is_held, f"{name} serves and is restarted"
        assert name not in cluster.foreign, f"{name} is another's"
        own = name in cluster.records and cluster.records[name].reason in (UNFIT, BROKEN)
        assert not own, f"{name} is restarted under a drain that it may lift itself"
        pod.phase = "ending"
        return True


class PlayedRest(SlurmRest):
    """slurmrestd."""

    def __init__(self, cluster: PlayedCluster) -> None:
        self.cluster = cluster

    async def nodes(self, *, full: bool) -> Mapping[str, SlurmNode]:
        return self.cluster.listing(set())

    async def time_there(self) -> datetime.datetime:
        return self.cluster.now

    async def node(self, name: str) -> SlurmNode | None:
        return self.cluster.seen(name) if name in self.cluster.records else None

    async def drain(self, name: str, reason: str) -> None:
        record = self.cluster.records[name]
        assert name not in self.cluster.foreign, f"the drain of {name} is another's"
        own = (UNFIT, BROKEN, *SLURMS_OWN, reasons.NEW, UNTESTED, *REMOVAL_REASONS)
        over = {reasons.UPDATE: own, reasons.NEW: (*OUR_REASONS, UNTESTED), UNTESTED: (reasons.NEW, *SLURMS_OWN)}
        over[reasons.SCALE_IN] = (*UPDATE_REASONS, UNFIT, BROKEN, *SLURMS_OWN, reasons.NEW, UNTESTED)
        if reason in (reasons.NEW, reasons.SCALE_IN, UNTESTED) and record.reason.startswith(reasons.NODE):
            over[reason] = (record.reason,)
        k8s_nodes: tuple[str, ...] = (reasons.NEW, UNTESTED, *OUR_REASONS) if reason.startswith(reasons.NODE) else ()
        leaves = reason.endswith("is cordoned") or " is tainted " in reason or " says " in reason
        k8s_nodes += (UNFIT, BROKEN) if leaves else ()
        repair = {reasons.REPAIR + each.removeprefix(reasons.PREFIX): each for each in (UNFIT, BROKEN)}
        repaired = record.reason in repair and not reason.startswith(reasons.REPAIR)
        replaced = (*over.get(reason, ()), *k8s_nodes, repair.get(reason))
        assert not record.is_held or repaired or record.reason in replaced, f"{name} was drained: {record.reason}"
        assert reason not in repair or record.is_held, f"{name} serves, and is drained for a repair"
        assert reason != UNTESTED or not record.refused, f"{name} is to be tested, and Slurm refuses it"
        assert not reason.endswith("is not ready") or self.cluster.may_be_drained_as_away(name)
        record.drain(reason, names.SLURM_USER, self.cluster.now)

    async def keep_out(self, name: str) -> None:
        record = self.cluster.records[name]
        assert name in self.cluster.foreign, f"nobody set {name} DOWN"
        assert record.base == "DOWN"
        record.drained = True
        record.state_is_set()

    async def give_reason(self, name: str, reason: str) -> None:
        record = self.cluster.records[name]
        assert record.reason == record.refused != "", f"{name} has a reason: {record.reason}"
        assert reason.endswith(f": {self.cluster.foreign.get(name)}"), f"{reason} was never said of {name}"
        record.reason, record.user = reason, names.SLURM_USER

    async def undrain(self, name: str) -> None:
        cluster, pod = self.cluster, self.cluster.pods[name]
        assert name not in cluster.foreign, f"the drain of {name} is another's"
        assert pod.phase == "up", f"{name} is to serve and its pod is {pod.phase}"
        assert not cluster.lacks(name), f"{name} is to serve and is unfit"
        assert not cluster.records[name].refused, f"{name} is refused, and Slurm lifts no drain of such a node"
        new = cluster.records[name].reason == reasons.NEW
        lacks = cluster.lacks_features(name) or cluster.lacks_place(name)
        assert not (new and lacks), f"{name} is to serve without its features or its place"
        assert not cluster.is_failed(name), f"{name} is to serve, and a condition of its host fails or did"
        assert not pod.evictable, f"{name} is to serve and its pod may be evicted"
        cluster.records[name].undrain()

    async def comment(self, name: str, text: str) -> None:
        self.cluster.records[name].comment = text

    async def _call(
        self,
        call: str,
        method: str,
        path: str,
        body: dict[str, Any] | None = None,
        params: Mapping[str, str] | None = None,
        seconds: float = 0,
    ) -> bytearray | None:
        """Only an update of features, weight and place comes so far: it has nothing else, and changes what it has."""
        cluster, name = self.cluster, path.removeprefix("/node/")
        assert (call, method) == ("update_node", "POST")
        record, said = cluster.records[name], {**(body or {})}
        before = dataclasses.replace(record)
        if "features" in said:
            assert cluster.features is not None, f"people gave {name} its features"
            record.features = frozenset(said.pop("features"))
            assert record.features == {*said.pop("features_act")}
        if "weight" in said:
            record.weight = said.pop("weight")["number"]
            assert record.weight == cluster.declared_weight(name), f"{name} gets weight {record.weight}"
        if "topology_str" in said:
            record.topology = said.pop("topology_str")
            assert cluster.declared_place(name) in (None, record.topology), f"{name} is put into {record.topology}"
            assert cluster.places is not None, f"people placed {name}"
        assert not said, f"with what {name} declares comes {said}"
        assert record != before, f"{name} gets what it has"
        return None

    async def take_down(self, name: str, reason: str) -> None:
        cluster, record = self.cluster, self.cluster.records[name]
        assert cluster.may_lose_jobs(name), f"{name} loses jobs after {cluster.waited(name)} s"
        cluster.jobs = [job for job in cluster.jobs if job.node != name]
        record.base = "DOWN"
        record.drain(reason, names.SLURM_USER, cluster.now)

    async def reservations(self) -> tuple[Reservation, ...]:
        return self.cluster.reservations()

    async def reserve(
        self,
        name: str,
        nodes: Sequence[str],
        starts: datetime.datetime,
        ends: datetime.datetime,
        user: str = names.RESERVATION_USER,
        flags: Sequence[str] = names.RESERVATION_FLAGS,
    ) -> None:
        assert {*nodes} <= self.cluster.records.keys(), "Slurm knows no such node"
        self.cluster.ours = Reservation(name, frozenset(nodes), starts, ends, user, "", frozenset(flags))

    async def change_reservation(
        self, name: str, nodes: Sequence[str], ends: datetime.datetime, starts: datetime.datetime | None = None
    ) -> None:
        there = self.cluster.ours
        assert there, "there is none"
        assert starts is None or there.starts > self.cluster.now, "it has begun"
        await self.reserve(name, nodes, starts or there.starts, ends)

    async def end_reservation(self, name: str) -> None:
        assert self.cluster.ours
        assert self.cluster.ours.name == name
        self.cluster.ours = None

    async def delete_node(self, name: str) -> None:
        pod = self.cluster.pods.get(name)
        assert pod is None or pod.phase == "ending", f"the record of {name} goes before its pod"
        self.cluster.no_job_is_on(name)
        self.cluster.forget(name)


def finished(work: Coroutine[Any, Any, str]) -> str:
    """Run what waits for nothing, without an event loop."""
    try:
        work.send(None)
    except StopIteration as done:
        return str(done.value)
    raise AssertionError("a played call waits for something")


def _expect(version: str, current: int) -> None:
    if version != str(current):
        raise KubernetesError(httpx.codes.CONFLICT, f"{version} is not the current version {current}")
