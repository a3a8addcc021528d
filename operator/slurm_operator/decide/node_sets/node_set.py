"""The decision of a pass about one node set: a pure function of the state, which the pass and its model call."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence

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
from slurm_operator.state.resources import NodeSet
from slurm_operator.state.slurm import Unknown


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


def repairable(state: NodeSetState) -> NodeSetState:
    """The set as repairs see it: what holds up updates alone holds up none of the newest template."""
    return state if state.repairs_held else dataclasses.replace(update.without_outdated(state), hold="")


def decide(state: NodeSetState) -> Decision:
    """Return the decision about one node set."""
    if isinstance(state.nodes, Unknown):
        return unchanged(state.node_set, scale.actions_unseen(state))
    plan = remediate.plan(repairable(state))
    # Drains stand in the order of ADR 33: of one node's the first counts.
    decided = _with_one_drain_each(
        [
            *features.actions(state),
            *scale.actions(state),
            *k8s_nodes.actions(state),
            *update.actions(state),
            *window.actions(state, update.waiting_for_window(state)),
            *records.actions(state),
            *plan.actions,
            *reboot.actions(repairable(state)),
        ]
    )
    # One action for each drain: that of an update takes the place of a removal's that has no more cause.
    drained = {action.node for action in decided if isinstance(action, Drain)}
    decided[:0] = [action for action in undrain.actions(state) if action.node not in drained]
    return Decision(decided, update.taken(state) | update.begun(state, decided), plan)


def _with_one_drain_each(decided: Sequence[Action]) -> list[Action]:
    """Keep the first drain of each node: a second would replace it at once, and a deadline would count from there."""
    first = {action.node: action for action in reversed(decided) if isinstance(action, Drain)}
    return [action for action in decided if not isinstance(action, Drain) or action is first[action.node]]
