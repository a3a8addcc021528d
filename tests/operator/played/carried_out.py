"""Carries out an action with the real executor, and what others do to its node in between."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TypeVar

from slurm_operator import actions, execute
from slurm_operator.clients.kubernetes import KubernetesApi
from slurm_operator.clients.slurm import slurmrestd

from contract import reasons
from tests.operator.fakes.fake_slurm import FakeSlurm
from tests.operator.fakes.fake_slurmrestd import FakeSlurmrestd
from tests.operator.played.played_clients import LeaseFor
from tests.operator.worlds.world import KEY

NODE = "cpu-0"
Meanwhile = Callable[[FakeSlurm], None]
UNFIT = "pulumi-slurm:health gpus: 3 of 4 GPUs answer"
REPAIR = "pulumi-slurm:repair health gpus: 3 of 4 GPUs answer"
T = TypeVar("T")


def with_rest(slurm: FakeSlurmrestd, folder: Path, work: Callable[[slurmrestd.SlurmRest], Awaitable[T]]) -> T:
    """Return what work gives with a client of the fake slurmrestd."""
    key = folder / "jwt.key"
    key.write_bytes(KEY)

    async def run() -> T:
        rest = slurmrestd.SlurmRest(slurm.url, key)
        try:
            return await work(rest)
        finally:
            await rest.close()

    return asyncio.run(run())


def carry_out(slurm: FakeSlurmrestd, folder: Path, api: KubernetesApi, action: actions.Action, checks: int = 9) -> str:
    """Return what the executor tells of an action; the lease is lost after so many checks."""
    return with_rest(slurm, folder, lambda rest: execute.Executor(api, LeaseFor(checks)).perform(rest, action))


def by_somebody(slurm: FakeSlurm) -> None:
    slurm.drain(NODE, "bad disk", "root")


def in_our_words(slurm: FakeSlurm) -> None:
    slurm.drain(NODE, reasons.SCALE_IN, "root")


def gone(slurm: FakeSlurm) -> None:
    del slurm.nodes[NODE]


def undrained(slurm: FakeSlurm) -> None:
    slurm.nodes[NODE].update({"state": ["IDLE"], "reason": "", "reason_set_by_user": ""})


def at_work(slurm: FakeSlurm) -> None:
    slurm.run_job(NODE)
