"""A pass's reads of Slurm: nodes in each, and jobs and full listings only when a decision needs them."""

from __future__ import annotations

import asyncio
import dataclasses
import logging
import math
from collections.abc import Callable, Iterable, Sequence

from contract.conditions import Reason
from slurm_operator import metrics
from slurm_operator.clients.slurm.job_listing import MOST_LOOKED_AT, JobListing
from slurm_operator.clients.slurm.slurm_error import SlurmError, Trouble
from slurm_operator.clients.slurm.slurmrestd import SlurmRest
from slurm_operator.decide.node_sets import full_listing, node_set, records, remediate
from slurm_operator.decide.nodes import slurm_nodes
from slurm_operator.decide.nodes.workers import NodeSetState
from slurm_operator.reconcile.defects import Defects
from slurm_operator.reconcile.pass_budget import ACTED_AFTER_SECONDS, LEAST_SECONDS, LOOKED_AFTER_SECONDS, PassBudget
from slurm_operator.state.resources import NodeSet
from slurm_operator.state.slurm import NOT_ASKED, FullListing, Jobs, Nodes, Running, SlurmJob, TooDeep, Unknown

log = logging.getLogger(__name__)

RECORDS_SECONDS = 10.0
"""Pause between looks for records that may be deleted: a job may name one for days."""
WORDS_SECONDS = 20.0
"""Pause between looks at the jobs that nodes wait for, where only messages need them."""
TOLD_SECONDS = 60.0
"""Messages name jobs for so long after they were seen: a pass may not look at jobs, and its messages stay the same."""
COUNT_HOLDS_SECONDS = 60.0
"""The number of pending nodes is published for so long, if passes are too late to count anew."""


@dataclasses.dataclass(frozen=True, slots=True)
class Slurm:
    """One pass's knowledge of Slurm; `jobs`, for messages, are those that may have processes or name nodes."""

    nodes: Nodes | Unknown
    jobs: tuple[SlurmJob, ...] | Unknown = NOT_ASKED
    full_listing: FullListing | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class _Lately:
    """The jobs of the latest looks: those that may have processes, and those that name nodes."""

    jobs: tuple[SlurmJob, ...] | Unknown = NOT_ASKED
    jobs_at: float = -math.inf
    naming: tuple[SlurmJob, ...] = ()
    naming_at: float = -math.inf

    def for_messages(self, now: float) -> tuple[SlurmJob, ...] | Unknown:
        """Return the jobs that were seen in the last `TOLD_SECONDS`, each once; NOT_ASKED if the look is older."""
        since = now - TOLD_SECONDS
        if isinstance(self.jobs, Unknown) or self.jobs_at < since:
            return self.jobs if isinstance(self.jobs, Unknown) else NOT_ASKED
        naming = self.naming if self.naming_at >= since else ()
        return tuple({job.job_id: job for job in (*naming, *self.jobs)}.values())


class SlurmLook:
    """Looks at the Slurm of one namespace. What it keeps spares work, and may be lost at any time."""

    def __init__(self, listing: JobListing, defects: Defects, clock: Callable[[], float]) -> None:
        self._listing = listing
        self._defects = defects
        self._clock = clock
        self._looked = -math.inf
        self._counted = -math.inf
        self._partitions: frozenset[str] = frozenset()
        self._lately: dict[str, _Lately] = {}
        """By slurmrestd."""

    async def look(
        self,
        rest: SlurmRest,
        sets: Iterable[NodeSetState],
        running: Running | Unknown,
        budget: PassBudget,
        *,
        jobs_told: bool,
    ) -> Slurm:
        """See Slurm: one listing of nodes, and more only if a decision hangs on it; what was seen of nodes stays."""
        try:
            nodes = await rest.nodes(full=False)
        except SlurmError as error:
            return Slurm(Unknown(error.reason, str(error)))
        due = self._clock() >= self._looked + RECORDS_SECONDS
        seen = [state.seen(nodes) for state in sets if not state.is_missing]
        needed = False
        # Nothing is removed without full listings.
        with self._defects.isolated("full listings"):
            needed = any(full_listing.is_needed(state, records_due=due) for state in seen)
        if not needed:
            with self._defects.isolated("jobs for messages"):
                return Slurm(nodes, await self._for_words(rest, seen, budget, at_once=jobs_told))
            return Slurm(nodes)
        try:
            async with asyncio.timeout(budget.left(LOOKED_AFTER_SECONDS, least=LEAST_SECONDS)):
                full = await rest.nodes(full=True)
        except (SlurmError, TimeoutError) as error:
            late = SlurmError(Trouble.UNREACHABLE, f"{rest.url}: a full listing of nodes takes too long")
            told = error if isinstance(error, SlurmError) else late
            why = Unknown(told.reason, str(told))
            log.warning("no full listing of nodes, so that nothing is removed: %s", why.message)
            return Slurm(nodes, why)
        # Jobs are listed after nodes: a job that starts in between shows in the second listing.
        jobs = await self._listing.with_processes(rest, budget.left(LOOKED_AFTER_SECONDS))
        names_needed = any(map(records.needs_names, seen))
        seconds, started = budget.left(LOOKED_AFTER_SECONDS), running.started if isinstance(running, Running) else None
        named = await self._listing.named(rest, seconds, started) if names_needed else None
        self._looked = self._clock()
        memory = isinstance(running, Running) and running.counts_memory
        built = full_listing.build(full, jobs, counts_memory=memory, named=named)
        lately = _Lately(known(jobs), self._looked, named.jobs if named else (), self._looked)
        self._lately[rest.url] = lately
        words = lately.for_messages(self._looked)
        return Slurm(nodes if built is None else slurm_nodes.with_jobs(nodes, built.jobs), words, built)

    async def _for_words(
        self, rest: SlurmRest, sets: Sequence[NodeSetState], budget: PassBudget, *, at_once: bool
    ) -> tuple[SlurmJob, ...] | Unknown:
        """Return the jobs that nodes wait for, for messages. Without `at_once` they may be from an earlier pass."""
        own = [worker.node for state in sets for worker in state.with_pods() if worker.node]
        asked = frozenset(node for state in sets for node in state.asked_for)
        waits = any(slurm_nodes.is_draining(node) or slurm_nodes.waits_for_reboot(node) for node in own)
        waits = waits or any(node.name in asked and slurm_nodes.has_work(node) for node in own)
        waits = waits or any(remediate.waiting_for_jobs(node_set.repairable(state)) for state in sets)
        lately = self._lately.get(rest.url, _Lately())
        due = self._clock() >= lately.jobs_at + WORDS_SECONDS
        if at_once or (waits and due):
            jobs = await self._listing.with_processes(rest, budget.left(LOOKED_AFTER_SECONDS))
            lately = dataclasses.replace(lately, jobs=known(jobs), jobs_at=self._clock())
            self._lately[rest.url] = lately
        are_told = at_once or waits or any(map(records.needs_names, sets))
        return lately.for_messages(self._clock()) if are_told else NOT_ASKED

    async def count_pending(self, rest: SlurmRest, node_sets: Iterable[NodeSet], budget: PassBudget) -> None:
        """Tell autoscalers how many nodes waiting jobs ask for, unless the pass is late; nobody else needs to know."""
        if all(node_set.declared is not None for node_set in node_sets):
            self.forget_pending()
            return
        age, seconds = self._clock() - self._counted, budget.left(ACTED_AFTER_SECONDS)
        # Few jobs would stand for many after a pass that has read much for its decisions: the next one counts.
        busy = self._listing.room < MOST_LOOKED_AT // 2
        if age < (COUNT_HOLDS_SECONDS if busy else WORDS_SECONDS):
            return
        if not seconds:
            if age >= COUNT_HOLDS_SECONDS:
                self.forget_pending()
            return
        self._counted = self._clock()
        by_partition = await self._listing.pending(rest, seconds)
        if by_partition is None:
            metrics.PENDING_NODES.clear()  # Unknown is not 0.
            return
        try:
            # A partition where no job ever waited shows 0. Without a series a sum has no value, and no autoscaler acts.
            self._partitions |= await rest.partitions()
        except SlurmError as error:
            log.warning("no list of partitions, so that only those with jobs are counted: %s", error)
        self._partitions |= by_partition.keys()
        for partition in self._partitions:
            metrics.PENDING_NODES.labels(partition).set(by_partition.get(partition, 0))

    def forget_pending(self) -> None:
        """Tell no number of nodes that waiting jobs ask for, until they are counted again."""
        metrics.PENDING_NODES.clear()
        self._counted = -math.inf


def known(jobs: Jobs | Unknown) -> tuple[SlurmJob, ...] | Unknown:
    """Return the jobs of a listing; Unknown unless it is complete."""
    if isinstance(jobs, Unknown) or jobs.complete:
        return jobs if isinstance(jobs, Unknown) else jobs.jobs
    return TooDeep(Reason.TOO_MANY_JOBS, "too many jobs run to look at each")
