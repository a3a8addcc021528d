"""Which of Slurm's node records may go: those that can't take what their node is now, and those without a node.

slurmctld takes a node's size from the registration that makes its record, and from no later one. Yet a record is more
than a size. When slurmctld reads its configuration, it ends each job that asks for a node without a record, waiting
ones too. It also takes that node out of all reservations. A person's word on a node goes with its record as well. So a
record goes only if that has a use, and if no job and no reservation names the node.
"""

from __future__ import annotations

from collections.abc import Iterable

from slurm_operator import drains
from slurm_operator.actions import Action, DeleteRecord, Drain
from slurm_operator.decide import nodes as slurm_nodes
from slurm_operator.decide.scale import NodeSetState
from slurm_operator.findings import Finding, shown, under_way
from slurm_operator.reasons import Reason
from slurm_operator.state import EVERY_NODE, Evidence, Facts, Named, Nodes, SlurmJob, SlurmNode


def named(jobs: Iterable[SlurmJob], reserved: frozenset[str]) -> Named:
    """Sum up what names nodes, given all jobs and the nodes of all reservations."""
    alive = [job for job in jobs if slurm_nodes.is_alive(job)]
    if any(job.names is EVERY_NODE for job in alive):
        return Named(EVERY_NODE, EVERY_NODE)
    by_jobs, awaited = (
        (name for job in alive for name in job.names),
        (n for job in alive for n in job.names - job.nodes),
    )
    return Named(reserved.union(by_jobs), reserved.union(awaited))


def has_other_size(state: NodeSetState, node: SlurmNode) -> bool:
    """Whether the record shows another size than the set's template declares."""
    return None not in (state.facts, node.facts) and state.facts != node.facts


def is_too_large(state: NodeSetState, node: SlurmNode) -> bool:
    """Whether the record promises more than the template has: Slurm refuses the node, or its jobs get too little."""
    if state.facts is None or node.facts is None:
        return False
    ours, shown_counts = _counts(state.facts), _counts(node.facts)
    return any(count > ours.get(what, 0) for what, count in shown_counts.items())


def is_misread(state: NodeSetState, node: SlurmNode) -> bool:
    """Whether a slurmd of the set's template has a record of another size; names of kinds may be Slurm's own."""
    if state.facts is None or node.facts is None or drains.is_new(node):
        return False
    return _counts(state.facts) != _counts(node.facts)


def needs_evidence(state: NodeSetState, nodes: Nodes) -> bool:
    """Whether full listings could let a record go; what is asked for may stay so for as long as a job waits."""
    there = [nodes[name] for name in state.members() if name in nodes]
    gone = [nodes[name] for name in state.orphaned_records(nodes)]
    return any(map(slurm_nodes.is_deletable, gone)) or any(is_misread(state, node) for node in there)


def needs_names(state: NodeSetState, nodes: Nodes) -> bool:
    """Whether a decision hangs on which nodes jobs and reservations name: most updates change no size."""
    there = [nodes[name] for name in state.members() if name in nodes]
    return bool(state.orphaned_records(nodes)) or any(has_other_size(state, node) for node in there)


def moves(state: NodeSetState, evidence: Evidence | None) -> list[Action]:
    """What to do about records without a node.

    Args:
        state: the sizes and pods of the node set.
        evidence: full listings of nodes, jobs and reservations; None if none were made.
    """
    if evidence is None or evidence.named is None:
        return []
    busy, kept = slurm_nodes.busy_nodes(evidence.jobs), evidence.named.by_any
    idle = [evidence.nodes[name] for name in state.orphaned_records(evidence.nodes) if name not in busy]
    idle = [node for node in idle if not slurm_nodes.has_work(node)]
    found: list[Action] = [
        DeleteRecord(node.name, anothers=drains.is_anothers(node)) for node in idle if node.name not in kept
    ]
    # One that stays is to say why it takes no jobs.
    return found + [Drain(node.name) for node in idle if node.name in kept and not drains.is_drained(node)]


def findings(state: NodeSetState, nodes: Nodes) -> list[Finding]:
    """Nodes that Slurm knows with another size than their set has."""
    there = [name for name in state.members() if name in nodes and is_misread(state, nodes[name])]
    until = "until it is idle and no job and no reservation names it (squeue -w, scontrol show reservation)"
    return [under_way(Reason.RECORD_KEPT, f"{shown(there)} keeps its old size in Slurm {until}")] if there else []


def _counts(facts: Facts) -> dict[str, int]:
    """How much there is of what a job may ask for; a kind of Gres whose count is not plain is left out."""
    found = {"cpus": facts.cpus, "memory": facts.memory_mib}
    for each in facts.gres.split(","):
        name, _, count = each.partition(":")[0], *each.rpartition(":")[1:]
        if count.isdecimal():
            found[name] = found.get(name, 0) + int(count)
    return found
