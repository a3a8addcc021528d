"""Promises of passes in which calls conflict or take long: neither holds up what else there is to do and to tell."""

from __future__ import annotations

import asyncio
import datetime
from collections.abc import Mapping
from typing import Any

import pytest
from slurm_operator import execute, report
from slurm_operator.clients.job_listing import JobListing
from slurm_operator.clients.kubernetes import KubernetesApi, KubernetesError
from slurm_operator.clients.slurmrestd import SlurmRest
from slurm_operator.decide.cluster import serving
from slurm_operator.findings import Finding, lasting
from slurm_operator.reasons import Reason
from slurm_operator.reconcile import cluster
from slurm_operator.reconcile.node_sets import ACTIONS_SECONDS, NodeSets, Served
from slurm_operator.state import Jobs, NodeSet, Pod, Reservation, SlurmNode, Unknown, Workload

from contract import names
from tests.operator.played_clients import LeaseFor
from tests.operator.test_scale import node

URL = "http://rest"
NODES = 50


class Clock:
    """A clock that calls move on."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


class Sizes(KubernetesApi):
    """Takes sizes, but for one set, which is never as it was seen."""

    def __init__(self, conflicting: str = "") -> None:
        self.conflicting = conflicting
        self.applied: dict[str, int] = {}

    async def apply(
        self, api: str, plural: str, body: Any, subresource: str = "", manager: str = names.OPERATOR_FIELD_MANAGER
    ) -> Any:
        name = body["metadata"]["name"]
        if name == self.conflicting:
            raise KubernetesError(409, "the object has been modified")
        self.applied[name] = body["spec"]["replicas"]
        return body

    async def get(self, api: str, plural: str, name: str) -> Any:
        return {"metadata": {"resourceVersion": "8"}, "spec": {"replicas": 1}}


class SlowRest(SlurmRest):
    """A slurmctld that takes two seconds for each change."""

    url = URL

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self.drained: list[str] = []

    async def nodes(self, *, full: bool) -> Mapping[str, SlurmNode]:
        return {name: self._node(name) for name in (f"cpu-{n}" for n in range(NODES))}

    async def node(self, name: str) -> SlurmNode | None:
        return self._node(name)

    async def reservations(self) -> tuple[Reservation, ...]:
        return ()

    async def drain(self, name: str, reason: str) -> None:
        self.clock.now += 2
        self.drained.append(name)

    def _node(self, name: str) -> SlurmNode:
        return node(name, "IDLE", *(("DRAIN",) if name in self.drained else ()))


@pytest.fixture(autouse=True)
def quiet(monkeypatch: pytest.MonkeyPatch) -> None:
    async def event(*_: object, **__: object) -> None: ...

    async def none(*_: object) -> Jobs:
        return Jobs(())

    monkeypatch.setattr(report.Reporter, "event", event)

    async def nobody_knows(*_: object) -> None: ...

    monkeypatch.setattr(JobListing, "with_processes", none)
    monkeypatch.setattr(JobListing, "pending", nobody_knows)


def served(api: KubernetesApi, rest: SlowRest, sizes: Mapping[str, tuple[int, int]]) -> Served:
    """A pass over node sets, by name their wanted and their present size."""
    sets = [NodeSet(name, "test", name, wanted, finalizer_url=URL) for name, (wanted, _) in sizes.items()]
    workloads = {name: Workload(name, size, size, "7") for name, (_, size) in sizes.items()}
    pods = {
        f"{name}-{n}": Pod(f"{name}-{n}", "worker", ready=True, running=True)
        for name, (_, size) in sizes.items()
        for n in range(size)
    }
    passing = NodeSets(execute.Executor(api, LeaseFor(999)), JobListing(), rest.clock)
    bodies: dict[str, Any] = {name: {} for name in sizes}
    running = Unknown("NotAsked", "")
    states = serving.states(sets, workloads, pods, datetime.datetime.now(datetime.UTC))
    return asyncio.run(passing.serve(rest, states, bodies, running=running, cluster_stays=True))


def test_a_conflict_over_one_node_set_holds_up_no_other() -> None:
    api = Sizes(conflicting="a")
    done = served(api, SlowRest(Clock()), {"a": (2, 1), "b": (2, 1)})
    assert api.applied == {"b": 2}
    assert [each.reason for each in done.problems] == [execute.CONFLICT]


def test_a_pass_of_slow_changes_ends_in_time_to_tell_its_status_and_the_next_one_goes_on() -> None:
    rest = SlowRest(Clock())
    served(Sizes(), rest, {"cpu": (0, NODES)})
    first = list(rest.drained)
    assert first
    assert ACTIONS_SECONDS <= rest.clock.now < ACTIONS_SECONDS + 2
    served(Sizes(), rest, {"cpu": (0, NODES)})
    assert len(rest.drained) == len(set(rest.drained)) > len(first), "other nodes than before"


def test_a_conflict_is_told_when_it_lasts() -> None:
    conflict, other = Finding(execute.CONFLICT, "Guard: changed"), Finding(Reason.ACTION_FAILED, "Drain: away")
    before: dict[str, int] = {}
    for _ in range(cluster.CONFLICTS_TOLD - 1):
        told, before = lasting([conflict, other], execute.CONFLICT, before, cluster.CONFLICTS_TOLD)
        assert told == [other]
    told, _ = lasting([conflict, other], execute.CONFLICT, before, cluster.CONFLICTS_TOLD)
    assert told == [conflict, other]
    _, before = lasting([other], execute.CONFLICT, before, cluster.CONFLICTS_TOLD)
    told, _ = lasting([conflict, other], execute.CONFLICT, before, cluster.CONFLICTS_TOLD)
    assert told == [other], "it was over in between"
