"""Asks the config dry run what a real slurmctld makes of a configuration (slurm_node/roles/config_dry_run.py)."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

import httpx

from slurm_operator.clients.slurm.slurmrestd_connection import NO_ANSWER
from slurm_operator.decide.cluster.config import Verdict

DEADLINE_SECONDS = 30.0


class DryRunError(Exception):
    """Nothing was learned about the configuration."""


async def ask(url: str, files: Mapping[str, str], seconds: float = DEADLINE_SECONDS) -> Verdict:
    """Have a configuration tried.

    Args:
        url: base URL of the config dry run's Service.
        files: name to text.
        seconds: how long the answer may take, DEADLINE_SECONDS at most.

    Raises:
        DryRunError: it did not answer in time, or not as it should.
    """
    try:
        limit = min(seconds, DEADLINE_SECONDS)
        async with asyncio.timeout(limit), httpx.AsyncClient(trust_env=False, timeout=None) as client:  # noqa: S113 - the whole has a limit
            answer = await client.post(url, json={"files": dict(files)})
            said = answer.json()
            if answer.is_error:
                raise DryRunError(f"{url}: {said.get('error', answer.status_code)}")
            return Verdict(bool(said["accepted"]), str(said["words"]))
    except (*NO_ANSWER, TimeoutError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise DryRunError(f"{url}: {type(error).__name__} {error}".rstrip()) from error
