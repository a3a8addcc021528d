"""A client of slurmrestd that a test asks once."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TypeVar

from slurm_operator.clients.slurm import slurmrestd

from tests.operator.fakes.fake_slurmrestd import FakeSlurmrestd

T = TypeVar("T")


def ask(fake: FakeSlurmrestd, key_file: Path, work: Callable[[slurmrestd.SlurmRest], Awaitable[T]]) -> T:
    """Return what work gives with a client of the fake, which is closed then."""

    async def run() -> T:
        rest = slurmrestd.SlurmRest(fake.url, key_file)
        try:
            return await work(rest)
        finally:
            await rest.close()

    return asyncio.run(run())
