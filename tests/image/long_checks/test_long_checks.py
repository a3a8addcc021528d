"""Promises about the jobs of long checks, of the real slurmctld and slurmrestd."""

from __future__ import annotations

import asyncio
import datetime
from pathlib import Path

import pytest
from slurm_operator.clients.slurm import slurmrestd
from slurm_operator.clients.slurm.slurm_error import SlurmError
from slurm_operator.decide.cluster.checks import long_checks
from slurm_operator.decide.cluster.checks.ledger import CheckJob, Verdict
from slurm_operator.decide.cluster.checks.selection import Submission
from slurm_operator.reconcile.health.long_checks import job
from slurm_operator.state.resources import LongCheck
from slurm_operator.state.slurm import SeenCheckJob

from bench.worlds.real_slurm import RealSlurm
from contract import names

CHECK = LongCheck("bandwidth", "main", ("cpu",), 86_400, 10, 25, drains=True, script="#!/bin/sh\n")


def test_slurm_takes_a_checks_job_on_hold_as_nobody_and_lets_no_user_be_nobody(image: Path, tmp_path: Path) -> None:
    now = datetime.datetime.now(datetime.UTC)

    async def work(rest: slurmrestd.SlurmRest) -> tuple[SeenCheckJob | None, ...]:
        number = await rest.submit(job(Submission(CHECK, "cpu-1", now + datetime.timedelta(minutes=25))))
        held = await rest.check_job(number)
        assert held
        assert long_checks.judge(CheckJob(number, "bandwidth", "cpu-1", now), held) is None
        await rest.release(number)
        released = await rest.check_job(number)
        # Its time limit does not fit before this deadline, also while it is held.
        late = await rest.submit(job(Submission(CHECK, "cpu-1", now + datetime.timedelta(minutes=10, seconds=3))))
        for _ in range(240):
            over = await rest.check_job(late)
            if over and "PENDING" not in over.states:
                break
            await asyncio.sleep(0.5)  # slurmctld looks each half minute, and tells nobody.
        with pytest.raises(SlurmError, match=r"(?i)partition"):
            await rest.submit({**job(Submission(CHECK, "cpu-1", now + datetime.timedelta(hours=1))), "partition": "no"})
        assert over
        assert long_checks.judge(CheckJob(late, "bandwidth", "cpu-1", now), over) == (Verdict.NONE, "DEADLINE")
        return held, released, await rest.check_job(late + 1000)

    with RealSlurm(image, tmp_path / "slurm", b"k" * 32) as there:
        there.make_nodes("cpu", 2)
        rest = slurmrestd.SlurmRest(there.url, tmp_path / "slurm/keys/jwt.key")

        async def all_of_it() -> tuple[SeenCheckJob | None, ...]:
            try:
                return await work(rest)
            finally:
                await rest.close()

        held, released, unknown = asyncio.run(all_of_it())
        assert held
        assert released
        shown = there.command("scontrol show job --oneliner | head -1")
    mine = (f"{names.LONG_CHECK_PREFIX}bandwidth", names.LONG_CHECK_USER_ID, frozenset({"cpu-1"}))
    assert (held.name, held.user_id, held.nodes) == mine
    assert (held.held, released.held, unknown) == (True, False, None)
    assert "OverSubscribe=NO" in shown
    assert "Requeue=0" in shown
