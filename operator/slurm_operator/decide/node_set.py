"""All that a pass decides about one node set: a pure function of what it sees, called by the pass and by its model."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable

from slurm_operator.actions import Action
from slurm_operator.decide import features, k8s_nodes, reboot, records, remediate, scale, undrain, update, window
from slurm_operator.decide.workers import NodeSetState
from slurm_operator.state import NodeSet, Unknown


@dataclasses.dataclass(frozen=True, slots=True)
class Decision:
    """What to do, in that order, and the repairs that are part of it.

    `updating` is to be remembered of the update: the nodes that it has taken and that have not worked since.
    """

    moves: list[Action]
    updating: frozenset[str]
    plan: remediate.Plan


def unchanged(node_set: NodeSet, moves: Iterable[Action] = ()) -> Decision:
    """What to do as long as Slurm can't be seen: all that was to be remembered still is."""
    return Decision([*moves], node_set.updating, remediate.Plan(restarts=node_set.restarts))


def decide(state: NodeSetState) -> Decision:
    """What to do about one node set now."""
    if isinstance(state.nodes, Unknown):
        return unchanged(state.node_set, scale.actions_unseen(state))
    repairable = state if state.repairs_held else dataclasses.replace(update.without_outdated(state), hold="")
    plan, moved = remediate.plan(repairable), update.moves(state)
    found: list[Action] = [
        *features.moves(state),
        *undrain.moves(state),
        *scale.moves(state),
        *moved,
        *window.moves(state, update.waiting_for_window(state)),
        *k8s_nodes.moves(state),
        *records.moves(state),
        *plan.moves,
        *reboot.moves(repairable),
    ]
    return Decision(found, update.taken(state) | update.begun(state, moved), plan)
