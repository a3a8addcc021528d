"""Measures the part of the operator's pass that concerns long checks, over 1,000 nodes, with a real slurmctld.

No job begins, since the partition is down. So jobs end when this measurement cancels them.
"""

from __future__ import annotations

import asyncio
import datetime
import json
import statistics
import tempfile
import time
import types
from collections.abc import Awaitable
from pathlib import Path
from typing import Any, cast

from slurm_operator.clients.slurm.slurm_error import SlurmError
from slurm_operator.clients.slurm.slurmrestd import SlurmRest
from slurm_operator.decide.cluster.checks.long_checks import MOST_JOBS, MOST_SUBMITTED
from slurm_operator.decide.nodes.workers import NodeSetState
from slurm_operator.findings import Finding
from slurm_operator.reconcile.health.long_checks import EVERY_SECONDS, LongChecks
from slurm_operator.reconcile.pass_budget import PassBudget
from slurm_operator.reconcile.pass_context import PassContext
from slurm_operator.state.kubernetes import Pod
from slurm_operator.state.resources import LongCheck
from slurm_operator.state.slurm import SlurmNode

from bench.measurement import Measurement
from bench.worlds.real_slurm import RealSlurm
from devcluster.images.layers import unpack_image
from tests.operator.states.sets import node_set
from tests.operator.worlds.world import KEY

NODES, PASSES = 1000, 20
CHECK = LongCheck("bandwidth", "main", ("cpu",), 86_400, 10, 100, drains=True, script="#!/bin/sh\nexit 0\n")


def measure(_: None) -> list[Measurement]:
    """Measure passes over as many jobs as there may be. In each some end, begin and are submitted."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "image").mkdir()
        unpack_image(folder / "image")
        (folder / "jwt.key").write_bytes(KEY)
        with RealSlurm(folder / "image", folder / "slurm", KEY) as slurm:
            slurm.make_nodes("cpu", NODES)
            slurm.command("scontrol update partitionname=main state=down")
            taken = asyncio.run(_passes(slurm, SlurmRest(slurm.url, folder / "jwt.key")))
    detail = {"median, s": statistics.median(taken), "n": len(taken)}
    return [Measurement("operator, 1,000 nodes: the part of a pass about long checks", max(taken), 1, "s", detail)]


async def _passes(slurm: RealSlurm, rest: SlurmRest) -> list[float]:
    operator, taken = _Operator(rest, idle_nodes(NODES)), list[float]()
    async with asyncio.timeout(600):
        while len(operator.jobs()) < MOST_JOBS:
            await operator.look()
        for _ in range(PASSES):
            ended = " ".join(str(job["id"]) for job in operator.jobs()[:MOST_SUBMITTED])
            slurm.command(f"scancel {ended}")
            taken.append(await operator.look())
    return taken


def idle_nodes(count: int) -> NodeSetState:
    """Return a set of idle nodes, as a pass sees them."""
    now = datetime.datetime.now(datetime.UTC)
    pods = [Pod(f"cpu-{n}", "worker", ready=True, running=True, created=now) for n in range(count)]
    nodes = {pod.name: SlurmNode(pod.name, frozenset({"IDLE", "DYNAMIC_NORM"})) for pod in pods}
    return node_set(count, count, pods, now, nodes=nodes)


class _Operator:
    """The operator's part about long checks, with its status in memory. It may always act."""

    def __init__(self, rest: SlurmRest, nodes: NodeSetState) -> None:
        self._rest, self._nodes, self._moment = rest, nodes, 0.0
        self._body: dict[str, Any] = {"metadata": {"uid": "1"}, "status": {}}
        self._checks = LongChecks(cast(Any, self), cast(Any, self), lambda: self._moment)
        self.report = self

    def jobs(self) -> list[dict[str, Any]]:
        """Return the jobs that the status has."""
        return [job for row in self._body["status"].get("longChecks", ()) for job in row.get("jobs", ())]

    async def look(self) -> float:
        """Make a pass that writes the status of the last one; return the seconds that it took."""
        self._moment += EVERY_SECONDS + 1
        cluster = types.SimpleNamespace(long_checks=(CHECK,), requested_checks={})
        began = time.perf_counter()
        told = self._checks.told(self._body, [CHECK])
        self._body = json.loads(json.dumps({**self._body, "status": {"longChecks": told or []}}))
        seen = cast(Any, types.SimpleNamespace(cluster=cluster))
        now = PassContext(self._rest, self._body, seen, cast(Any, None), PassBudget())
        await self._checks.act(now, {"cpu": self._nodes}, cast(Any, self._nodes.nodes))
        taken = time.perf_counter() - began
        if self._checks.problems:
            raise RuntimeError(f"long checks met {self._checks.problems}")
        return taken

    def check(self) -> None:
        """The lease is ours."""

    async def attempt(self, body: object, kind: str, work: Awaitable[str | None]) -> list[Finding]:
        """Make a change."""
        try:
            await work
        except SlurmError as error:
            raise RuntimeError(f"{kind}: {error}") from error
        return []
