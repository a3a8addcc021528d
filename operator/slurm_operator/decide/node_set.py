"""All that a pass decides about one node set: a pure function of what it sees, called by the pass and by its model."""

from __future__ import annotations

import dataclasses

from slurm_operator.actions import Action
from slurm_operator.decide import k8s_nodes, reboot, records, remediate, scale, update, window
from slurm_operator.state import Evidence, Nodes, Unknown


@dataclasses.dataclass(frozen=True, slots=True)
class Decision:
    """What to do, in that order, and the repairs that are part of it; None as long as Slurm can't be seen.

    `updating` is to be remembered of the update: the nodes that it has taken and that have not worked since.
    """

    moves: list[Action]
    updating: frozenset[str]
    plan: remediate.Plan | None = None


def decide(
    state: scale.NodeSetState,
    nodes: Nodes | Unknown,
    evidence: Evidence | None,
    hold: str = "",
    *,
    repairs_held: bool = True,
) -> Decision:
    """What to do about one node set now.

    Args:
        state: the sizes, pods, machines and policies of the node set.
        nodes: the listing with which this pass began.
        evidence: full listings made after `nodes`; None if none were made.
        hold: why no pod may be restarted for an update; empty if it may.
        repairs_held: whether that holds up repairs, too; else pods of the current template are repaired.
    """
    if isinstance(nodes, Unknown):
        return Decision([*scale.actions_unseen(state)], state.updating)
    repairable = state if repairs_held else update.without_outdated(state)
    plan = remediate.plan(repairable, nodes, evidence, hold if repairs_held else "")
    moved = update.moves(state, nodes, evidence, hold)
    found: list[Action] = [
        *scale.moves(state, nodes, evidence),
        *moved,
        *window.moves(state, update.waiting_for_window(state, nodes)),
        *k8s_nodes.moves(state, nodes, evidence),
        *records.moves(state, evidence),
        *plan.moves,
        *reboot.moves(repairable, nodes, evidence, hold if repairs_held else ""),
    ]
    moves = k8s_nodes.without_early_undrains(state, found)
    return Decision(moves, update.taken(state, nodes) | update.begun(state, moved), plan)
