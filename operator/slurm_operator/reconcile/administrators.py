"""The part of a pass that concerns Slurm's administrators, which slurmdbd stores."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

from slurm_operator import execute
from slurm_operator.clients.lease import Lease
from slurm_operator.clients.slurm.slurm_error import SlurmError
from slurm_operator.clients.slurm.slurmrestd import SlurmRest
from slurm_operator.decide.cluster import accounting
from slurm_operator.decide.cluster.administrators import changes
from slurm_operator.execute import Executor
from slurm_operator.findings import Finding, Findings
from slurm_operator.reconcile.accounts import Silence
from slurm_operator.reconcile.pass_context import PassContext

EVERY_SECONDS = 60.0
"""Seconds until the operator sets a level that was changed by hand back to the declared one."""


class Administrators:
    """The administrators of one namespace's cluster. What it keeps spares work, and may be lost at any time."""

    def __init__(self, executor: Executor, lease: Lease, clock: Callable[[], float]) -> None:
        self._executor = executor
        self._lease = lease
        self._clock = clock
        self._looked = -math.inf
        self._silence = Silence()

    async def bring(self, now: PassContext) -> tuple[Findings, Mapping[str, str]]:
        """Bring the declared administrators to slurmdbd.

        Returns:
            Findings, and the administrators of this or an earlier configuration in slurmdbd: name → level.
        """
        cluster = now.seen.cluster
        is_due = self._clock() >= self._looked + EVERY_SECONDS or cluster.administrators != cluster.appointed
        if not is_due or not (cluster.administrators or cluster.appointed):
            return Findings(), cluster.appointed
        if not cluster.accounting or accounting.is_waiting(now.seen):
            self._silence.end()
            return Findings(), cluster.appointed  # Another finding says that slurmdbd is away.
        try:
            changed = changes(cluster.administrators, cluster.appointed, await now.rest.administrators())
        except SlurmError as error:
            told = [Finding(execute.REFUSED, f"administrators can't be read: {error}")]
            return Findings([] if self._silence.is_short(error, self._clock()) else told), cluster.appointed
        self._silence.end()
        if failed := await self._executor.attempt(now.body, "Appoint", self._appoint(now.rest, changed)):
            return Findings(failed), cluster.appointed
        self._looked = self._clock()
        return Findings(), cluster.administrators

    async def _appoint(self, rest: SlurmRest, changed: Mapping[str, str]) -> str:
        if not changed:
            return ""
        self._lease.check()
        await rest.appoint(changed)
        levels = (f"{name} {level}" for name, level in sorted(changed.items()))
        return f"set the AdminLevel in slurmdbd, as login.users of the stack's config says: {', '.join(levels)}"
