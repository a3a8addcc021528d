"""Deletion of Slurm's node records: those with another size than their node, and those without a node.

slurmctld takes a node's size from the registration that makes its record, and from no later one. Yet a record is more
than a size. When slurmctld reads its configuration, it ends each job that asks for a node without a record, waiting
ones too. It also takes that node out of all reservations. A person's drain is lost with the record as well. So the
operator deletes records for these two causes alone, and none whose node a job or reservation names.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence

from contract import commands
from contract.conditions import Reason
from slurm_operator import drains
from slurm_operator.actions import Action, DeleteRecord, Drain
from slurm_operator.decide.node_sets import window
from slurm_operator.decide.nodes import slurm_nodes, waits
from slurm_operator.decide.nodes.workers import NodeSetState, Worker
from slurm_operator.drains import Owner
from slurm_operator.findings import Finding, shown, under_way
from slurm_operator.state.slurm import EVERY_NODE, Facts, Named, Reservation, SlurmJob, SlurmNode, Unknown, all_of

_FILLED_IN = ("Sockets", "CoresPerSocket", "ThreadsPerCore")


def named(jobs: Iterable[SlurmJob], reservations: Sequence[Reservation]) -> Named:
    """Sum up what names nodes, given all jobs and all reservations."""
    alive = [job for job in jobs if slurm_nodes.is_alive(job)]
    naming = tuple(job for job in alive if job.names is EVERY_NODE or job.names)
    reserved = [reservation.nodes for reservation in reservations]
    by_others = [reservation.nodes for reservation in reservations if not window.is_ours(reservation)]
    by_any = all_of([*reserved, *(job.names for job in alive)])
    if by_any is EVERY_NODE:
        return Named(EVERY_NODE, EVERY_NODE, naming)
    return Named(by_any, all_of([*by_others, *(job.names - job.nodes for job in alive)]), naming)


def has_other_size(state: NodeSetState, node: SlurmNode | None) -> bool:
    """Return whether the record shows another size than the set's template declares."""
    if state.facts is None or node is None or node.facts is None:
        return False
    sizes = [dataclasses.replace(facts, options=()) for facts in (state.facts, node.facts)]
    return sizes[0] != sizes[1] or _has_other_options(state.facts, node.facts)


def is_too_large(state: NodeSetState, node: SlurmNode | None) -> bool:
    """Return whether the record promises more than the template has: Slurm refuses the node, or jobs get too little."""
    if state.facts is None or node is None or node.facts is None:
        return False
    ours, shown_counts = _counts(state.facts), _counts(node.facts)
    # Of a node with other cores that are kept from jobs Slurm says "CoreSpec differ", and gives it no job.
    return _has_other_options(state.facts, node.facts) or any(
        count > ours.get(what, 0) for what, count in shown_counts.items()
    )


def is_misread(state: NodeSetState, node: SlurmNode | None) -> bool:
    """Return whether a registered slurmd of the set's template has a record of another size.

    Counts alone are compared, since Slurm may write a GRES type that the template does not.
    """
    if state.facts is None or node is None or node.facts is None:
        return False
    return drains.owner(node) is not Owner.NEW and _counts(state.facts) != _counts(node.facts)


def orphans(state: NodeSetState) -> list[SlurmNode]:
    """Return records that nothing needs: of nodes beyond the current and the wanted size, whose pods are gone."""
    return _left_over(state, (worker.node for worker in _gone(state)))


def needs_full_listing(state: NodeSetState) -> bool:
    """Return whether full listings could let a record be deleted; it may stay so while a job waits for the node."""
    misread = any(is_misread(state, worker.node) for worker in state.members())
    return misread or any(map(slurm_nodes.is_deletable, orphans(state)))


def needs_names(state: NodeSetState) -> bool:
    """Return whether a decision depends on which nodes jobs and reservations name; most updates change no size."""
    return bool(orphans(state)) or any(has_other_size(state, worker.node) for worker in state.members())


def actions(state: NodeSetState) -> list[Action]:
    """Return the deletions of records without a node, and drains of those that must stay."""
    if state.full_listing is None or state.full_listing.named is None:
        return []
    idle = [
        node for node in _left_over(state, (worker.full for worker in _gone(state))) if not slurm_nodes.has_work(node)
    ]
    kept = state.full_listing.named.by_any
    decided: list[Action] = [
        DeleteRecord(node.name, drains.is_anothers(node), node.started) for node in idle if node.name not in kept
    ]
    # A record that must stay is drained, so that its reason says why the node takes no jobs. So does a person's.
    silent = [node for node in idle if not (drains.is_drained(node) or drains.is_anothers(node))]
    return decided + [Drain(node.name) for node in silent if node.name in kept]


def findings(state: NodeSetState) -> list[Finding]:
    """Return a finding about the nodes whose record in Slurm has another size than their template; else none."""
    there = [worker.name for worker in state.members() if is_misread(state, worker.node)]
    if not there:
        return []
    until = f"until it is idle and no job and no reservation names it{kept_for(state, there)}"
    return [under_way(Reason.RECORD_KEPT, f"{shown(there)} keeps its old size in Slurm {until}")]


def kept_for(state: NodeSetState, nodes: Iterable[str]) -> str:
    """Return the jobs that keep the records of those nodes, else the commands that show them, as a sentence's end."""
    asked = frozenset(nodes)
    records = [worker.node for worker in state.workers.values() if worker.name in asked and worker.node]
    # On a node that serves jobs come and go. Its record stays for those that name it.
    out = frozenset(node.name for node in records if not slurm_nodes.is_usable(node))
    known = () if isinstance(state.jobs, Unknown) else state.jobs
    jobs = waits.of_jobs(job for job in known if job.names & asked or slurm_nodes.busy_nodes([job]) & out)
    namespace, listed = state.node_set.namespace, ",".join(sorted(asked))
    shows = commands.squeue(namespace, f"-w {listed}"), commands.scontrol(namespace, "show reservation")
    return f": {jobs}" if jobs else f" ({'; '.join(shows)})"


def _gone(state: NodeSetState) -> list[Worker]:
    return [worker for worker in state.workers.values() if not (worker.pod or worker.is_there or worker.is_wanted)]


def _left_over(state: NodeSetState, records: Iterable[SlurmNode | None]) -> list[SlurmNode]:
    """Return the records out of service that may be deleted, without external nodes and without people's drains."""
    there = [node for node in records if node and "EXTERNAL" not in node.states]
    out = [node for node in there if drains.is_drained(node) or "DOWN" in node.states]
    return [node for node in out if state.node_set.deleting or not drains.is_anothers(node)]


def _has_other_options(declared: Facts, shown: Facts) -> bool:
    """Return whether a record shows other options than a template declares; Slurm fills in sockets and cores."""
    ours, theirs = dict(declared.options), dict(shown.options)
    told = [key for key in theirs if key in ours or key not in _FILLED_IN]
    return any(ours.get(key, 0) != theirs[key] for key in told)


def _counts(facts: Facts) -> dict[str, int]:
    """Return counts by resource that a job may ask for; it leaves out GRES whose count is not plain."""
    counts = {"cpus": facts.cpus, "memory": facts.memory_mib}
    for kind in facts.gres.split(","):
        name, _, count = kind.partition(":")[0], *kind.rpartition(":")[1:]
        if count.isdecimal():
            counts[name] = counts.get(name, 0) + int(count)
    return counts
