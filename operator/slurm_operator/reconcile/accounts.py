"""The part of a pass that concerns QOS, accounts and associations, which slurmdbd stores."""

from __future__ import annotations

import dataclasses
import datetime
import logging
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from contract.accounts import ROOT
from contract.conditions import Reason
from slurm_operator import accounts, metrics
from slurm_operator.accounts import Database, Entity, Kind, Ledger
from slurm_operator.clients.lease import Lease
from slurm_operator.clients.slurm.slurm_error import SlurmError, Trouble
from slurm_operator.decide.cluster import accounting
from slurm_operator.decide.cluster.accounts import Change, Decision, Removal, decide, qos_of_partitions, waits_for
from slurm_operator.execute import Executor
from slurm_operator.findings import Finding, Findings, shown, under_way
from slurm_operator.reconcile.growing_pause import GrowingPause
from slurm_operator.reconcile.pass_budget import ACTED_AFTER_SECONDS
from slurm_operator.reconcile.pass_context import PassContext

log = logging.getLogger(__name__)

EVERY_SECONDS = 120.0
"""Seconds until the operator sets a value that was changed by hand back to the declared one."""
SILENT_SECONDS = 60.0
"""Since the first look without an answer. Until then slurmdbd is asked in each pass, and afterwards it is told of."""
FIRST_PAUSE_SECONDS, LONGEST_PAUSE_SECONDS = 15.0, 600.0
"""Pauses before steps that failed are tried again."""
LONGEST_SECONDS = 8.0
"""A pass begins no step after this time: the next one goes on."""
LISTED = 100
"""Most undeclared things, and most records with other values, that the status lists."""
_TOLD = 3
NO_EFFECT = "slurmdbd did not refuse it, and did not take it: does it know each name and resource?"


@dataclasses.dataclass(slots=True)
class Silence:
    """Judges looks that fail; `since` is the first without an answer since slurmdbd was ready and said something."""

    since: float | None = None

    def is_short(self, error: SlurmError, now: float) -> bool:
        """Note a failed look; return whether it is not told yet: nobody answered, for less than SILENT_SECONDS."""
        self.since = now if self.since is None else self.since
        is_away = error.reason in (Trouble.UNREACHABLE, Trouble.CONTROLLER_AWAY)
        return is_away and now < self.since + SILENT_SECONDS

    def end(self) -> None:
        """Note that slurmdbd answered, or that another finding says that it is away."""
        self.since = None


@dataclasses.dataclass(slots=True)
class _Memory:
    """The knowledge of one declaration of one SlurmCluster.

    Attributes:
        of: the SlurmCluster's uid, and what it declares.
        ledger: what was done, also by passes whose status was never written.
        silence: of slurmdbd, by the pass's clock.
        looked: when slurmdbd was read last, or was told of.
        goes_on: whether steps are left, or their effect is yet to be seen.
        done: the steps since slurmdbd was read last.
        refused: step → why it failed.
        again: the same of steps that are tried again. They are told until they are seen to have an effect.
    """

    of: tuple[str, accounts.Declared]
    ledger: Ledger
    silence: Silence = dataclasses.field(default_factory=Silence)
    looked: float = 0.0
    goes_on: bool = True
    done: set[str] = dataclasses.field(default_factory=set)
    refused: dict[str, str] = dataclasses.field(default_factory=dict)
    again: dict[str, str] = dataclasses.field(default_factory=dict)
    findings: Findings = dataclasses.field(default_factory=Findings)
    status: Mapping[str, Any] | None = None


class Accounts:
    """The accounts of one namespace's cluster. What it keeps spares work, and may be lost at any time."""

    def __init__(self, executor: Executor, lease: Lease, clock: Callable[[], float] = time.monotonic) -> None:
        self._executor = executor
        self._lease = lease
        self._clock = clock
        self._pause = GrowingPause(FIRST_PAUSE_SECONDS, LONGEST_PAUSE_SECONDS)
        self._memory: _Memory | None = None

    def forget(self) -> None:
        """Forget all: another operator may act meanwhile, and the status then knows more."""
        self._memory = None

    async def bring(self, now: PassContext) -> tuple[Findings, Mapping[str, Any] | None]:
        """Bring the declared QOS, accounts and users to slurmdbd.

        Returns:
            Findings, and status.accounts; None where nothing was ever declared.
        """
        cluster, status = now.seen.cluster, now.body.get("status", {}).get("accounts")
        if cluster.accounts is None or not cluster.accounting:
            return Findings(), status
        memory = self._remember((now.body["metadata"]["uid"], cluster.accounts), cluster.ledger, status)
        if accounting.is_waiting(now.seen):
            memory.silence.end()  # Another finding says that slurmdbd is away.
        elif self._is_due(memory):
            try:
                await self._look(now, memory)
            except SlurmError as error:
                if memory.silence.is_short(error, self._clock()):
                    return memory.findings, memory.status
                self._tell(memory, f"accounts can't be read: {error}")
            except (KeyError, ValueError) as error:
                # Another release, or a person, has written it: pulumi writes only what this one knows.
                log.exception("spec.accounts not readable")
                why = "run pulumi up --refresh, which writes it anew"
                self._tell(memory, f"spec.accounts of the SlurmCluster is not readable ({error}): {why}")
        return memory.findings, memory.status

    def _tell(self, memory: _Memory, why: str) -> None:
        memory.looked, memory.goes_on = self._clock(), False
        memory.findings = Findings([Finding(Reason.ACCOUNTS_NOT_SET, why)])

    def _remember(self, of: tuple[str, accounts.Declared], ledger: Ledger, status: Mapping[str, Any] | None) -> _Memory:
        known = self._memory
        if known is None or known.of[0] != of[0]:
            self._memory = _Memory(of, ledger, status=status)
        elif known.of != of:
            self._memory = _Memory(of, known.ledger, known.silence, status=known.status)
        assert self._memory is not None
        return self._memory

    def _is_due(self, memory: _Memory) -> bool:
        tries_again = self._may_try_again(memory)
        return memory.goes_on or self._clock() >= memory.looked + EVERY_SECONDS or tries_again

    def _may_try_again(self, memory: _Memory) -> bool:
        if not memory.refused or not self._pause.is_over("\n".join(sorted(memory.refused))):
            return False
        memory.again, memory.refused = memory.refused, {}
        return True

    async def _look(self, now: PassContext, memory: _Memory) -> None:
        """Read slurmdbd, take the steps that time allows, and note what the status is to say."""
        cluster = now.seen.cluster
        database = await now.rest.accounts(cluster.name)
        memory.looked = self._clock()
        memory.silence.end()
        in_partitions = qos_of_partitions((now.seen.desired_config, now.seen.active_config))
        decision = decide(memory.of[1], memory.ledger, database, in_partitions, cluster.namespace)
        memory.ledger = decision.ledger
        self._judge(decision, memory)
        left = await self._take(now, decision, memory, database)
        memory.goes_on = bool(left or memory.done)
        memory.findings = _findings(decision, {**memory.again, **memory.refused}, left)
        said = accounts.told(memory.ledger, decision.undeclared, database, LISTED)
        memory.status = accounts.timed(said, memory.status, datetime.datetime.now(datetime.UTC))

    def _judge(self, decision: Decision, memory: _Memory) -> None:
        """Note which of the earlier steps had no effect, and forget failures of steps that are none any more."""
        wanted = {str(step) for step in decision.steps}
        memory.refused |= dict.fromkeys(wanted & memory.done, NO_EFFECT)
        memory.refused = {step: why for step, why in memory.refused.items() if step in wanted}
        memory.again = {step: why for step, why in memory.again.items() if step in wanted}
        memory.done = set()

    async def _take(self, now: PassContext, decision: Decision, memory: _Memory, database: Database) -> int:
        """Take steps, and return how many are left for the next pass."""
        steps = [step for step in decision.steps if str(step) not in memory.refused]
        staying = {step.entity for step in decision.steps if isinstance(step, Removal) and str(step) in memory.refused}
        left = await self._take_in_time(now, steps, memory, database, staying)
        if memory.done:
            metrics.ACTIONS.labels("SetAccounts").inc()
            words = f"set in slurmdbd, as accounting says: {shown(sorted(memory.done))}"
            await self._executor.report.event(now.body, "SetAccounts", words)
        return left

    async def _take_in_time(
        self,
        now: PassContext,
        steps: Sequence[Change | Removal],
        memory: _Memory,
        database: Database,
        staying: set[Entity],
    ) -> int:
        """Take steps, but for those that records in `staying` need; returned is how many are left."""
        ends = self._clock() + min(LONGEST_SECONDS, now.budget.left(ACTED_AFTER_SECONDS, least=1.0))
        for number, step in enumerate(steps):
            if self._clock() >= ends or (step.entity.kind is not Kind.QOS and not _is_registered(database)):
                return len(steps) - number
            if isinstance(step, Removal) and waits_for(step.entity, staying, database):
                staying.add(step.entity)
                continue
            try:
                await self._step(now, step)
            except SlurmError as error:
                metrics.ACTION_FAILURES.labels("SetAccounts").inc()
                if error.reason is not Trouble.REFUSED:
                    return len(steps) - number
                memory.refused[str(step)] = str(error)
                staying |= {step.entity} if isinstance(step, Removal) else set()
                continue
            memory.done.add(str(step))
            memory.ledger = _noted(memory.ledger, step)
        return 0

    async def _step(self, now: PassContext, step: Change | Removal) -> None:
        self._lease.check()
        if isinstance(step, Change):
            await now.rest.change_account(now.seen.cluster.name, step)
        else:
            await now.rest.remove_account(now.seen.cluster.name, step)


def _is_registered(database: Database) -> bool:
    """Return whether slurmctld has told slurmdbd of its cluster, which then has a root account."""
    return Entity(Kind.ACCOUNT, ROOT) in database.records


def _noted(ledger: Ledger, step: Change | Removal) -> Ledger:
    made: frozenset[Entity] = ledger.made
    if isinstance(step, Change) and step.makes:
        made |= {step.entity}
    return dataclasses.replace(ledger, made=made)


def _findings(decision: Decision, refused: Mapping[str, str], left: int) -> Findings:
    findings = Findings()
    if refused:
        words = [f"{step}: {why}" for step, why in refused.items()]
        findings.append(Finding(Reason.ACCOUNTS_NOT_SET, f"not set in slurmdbd: {shown(words, _TOLD)}"))
    if decision.held:
        findings.append(Finding(Reason.ACCOUNTS_KEPT, f"kept in slurmdbd: {shown(decision.held, _TOLD)}"))
    if left:
        steps = f"{left} of {len(decision.steps)} changes of QOS, accounts and users are left"
        findings.append(under_way(Reason.ACCOUNTS_CHANGING, steps))
    return findings
