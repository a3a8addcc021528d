"""The operator's own passes over accounts, run in a room's network: JSON on standard input and output."""

from __future__ import annotations

import asyncio
import dataclasses
import json
import math
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

from slurm_operator import accounts
from slurm_operator.clients.lease import Lease
from slurm_operator.clients.slurm.slurm_error import SlurmError
from slurm_operator.clients.slurm.slurmrestd import SlurmRest
from slurm_operator.execute import Executor
from slurm_operator.reconcile.accounts import Accounts
from slurm_operator.reconcile.pass_budget import PassBudget
from slurm_operator.reconcile.pass_context import PassContext

from tests.operator.states.seen_clusters import workload, world

URL = "http://127.0.0.1:6820"
PASSES = 4
"""The first takes the steps, the next one sees their effect, a third tries again what failed."""


async def _bring(asked: dict[str, Any]) -> dict[str, Any]:
    rest = SlurmRest(URL, Path(asked["key"]))
    await _answering(rest)
    events: list[str] = []

    async def event(body: object, reason: str, note: str) -> None:
        events.append(note)

    executor = cast(Executor, SimpleNamespace(report=SimpleNamespace(event=event)))
    lease = cast(Lease, SimpleNamespace(check=lambda: None))
    passes = Accounts(executor, lease)
    status, findings = asked["status"], []
    for _ in range(PASSES):
        seen = world()
        cluster = dataclasses.replace(
            seen.cluster,
            name=asked["cluster"],
            accounting="slurm-accounting",
            accounts=accounts.declared({"accounts": asked["declared"]}),
            ledger=accounts.ledger({"accounts": status}),
        )
        workloads = {**seen.workloads, "slurm-accounting": workload("slurm-accounting", 1)}
        seen = dataclasses.replace(seen, cluster=cluster, workloads=workloads)
        body = {"metadata": {"name": "test", "uid": "one"}, "status": {"accounts": status}}
        findings, status = await passes.bring(
            PassContext(rest, body, seen, cast(Any, None), PassBudget(lambda: -math.inf))
        )
    await rest.close()
    return {"status": status, "findings": [each.message for each in findings], "events": events}


async def _answering(rest: SlurmRest) -> None:
    """Wait until slurmrestd answers."""
    async with asyncio.timeout(60):
        while True:
            try:
                await rest.administrators()
            except SlurmError:
                await asyncio.sleep(0.2)  # It tells nobody that it answers.
            else:
                return


if __name__ == "__main__":
    json.dump(asyncio.run(_bring(json.load(sys.stdin))), sys.stdout)
