"""The part of a pass that concerns jobs that hang: it reads quiet jobs, tells them, and queues them again."""

from __future__ import annotations

import datetime
import math
from collections.abc import Callable

from slurm_operator import execute, metrics
from slurm_operator.clients.kubernetes import Object
from slurm_operator.clients.lease import Lease
from slurm_operator.clients.slurm.job_listing import MOST_ALIVE
from slurm_operator.clients.slurm.slurm_error import SlurmError
from slurm_operator.clients.slurm.slurmrestd import SlurmRest
from slurm_operator.decide.nodes import hanging_jobs
from slurm_operator.decide.nodes.hanging_jobs import Ledger, Release, Requeue, Step, Tell
from slurm_operator.execute import Executor
from slurm_operator.findings import Finding, shown
from slurm_operator.reconcile.pass_context import PassContext
from slurm_operator.state.slurm import Nodes, SeenQuietJob

EVERY_SECONDS = 15.0
"""Between looks at jobs: nodes write what they note about twice a minute."""


class HangingJobs:
    """The jobs that hang in one namespace's cluster. What it keeps stands in the status, too.

    Attributes:
        problems: findings of the pass before.
    """

    def __init__(self, executor: Executor, lease: Lease, clock: Callable[[], float]) -> None:
        self.problems: list[Finding] = []
        self._executor = executor
        self._lease = lease
        self._clock = clock
        self._of = ""
        self._ledger: Ledger | None = None
        self._looked = -math.inf

    def forget(self) -> None:
        """Forget what the status does not show: another operator may have acted meanwhile."""
        self._ledger = None

    def told(self, body: Object) -> Object | None:
        """Return what the status of a SlurmCluster is to say; None for nothing."""
        return hanging_jobs.written(self._known(body)) or None

    async def act(self, now: PassContext, nodes: Nodes) -> None:
        """Look at quiet jobs, and do what follows, unless that was done just before or the pass is late."""
        ledger, policies = self._known(now.body), now.seen.cluster.hangs
        if not policies and not ledger.jobs:
            self.problems = []
            return
        if self._clock() < self._looked + EVERY_SECONDS:
            return
        self._looked, ends = self._clock(), now.budget.ends()
        quiet = hanging_jobs.quiet_jobs(nodes)
        seen: dict[int, SeenQuietJob | None] = {}
        try:
            for job_id in hanging_jobs.to_look_at(ledger, quiet):
                if now.budget.is_over(ends):
                    break
                if await now.rest.record_count(job_id) <= MOST_ALIVE:
                    seen[job_id] = await now.rest.quiet_job(job_id)
        except SlurmError as error:
            self.problems = [Finding(execute.REFUSED, f"jobs that hang: {error}")]
            return
        told = hanging_jobs.read(now.body.get("status", {}).get("hangs"))
        moment = datetime.datetime.now(datetime.UTC).replace(microsecond=0)
        decided = hanging_jobs.decide(policies, quiet, seen, ledger, told, nodes, moment)
        self._ledger, self.problems = decided.ledger, []
        self._count(decided.ledger)
        for step in decided.steps:
            if now.budget.is_over(ends):
                break
            self.problems += await self._executor.attempt(now.body, _KINDS[type(step)], self._perform(now.rest, step))

    def _known(self, body: Object) -> Ledger:
        uid = body["metadata"]["uid"]
        if self._ledger is None or uid != self._of:
            self._of, self._ledger = uid, hanging_jobs.read(body.get("status", {}).get("hangs"))
        return self._ledger

    async def _perform(self, rest: SlurmRest, step: Step) -> str:
        self._lease.check()
        match step:
            case Tell(job_id, text):
                await rest.comment_job(job_id, text)
                return f"job {job_id}: {text}" if text else f"job {job_id} works again"
            case Requeue(hang):
                await rest.requeue_held(hang.job_id)
                return f"queued job {hang.job_id} again, which hung on {shown(sorted(hang.nodes))}"
            case Release(job_id, excluded):
                await rest.exclude_nodes(job_id, excluded)
                self._lease.check()
                await rest.release(job_id)
                return f"job {job_id} may run, but not on {shown(excluded)}"

    def _count(self, ledger: Ledger) -> None:
        metrics.HANGING_JOBS.clear()
        for hang in ledger.jobs.values():
            metrics.HANGING_JOBS.labels(hang.partition).inc()
        metrics.HANG_SUSPECTS.clear()
        for node, suspect in hanging_jobs.ranked(ledger.suspects):
            metrics.HANG_SUSPECTS.labels(node).set(suspect.jobs)


_KINDS: dict[type[Step], str] = {Tell: "JobHangs", Requeue: "RequeueHanging", Release: "ReleaseHanging"}
"""Names of the steps in Events, logs and metrics."""
