"""The part of a pass that concerns long checks: it submits and releases their jobs, and drains nodes that failed."""

from __future__ import annotations

import asyncio
import datetime
import math
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from contract import commands, names
from contract.conditions import Reason
from slurm_operator import drains, execute, metrics
from slurm_operator.clients.kubernetes import Object
from slurm_operator.clients.lease import Lease
from slurm_operator.clients.slurm.job_listing import AT_ONCE
from slurm_operator.clients.slurm.slurm_error import SlurmError
from slurm_operator.clients.slurm.slurmrestd import SlurmRest
from slurm_operator.decide.cluster.checks import changes as check_changes
from slurm_operator.decide.cluster.checks import ledger as check_ledger
from slurm_operator.decide.cluster.checks import long_checks, requests
from slurm_operator.decide.cluster.checks.changes import Change, Counted, Requested, Submitted
from slurm_operator.decide.cluster.checks.ledger import CheckJob, Ledger, Request
from slurm_operator.decide.cluster.checks.selection import Submission
from slurm_operator.decide.nodes.workers import NodeSetState
from slurm_operator.drains import Owner
from slurm_operator.execute import Executor
from slurm_operator.findings import Finding, shown
from slurm_operator.reconcile.pass_context import PassContext
from slurm_operator.state.resources import LongCheck
from slurm_operator.state.slurm import Nodes, Reservation, SeenCheckJob

EVERY_SECONDS = 5.0
"""Between looks at jobs. slurmctld keeps ended ones for MinJobAge, 300 s unless slurm.options sets another."""
RESERVATIONS_SECONDS = 60.0
"""Between looks for reservations that a lost status does not show."""
REFUSED_SECONDS = 60.0
"""Seconds from a refused submission to the next one."""
_NO_ASSOCIATION = 2045
"""ESLURM_INVALID_ACCOUNT (slurm_errno.h)."""
ASSOCIATE = "with accounting.enforce user nobody, whose jobs long checks are, needs an account that the partition takes"
_ANSWERED = "LongCheckAnswered"
"""Name of the Event with the verdict about a node that somebody asked for, or with a warning."""
_LEAST_PRIORITY = 2_147_483_645
"""The largest `nice` that Slurm takes."""


class LongChecks:
    """The long checks of one namespace's cluster.

    What it keeps may be lost at any time: jobs that the status lacks are held, and end by their deadline.

    Attributes:
        problems: findings of the pass before.
    """

    def __init__(self, executor: Executor, lease: Lease, clock: Callable[[], float]) -> None:
        self.problems: list[Finding] = []
        self._executor = executor
        self._lease = lease
        self._clock = clock
        self._of = ""
        self._changes: list[Change] = []
        self._nodes: frozenset[str] | None = None
        self._looked = self._refused = self._listed = -math.inf

    def forget(self) -> None:
        """Forget what the status does not show: another operator may have acted meanwhile."""
        self._changes, self._nodes = [], None

    def told(self, body: Object, declared: Iterable[LongCheck]) -> list[Object] | None:
        """Return what the status of a SlurmCluster is to say; None for nothing."""
        _, ledger = self._ledgers(body)
        return check_ledger.written(ledger, (check.name for check in declared), self._nodes) or None

    def untested(self, body: Object) -> frozenset[str]:
        """Return the nodes that requests wait for."""
        return requests.untested(self._ledgers(body)[1])

    async def act(self, now: PassContext, sets: Mapping[str, NodeSetState], nodes: Nodes) -> None:
        """Look at jobs, and do what follows, unless that was done just before or the pass is late."""
        told, ledger = self._ledgers(now.body)
        checks, asked = now.seen.cluster.long_checks, now.seen.cluster.requested_checks
        if not (checks or asked or ledger.jobs or ledger.retries):
            self.problems = []
            return
        if self._clock() < self._looked + EVERY_SECONDS:
            return
        self._looked, ends = self._clock(), now.budget.ends()
        try:
            seen = await self._look(now, told, ends)
            reservations = await self._reservations(now, checks, ledger, nodes)
        except SlurmError as error:
            self.problems = [Finding(execute.REFUSED, f"long checks: {error}")]
            return
        self._nodes = frozenset(nodes)
        moment = datetime.datetime.now(datetime.UTC).replace(microsecond=0)
        decided = long_checks.decide(checks, sets, ledger, told, seen, moment, nodes, reservations, asked)
        self.problems = [*decided.findings]
        for change in decided.changes:
            self._note(change, ledger)
            if isinstance(change, Requested) and change.request.text:
                await self._executor.report.event(now.body, Reason.LONG_CHECK_REQUESTED, _taken(change.request))
        for answer in decided.answers:
            await self._executor.report.event(now.body, _ANSWERED, answer)
        for drain in decided.drains:
            self.problems += await self._executor.execute(now.rest, now.body, drain)
        for action in decided.actions:
            if now.budget.is_over(ends):
                break
            self.problems += await self._executor.execute(now.rest, now.body, action)
        for job_id in decided.releases:
            self.problems += await self._executor.attempt(now.body, "ReleaseCheck", self._release(now.rest, job_id))
        for submission in decided.submissions if self._clock() >= self._refused + REFUSED_SECONDS else ():
            if now.budget.is_over(ends):
                break
            submitting = self._submit(now, submission, moment)
            if failed := await self._executor.attempt(now.body, "SubmitCheck", submitting):
                self.problems += failed
                self._refused = self._clock()
                break

    def _ledgers(self, body: Object) -> tuple[Ledger, Ledger]:
        """Return what the status has, and all that is known."""
        uid = body["metadata"]["uid"]
        if uid != self._of:
            self.forget()
            self._of = uid
        told = check_ledger.read(body.get("status", {}).get("longChecks", ()))
        self._changes = check_changes.pending(told, self._changes)
        return told, check_changes.changed(told, self._changes)

    async def _look(self, now: PassContext, told: Ledger, ends: float) -> dict[int, SeenCheckJob | None]:
        seen: dict[int, SeenCheckJob | None] = {}
        left = long_checks.to_look_at(told)
        while left and not now.budget.is_over(ends):
            some, left = left[:AT_ONCE], left[AT_ONCE:]
            seen |= zip(some, await asyncio.gather(*map(now.rest.check_job, some)), strict=True)
        return seen

    async def _reservations(
        self, now: PassContext, checks: Iterable[LongCheck], ledger: Ledger, nodes: Nodes
    ) -> tuple[Reservation, ...] | None:
        """Return Slurm's reservations; None if no node is tried again, is about to be, or may be left over."""
        retrying = any(check.passes or check.comes_first for check in checks)
        owners = (Owner.LONG_CHECK, Owner.UNTESTED)
        drained = retrying and any(drains.owner(node) in owners for node in nodes.values())
        if not (ledger.retries or drained or self._clock() >= self._listed + RESERVATIONS_SECONDS):
            return None
        listed = await now.rest.reservations()
        self._listed = self._clock()
        return listed

    def _note(self, change: Change, ledger: Ledger) -> None:
        """Remember a change until the status shows it."""
        if change in self._changes:
            return
        self._changes.append(change)
        if isinstance(change, Counted):
            metrics.LONG_CHECKS.labels(ledger.jobs[change.job_id].check, change.verdict).inc()

    async def _release(self, rest: SlurmRest, job_id: int) -> None:
        self._lease.check()
        await rest.release(job_id)

    async def _submit(self, now: PassContext, submission: Submission, moment: datetime.datetime) -> None:
        self._lease.check()
        try:
            job_id = await now.rest.submit(job(submission))
        except SlurmError as error:
            if _NO_ASSOCIATION not in error.numbers:
                raise
            way = commands.sacctmgr(now.seen.cluster.namespace, "add user nobody account=NAME")
            raise SlurmError(error.reason, f"{error}; {ASSOCIATE}: {way}", error.numbers) from error
        of = (submission.check.name, submission.node, moment, "", submission.others, submission.aim)
        self._changes.append(Submitted(CheckJob(job_id, *of)))


def _taken(request: Request) -> str:
    return f"long check {request.check} is to test {shown(sorted(request.nodes))} as soon as each is idle"


def job(submission: Submission) -> dict[str, Any]:
    """Return a job as slurmrestd takes it: whole nodes, the lowest priority, and nobody's rights."""
    check = submission.check
    return {
        "name": long_checks.job_name(check.name),
        "partition": check.partition,
        "user_id": str(names.LONG_CHECK_USER_ID),
        "group_id": str(names.LONG_CHECK_USER_ID),
        "script": check.script,
        "required_nodes": [*submission.nodes],
        "minimum_nodes": len(submission.nodes),
        "maximum_nodes": len(submission.nodes),
        "tasks": len(submission.nodes),
        **({"reservation": submission.reservation} if submission.reservation else {}),
        "shared": ["none"],
        "memory_per_node": {"set": True, "infinite": False, "number": 0},
        "time_limit": {"set": True, "infinite": False, "number": check.limit_minutes},
        "deadline": {"set": True, "infinite": False, "number": int(submission.deadline.timestamp())},
        "nice": _LEAST_PRIORITY,
        "hold": True,
        "requeue": False,
        # The user has no home, and Open MPI does not start without one.
        "environment": ["PATH=/usr/local/bin:/usr/bin:/bin:/opt/slurm/bin", "LC_ALL=C", "HOME=/tmp"],
        "current_working_directory": "/",
        "standard_output": "/dev/null",
        "standard_error": "/dev/null",
    }
