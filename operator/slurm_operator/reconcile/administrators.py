"""The part of a pass that concerns Slurm's administrators, which slurmdbd stores."""

from __future__ import annotations

import time
from collections.abc import Mapping

from slurm_operator.clients.lease import Lease
from slurm_operator.clients.slurm.slurmrestd import SlurmRest
from slurm_operator.decide.cluster import accounting
from slurm_operator.decide.cluster.administrators import changes
from slurm_operator.execute import Executor
from slurm_operator.findings import Findings
from slurm_operator.reconcile.pass_context import PassContext
from slurm_operator.state.resources import Cluster

EVERY_SECONDS = 60.0
"""Seconds until the operator sets a level that was changed by hand back to the declared one."""


class Administrators:
    """The administrators of one namespace's cluster. What it keeps spares work, and may be lost at any time."""

    def __init__(self, executor: Executor, lease: Lease) -> None:
        self._executor = executor
        self._lease = lease
        self._looked = -EVERY_SECONDS

    async def bring(self, now: PassContext) -> tuple[Findings, Mapping[str, str]]:
        """Bring the declared administrators to slurmdbd.

        Returns:
            Findings, and the administrators of this or an earlier configuration in slurmdbd: name → level.
        """
        findings, cluster = Findings(), now.seen.cluster
        is_due = time.monotonic() - self._looked >= EVERY_SECONDS or cluster.administrators != cluster.appointed
        if not is_due or not (cluster.administrators or cluster.appointed):
            return findings, cluster.appointed
        if not cluster.accounting or accounting.is_waiting(now.seen):
            return findings, cluster.appointed  # Another finding says that slurmdbd is away.
        findings += await self._executor.attempt(now.body, "Appoint", self._appoint(now.rest, cluster))
        if findings:
            return findings, cluster.appointed
        self._looked = time.monotonic()
        return findings, cluster.administrators

    async def _appoint(self, rest: SlurmRest, cluster: Cluster) -> str:
        changed = changes(cluster.administrators, cluster.appointed, await rest.administrators())
        if not changed:
            return ""
        self._lease.check()
        await rest.appoint(changed)
        levels = (f"{name} {level}" for name, level in sorted(changed.items()))
        return f"set the AdminLevel in slurmdbd, as login.users of the stack's config says: {', '.join(levels)}"
