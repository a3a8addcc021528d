"""Executes actions, each only while the lease is ours, and only if its preconditions hold at that moment."""

from __future__ import annotations

import logging
from collections.abc import Awaitable

import httpx

from contract.conditions import Reason
from slurm_operator import actions, metrics, report
from slurm_operator.changes.node_sets import NodeSetObjects
from slurm_operator.changes.slurm_records import SlurmRecords
from slurm_operator.changes.workloads import Workloads
from slurm_operator.clients.kubernetes import KubernetesApi, KubernetesError, Object
from slurm_operator.clients.lease import Lease
from slurm_operator.clients.slurm.slurm_error import SlurmError, Trouble
from slurm_operator.clients.slurm.slurmrestd import SlurmRest
from slurm_operator.findings import Condition, Finding, Findings
from slurm_operator.state.slurm import SlurmJob, Unknown

log = logging.getLogger(__name__)

REFUSED = Reason.ACTION_REFUSED
"""Reason of a refused change. Other changes may succeed."""
CONFLICT = Reason.ACTION_CONFLICT
"""Reason of a change whose object has changed since this pass saw it: the next pass decides anew."""


class Executor:
    """Executes actions in one namespace.

    Attributes:
        report: writes Events and logs about them.
        node_sets: changes NodeSets themselves.
    """

    def __init__(self, api: KubernetesApi, lease: Lease) -> None:
        self.report = report.Reporter(api, lease)
        self.node_sets = NodeSetObjects(api, lease)
        self._lease = lease
        self._records = SlurmRecords(lease)
        self._workloads = Workloads(api, lease)

    async def attempt(self, body: Object, kind: str, work: Awaitable[str | None]) -> list[Finding]:
        """Make one change and return why it failed, for Degraded; the next pass tries again."""
        try:
            done = await work
        except (SlurmError, KubernetesError) as error:
            answer = error.status if isinstance(error, KubernetesError) else 0
            if answer == httpx.codes.CONFLICT:
                return [Finding(CONFLICT, f"{kind}: {error}")]
            metrics.ACTION_FAILURES.labels(kind).inc()
            log.warning("action failed: %s error=%s", kind, error)
            refused = httpx.codes.is_client_error(answer) or getattr(error, "reason", None) is Trouble.REFUSED
            return [Finding(REFUSED if refused else Reason.ACTION_FAILED, f"{kind}: {error}")]
        if done:
            metrics.ACTIONS.labels(kind).inc()
            log.info("%s: %s", kind, done)
            await self.report.event(body, kind, done)
        return []

    async def tell(
        self, body: Object, conditions: tuple[Condition, ...], fields: dict[str, object], *, all_of_them: bool = False
    ) -> list[Finding]:
        """Write a resource's status and return why that failed; see Reporter.write_status."""
        writing = self.report.write_status(body, conditions, fields, all_of_them=all_of_them)
        return await self.attempt(body, "WriteStatus", writing)

    async def tell_defects(self, body: Object, findings: list[Finding]) -> list[Finding]:
        """Write conditions about a resource that nobody can decide about; all else that its status says stays."""
        fields = {key: told for key, told in body.get("status", {}).items() if key not in report.OF_EACH_STATUS}
        return await self.tell(body, Findings(findings).conditions(""), fields)

    async def execute(
        self, rest: SlurmRest, body: Object, decided: actions.Action, jobs: tuple[SlurmJob, ...] | Unknown = ()
    ) -> list[Finding]:
        """Execute an action on what `body` declares, report it, and return the failure; messages name `jobs`."""
        return await self.attempt(body, actions.kind(decided), self.perform(rest, decided, jobs))

    async def perform(self, rest: SlurmRest, decided: actions.Action, jobs: tuple[SlurmJob, ...] | Unknown = ()) -> str:
        """Perform one action on a node set or slurmctld.

        Args:
            rest: the cluster's slurmrestd.
            decided: what to do.
            jobs: what is known of jobs that have processes, to say what becomes of those that a node loses.

        Returns:
            A sentence about what was done, empty if there was nothing to do any more.
        """
        self._lease.check()
        match decided:
            case actions.SetReplicas():
                return await self._workloads.set_replicas(rest, decided)
            case actions.SetEvictable():
                return await self._workloads.set_evictable(rest, decided)
            case actions.SetOnDelete():
                return await self._workloads.set_on_delete(decided)
            case actions.DeletePod():
                return await self._workloads.delete_pod(rest, decided)
            case actions.Reserve() | actions.ChangeReservation() | actions.EndReservation():
                return await self._records.change_reservation(rest, decided)
        return await self._records.change_node(rest, decided, jobs)
