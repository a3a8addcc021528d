"""All that a pass decides about one node set: a pure function of what it sees, called by the pass and by its model."""

from __future__ import annotations

import dataclasses

from slurm_operator.decisions import machines, reactions, records, replicas, updates
from slurm_operator.decisions.moves import Move
from slurm_operator.seen import Evidence, Nodes, Unknown


@dataclasses.dataclass(frozen=True, slots=True)
class Decision:
    """What to do, in that order, and the repairs that are part of it; None as long as Slurm can't be seen.

    `updating` is to be remembered of the update: the nodes that it has taken and that have not worked since.
    """

    moves: list[Move]
    updating: frozenset[str]
    plan: reactions.Plan | None = None


def decide(
    scale: replicas.Scale,
    nodes: Nodes | Unknown,
    evidence: Evidence | None,
    hold: str = "",
    *,
    repairs_held: bool = True,
) -> Decision:
    """What to do about one node set now.

    Args:
        scale: the sizes, pods, machines and policies of the node set.
        nodes: the listing with which this pass began.
        evidence: full listings made after `nodes`; None if none were made.
        hold: why no pod may be restarted for an update; empty if it may.
        repairs_held: whether that holds up repairs, too; else pods of the current template are repaired.
    """
    if isinstance(nodes, Unknown):
        return Decision([*replicas.moves_unseen(scale)], scale.updating)
    repairable = scale if repairs_held else updates.without_outdated(scale)
    plan = reactions.plan(repairable, nodes, evidence, hold if repairs_held else "")
    update = updates.moves(scale, nodes, evidence, hold)
    found: list[Move] = [
        *replicas.moves(scale, nodes, evidence),
        *update,
        *machines.moves(scale, nodes, evidence),
        *records.moves(scale, evidence),
        *plan.moves,
    ]
    moves = machines.without_early_undrains(scale, found)
    return Decision(moves, updates.taken(scale, nodes) | updates.begun(scale, update), plan)
