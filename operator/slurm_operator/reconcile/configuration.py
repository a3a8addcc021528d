"""The part of a pass that concerns the configuration: its dry run, its copy, and its way to slurmctld and nodes."""

from __future__ import annotations

import datetime
import functools
import logging
import time
from collections.abc import Mapping

from contract import names
from contract.conditions import Reason
from slurm_operator import execute, metrics, observe
from slurm_operator.clients.slurm import dry_run
from slurm_operator.clients.slurm.job_listing import JobListing
from slurm_operator.clients.slurm.slurm_error import SlurmError
from slurm_operator.clients.slurm.slurmrestd import SlurmRest
from slurm_operator.clients.watched_reads import Reads
from slurm_operator.configure import Configurer
from slurm_operator.decide.cluster import config, daemons, topologies
from slurm_operator.execute import Executor
from slurm_operator.findings import Finding, Findings, Severity, shown, under_way
from slurm_operator.reconcile.growing_pause import GrowingPause
from slurm_operator.reconcile.pass_budget import LEAST_SECONDS, LOOKED_AFTER_SECONDS, TRIED_AFTER_SECONDS
from slurm_operator.reconcile.pass_context import PassContext
from slurm_operator.state.kubernetes import Kubernetes
from slurm_operator.state.slurm import Nodes, Running, SlurmJob, Unknown

log = logging.getLogger(__name__)

FIRST_ANSWER_SECONDS = 60.0
"""Time for a new cluster's config dry run to start. Then slurmctld itself tries the first files: nothing can break."""

_RECONFIGURING = under_way(Reason.RECONFIGURING, "slurmctld reads the new configuration")


class Configuration:
    """The configuration of one namespace's cluster. What it keeps spares work, and may be lost at any time."""

    def __init__(self, executor: Executor, configurer: Configurer) -> None:
        self._executor = executor
        self._configurer = configurer
        self._verdicts: dict[tuple[str, str], config.Verdict] = {}
        """By which pod of the config dry run, about which content → what it said; the last two."""
        self._told = GrowingPause(first_seconds=3, longest_seconds=60)
        self._asked_nodes = GrowingPause(first_seconds=120, longest_seconds=3600)
        self._closed: tuple[datetime.datetime | None, frozenset[str]] = (None, frozenset())
        self._unanswered_since: float | None = None

    async def begin(self, reads: Reads, url: str) -> None:
        """Copy the declared files if no configuration is active: slurmctld can't start without, and Pulumi waits.

        Args:
            reads: of the namespace, in which there is no SlurmCluster yet.
            url: base URL of the config dry run's Service.
        """
        wanted = await observe.files(reads, names.CONFIG_WANTED)
        if wanted is None or await observe.files(reads, names.CONFIG_ACTIVE) is not None:
            return
        if done := await self.first(url, wanted):
            log.info("PromoteConfiguration: %s", done)

    async def first(self, url: str, files: Mapping[str, str]) -> str:
        """Copy a new cluster's first files, once they are tried, and return what was done.

        A refusal is told when there is a SlurmCluster to tell it of.

        Args:
            url: base URL of the config dry run's Service.
            files: what Pulumi declared.
        """
        tried = await self._try("", url, files, dry_run.DEADLINE_SECONDS, first=True)
        if isinstance(tried, Finding) or not tried.accepted:
            return ""
        return await self._configurer.copy(names.CONFIG_WANTED, names.CONFIG_ACTIVE, files)

    async def keeps_controller(self, now: PassContext) -> Finding | None:
        """Return why a slurmctld that works keeps its pod of an older template; None if it may be replaced.

        The config dry run has the new image already (daemons.holds_controller), and tries the declared files with it.
        """
        seen = now.seen
        files = seen.active_config if seen.desired_config is None else seen.desired_config
        if seen.dry_run is None or files is None or not daemons.is_working(seen):
            return None
        seconds, by = now.budget.left(TRIED_AFTER_SECONDS), daemons.tried_by(seen)
        tried = await self._try(by, seen.cluster.dry_run_url, files, seconds, first=False)
        if isinstance(tried, Finding) or tried.accepted:
            return tried if isinstance(tried, Finding) else None
        refuses = f"its new version refuses the declared configuration: {tried.words}"
        severity = Severity.WRONG | Severity.BLOCKING
        return Finding(Reason.CONFIGURATION_REFUSED, f"slurmctld is not updated, since {refuses}", severity)

    async def _try(
        self, by: str, url: str, files: Mapping[str, str], seconds: float, *, first: bool
    ) -> config.Verdict | Finding:
        """Return what the config dry run's pods `by` say of the files, or a finding that they said nothing yet."""
        content = (by, config.content_hash(files))
        if content in self._verdicts:
            return self._verdicts[content]
        try:
            verdict = await dry_run.ask(url, files, seconds)
        except dry_run.DryRunError as error:
            if first and self._has_waited():
                return config.Verdict(True, "")
            waits = f"what is new waits until a slurmctld has tried it apart from the cluster: {error}"
            return under_way(Reason.CONFIG_DRY_RUN_PENDING, waits)
        log.info("config dry run: %s %s", "accepted" if verdict.accepted else "refused", verdict.words)
        self._verdicts = {**dict([*self._verdicts.items()][-1:]), content: verdict}
        return verdict

    def _has_waited(self) -> bool:
        now = time.monotonic()
        self._unanswered_since = now if self._unanswered_since is None else self._unanswered_since
        return now - self._unanswered_since >= FIRST_ANSWER_SECONDS

    async def bring(
        self, now: PassContext, nodes: Nodes | Unknown, jobs: tuple[SlurmJob, ...] | Unknown, *, declared: bool
    ) -> tuple[Findings, frozenset[str]]:
        """Bring the desired configuration one step further.

        Args:
            now: this pass.
            nodes: slurmctld's nodes.
            jobs: jobs in Slurm.
            declared: whether the wanted files are those of the cluster's own revision.

        Returns:
            What is to be told, and which partitions are closed now.
        """
        body, seen, running = now.body, now.seen, now.running
        findings, wanted, active = Findings(), seen.desired_config, seen.active_config
        by = daemons.tried_by(seen)
        verdict = None if wanted is None else self._verdicts.get((by, config.content_hash(wanted)))
        # A slurmctld that has read its files since has opened the partitions again.
        same = isinstance(running, Running) and running.started == self._closed[0]
        shut = self._closed[1] if same else frozenset()
        decide = functools.partial(config.promotion, wanted, active, declared=declared, jobs=jobs, closed=shut)
        decided = decide(verdict=verdict)
        if isinstance(decided, config.TryConfig):
            seconds = now.budget.left(TRIED_AFTER_SECONDS)
            tried = await self._try(by, seen.cluster.dry_run_url, decided.files, seconds, first=active is None)
            if isinstance(tried, Finding):
                findings.append(tried)
            else:
                decided = decide(verdict=tried)
        if isinstance(decided, config.Promote):
            step = await self._next_step(now, nodes, decided)
            findings += step if isinstance(step, list) else []
            decided = step if isinstance(step, config.Promote) else None
        match decided:
            case config.Promote():
                copying = self._configurer.promote(seen.cluster, decided)
                failed = await self._executor.attempt(body, "PromoteConfiguration", copying)
                findings += failed
                active = active if failed else decided.files
                # A copy made just now is not in the pod yet: the next pass tells slurmctld.
                if not failed and isinstance(running, Running) and not config.is_read(decided.files, running):
                    findings.append(_RECONFIGURING)
            case Finding():
                findings.append(decided)
        closing = config.closing(wanted, active, decided, running, seen.cluster.closed)
        closed = seen.cluster.closed
        self._closed = (None, frozenset())
        if isinstance(running, Running):
            states = config.declared_states(active or {})
            opening = {name: states.get(name, "UP") for name in closed - closing}
            ending = {name: config.closed_state(states.get(name, "UP")) for name in closing}
            closed, shut = await self._close(now, opening, ending, findings)
            self._closed = (running.started, shut)
        telling = None if isinstance(decided, config.Promote) else config.reconfiguration(active, running, jobs)
        if telling and active is not None:
            findings += await self._tell(now, active, telling)
        return findings, closed

    async def _tell(
        self, now: PassContext, active: Mapping[str, str], telling: config.Reconfigure | Finding
    ) -> list[Finding]:
        """Have slurmctld read the active files, by a new pod if it takes some of them at its start only."""
        if isinstance(telling, Finding):
            return [telling]
        rest, body, seen = now.rest, now.body, now.seen
        if telling.start_words:
            why = f"slurmctld takes {', '.join(telling.start_words)} at its start only"
            words = f"slurmctld restarts, for it reads the new configuration: {why}"
            restarting = under_way(Reason.RESTARTING, words)
            # A new pod has the newest template, which may have to be tried first. Its update restarts slurmctld, too.
            if (pod := daemons.controller_pod(seen)) and not daemons.is_controller_old(seen):
                return [restarting, *await self._executor.execute(rest, body, daemons.restart(pod, why))]
            return [restarting]
        if not self._told.is_over(config.content_hash(active)):
            return [_RECONFIGURING]
        told = self._configurer.reconfigure(rest, seen.cluster)
        return [_RECONFIGURING, *await self._executor.attempt(body, "Reconfigure", told)]

    async def _next_step(
        self, now: PassContext, nodes: Nodes | Unknown, decided: config.Promote
    ) -> config.Promote | list[Finding]:
        """Take nodes out of topologies that the next files lack, and return these files, or why they wait.

        Topologies come and go in files of their own, which are tried, too.
        """
        seen, wanted = now.seen, decided.files
        step = topologies.before_reading(wanted, seen.active_config, nodes)
        if isinstance(step, Finding):
            return [step]
        if step.files != wanted:
            by, seconds = daemons.tried_by(seen), now.budget.left(TRIED_AFTER_SECONDS)
            tried = await self._try(by, seen.cluster.dry_run_url, step.files, seconds, first=False)
            if isinstance(tried, Finding) or not tried.accepted:
                return [tried if isinstance(tried, Finding) else config.refused(tried)]
            decided = config.Promote(step.files, tried.words, wanted)
        failed = [one for change in step.leaving for one in await self._executor.execute(now.rest, now.body, change)]
        return failed or decided

    async def ask_nodes(self, now: PassContext, nodes: Nodes | Unknown) -> Findings:
        """Report nodes that have not read slurmctld's present configuration, and have slurmctld tell them again.

        slurmctld sends its message once. A node misses it when its slurmd, or the network, is away at that moment.
        """
        findings, running = Findings(), now.running
        if isinstance(nodes, Unknown):
            return findings
        if isinstance(running, Unknown):
            findings.append(Finding(Reason(running.reason), f"what slurmctld runs with is unknown: {running.message}"))
            return findings
        late = config.outdated(nodes, running)
        metrics.OUTDATED_NODES.set(len(late))
        if not late:
            self._asked_nodes.reset()
            return findings
        overdue = config.is_overdue(running, datetime.datetime.now(datetime.UTC))
        more = "; the operator has slurmctld ask them again, a new pod helps in any case" if overdue else ""
        message = f"still with the configuration before: {shown(late)}{more}"
        severity = Severity.WRONG if overdue else Severity.PROGRESSING
        findings.append(Finding(Reason.NODES_OUTDATED, message, severity))
        active = now.seen.active_config
        read = active is not None and config.is_read(active, running)
        if overdue and read and self._asked_nodes.is_over("nodes"):
            asking = self._configurer.ask_nodes_again(now.rest, shown(late))
            findings += await self._executor.attempt(now.body, "Reconfigure", asking)
        return findings

    async def _close(
        self, now: PassContext, opening: Mapping[str, str], closing: Mapping[str, str], findings: Findings
    ) -> tuple[frozenset[str], frozenset[str]]:
        """Close partitions that are to go, so that they only finish their jobs. Open those that stay after all.

        Args:
            now: this pass.
            opening: partitions that stay, each with its state.
            closing: partitions that go, each with its state until then.
            findings: gets what fails.

        Returns:
            Those that may be closed now, so that they are opened again if they stay, and those that surely are.
        """
        done, ends = set[str](), now.budget.ends()
        for name, state in {**opening, **closing}.items():
            if now.budget.is_over(ends):
                break
            why = "it is to be removed once it is empty" if name in closing else "it stays after all"
            setting = self._configurer.set_partition(now.rest, name, state, why)
            failed = await self._executor.attempt(now.body, "SetPartition", setting)
            findings += failed
            if any(problem.reason != execute.REFUSED for problem in failed):
                break  # Each of the others would wait as long for a slurmrestd that is away.
            done |= set() if failed else {name}
        return frozenset(closing) | (opening.keys() - done), frozenset(closing.keys() & done)


def cut_short(seen: Kubernetes) -> tuple[Findings, frozenset[str]]:
    """Return the result of a `bring` that did not end in time: partitions that are to go may be closed already."""
    going = config.partitions(seen.active_config or {}) - config.partitions(seen.desired_config or {})
    waits = "the new configuration takes longer than a pass may: slurmctld answers slowly"
    changed = seen.desired_config != seen.active_config
    findings = Findings([under_way(Reason.RECONFIGURING, waits)] if changed else [])
    return findings, seen.cluster.closed | going


async def jobs(now: PassContext, listing: JobListing) -> tuple[SlurmJob, ...] | Unknown:
    """Return the jobs that wait or run if a decision about the configuration needs them, else none."""
    wanted, active = now.seen.desired_config, now.seen.active_config
    if wanted is None or active is None or isinstance(now.running, Unknown):
        return ()
    try:
        known = frozenset() if config.is_read(active, now.running) else await now.rest.partitions()
    except SlurmError as error:
        return Unknown(error.reason, str(error))
    if not config.jobs_needed(wanted, active, known):
        return ()
    return await listing.alive(now.rest, now.budget.left(LOOKED_AFTER_SECONDS, least=LEAST_SECONDS))


async def running(rest: SlurmRest) -> Running | Unknown:
    """Ask slurmctld what it runs with."""
    try:
        return await rest.running()
    except SlurmError as error:
        return Unknown(error.reason, str(error))
