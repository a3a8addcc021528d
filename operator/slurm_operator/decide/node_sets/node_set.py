"""The decision of a pass about one node set: a pure function of the state, which the pass and its model call."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable

from slurm_operator.actions import Action, Drain
from slurm_operator.decide.node_sets import (
    features,
    k8s_nodes,
    reboot,
    records,
    remediate,
    scale,
    undrain,
    update,
    window,
)
from slurm_operator.decide.nodes.workers import NodeSetState
from slurm_operator.state import NodeSet, Unknown


@dataclasses.dataclass(frozen=True, slots=True)
class Decision:
    """The actions of a pass, in their order, and the repairs among them.

    The status remembers `updating`: the nodes that the update has taken and that have not worked since.
    """

    actions: list[Action]
    updating: frozenset[str]
    plan: remediate.Plan


def unchanged(node_set: NodeSet, actions: Iterable[Action] = ()) -> Decision:
    """Return the decision while Slurm can't be seen: it keeps all that the status remembers."""
    return Decision([*actions], node_set.updating, remediate.Plan(restarts=node_set.restarts))


def decide(state: NodeSetState) -> Decision:
    """Return the decision about one node set."""
    if isinstance(state.nodes, Unknown):
        return unchanged(state.node_set, scale.actions_unseen(state))
    repairable = state if state.repairs_held else dataclasses.replace(update.without_outdated(state), hold="")
    plan, updates = remediate.plan(repairable), update.actions(state)
    decided: list[Action] = [
        *features.actions(state),
        *scale.actions(state),
        *updates,
        *window.actions(state, update.waiting_for_window(state)),
        *k8s_nodes.actions(state),
        *records.actions(state),
        *plan.actions,
        *reboot.actions(repairable),
    ]
    # One action for each node: where an update drains it, a drain for a removal without a cause is not lifted first.
    drained = {action.node for action in decided if isinstance(action, Drain)}
    decided[:0] = [action for action in undrain.actions(state) if action.node not in drained]
    return Decision(decided, update.taken(state) | update.begun(state, updates), plan)
