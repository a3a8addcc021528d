"""The decision of a pass about one node set: a pure function of the state, which the pass and its model call."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

from contract import reasons
from slurm_operator import drains
from slurm_operator.actions import (
    Action,
    Comment,
    Drain,
    DrainDown,
    RestoreReason,
    SetEvictable,
    Undrain,
    UpdateNode,
)
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
from slurm_operator.findings import Defect
from slurm_operator.state.resources import KeptDrain, NodeSet
from slurm_operator.state.slurm import SlurmNode, Unknown

_DRAINING = frozenset({"size", "Kubernetes nodes", "update", "repairs", "reboots"})
"""Parts that drain nodes."""
_T = TypeVar("_T")


@dataclasses.dataclass(frozen=True, slots=True)
class Decision:
    """The actions of a pass, in their order, and the repairs among them.

    The status remembers `updating`: the nodes that the update has taken and that have not worked since. It keeps
    `drains`, those of others. `defects` are parts of the decision that raised an exception: nothing of them is done.
    """

    actions: list[Action]
    updating: frozenset[str]
    plan: remediate.Plan
    drains: tuple[KeptDrain, ...]
    defects: tuple[Defect, ...] = ()


class _Parts:
    """Parts of a decision: an exception in one ends no other."""

    def __init__(self) -> None:
        self.defects: list[Defect] = []

    def result(self, part: str, work: Callable[[], _T], otherwise: _T) -> _T:
        """Return what a part decides; `otherwise` if it raises."""
        try:
            return work()
        except Exception as error:  # Whatever it is: no part may end the others.
            self.defects.append(Defect(part, error))
            return otherwise

    def actions(
        self, part: str, work: Callable[[], Sequence[Action]], otherwise: Sequence[Action] = ()
    ) -> Sequence[Action]:
        """Return the actions of a part; `otherwise` if it raises."""
        return self.result(part, work, otherwise)

    def have_failed(self, parts: Iterable[str]) -> bool:
        """Return whether one of these parts raised."""
        return any(defect.part in parts for defect in self.defects)


def unchanged(node_set: NodeSet, actions: Iterable[Action] = ()) -> Decision:
    """Return the decision while Slurm can't be seen: it keeps all that the status remembers."""
    return Decision([*actions], node_set.updating, remediate.Plan(restarts=node_set.restarts), node_set.drains)


def repairable(state: NodeSetState) -> NodeSetState:
    """The set as repairs see it: what holds up updates alone holds up none of the newest template."""
    return state if state.repairs_held else dataclasses.replace(update.without_outdated(state), hold="")


def decide(state: NodeSetState) -> Decision:
    """Return the decision about one node set.

    A part rests on the state alone, and takes away only nodes under its own drain. So the others go on without one
    that raises. Two rest on others. A drain is lifted only if every part that drains has spoken: one of
    them may want it. An update goes on only if the status can remember which nodes it takes.
    """
    if isinstance(state.nodes, Unknown):
        return unchanged(state.node_set, scale.actions_unseen(state))
    parts = _Parts()
    plan = parts.result("repairs", lambda: remediate.plan(repairable(state)), unchanged(state.node_set).plan)
    updates = parts.actions("update", lambda: update.actions(state))
    # Drains stand in the order of ADR 33: of one node's the first counts.
    decided = _with_one_drain_each(
        [
            *parts.actions("size", lambda: scale.actions(state), scale.actions_unseen(state)),
            *parts.actions("Kubernetes nodes", lambda: k8s_nodes.actions(state)),
            *updates,
            *parts.actions("window", lambda: window.actions(state, update.waiting_for_window(state))),
            *parts.actions("records", lambda: records.actions(state)),
            *plan.actions,
            *parts.actions("reboots", lambda: reboot.actions(repairable(state))),
            *parts.actions("features", lambda: features.actions(state)),
            *parts.actions("others' drains", lambda: _restored(_records(state))),
        ]
    )
    updating = parts.result("update", lambda: update.taken(state) | update.begun(state, decided), None)
    if updating is None:
        decided, updating = [action for action in decided if action not in updates], state.node_set.updating
    if not parts.have_failed(_DRAINING):
        # One action for each drain: that of an update takes the place of a removal's that has no more cause.
        drained = {action.node for action in decided if isinstance(action, Drain)}
        lifted: Sequence[Undrain | Drain] = parts.result("undrain", lambda: undrain.actions(state), [])
        decided[:0] = [action for action in lifted if action.node not in drained]
    kept = parts.result("others' drains", lambda: drains.kept(_records(state)), state.node_set.drains)
    return Decision(sorted(decided, key=_turn), updating, plan, kept, tuple(parts.defects))


def _records(state: NodeSetState) -> list[SlurmNode]:
    return [worker.node for worker in state.workers.values() if worker.node]


def _restored(nodes: Iterable[SlurmNode]) -> list[RestoreReason]:
    """Return what gives drains of others their words back, which Slurm has replaced."""
    lost = [node for node in nodes if node.replaced_by]
    signed = [drains.signed(KeptDrain(node.name, node.reason, node.reason_user)) for node in lost]
    pairs = zip(lost, signed, strict=True)
    return [RestoreReason(node.name, words) for node, words in pairs if words != node.replaced_by]


def _turn(action: Action) -> int:
    """Return an action's place: a pass has time for a part of many, and first comes what keeps jobs from an end."""
    match action:
        case DrainDown() | SetEvictable(evictable=False):
            return 0
        case Drain(reason=reason) if reason.startswith(reasons.NODE):
            return 0
        case UpdateNode() | Comment() | RestoreReason():
            return 2
    return 1


def _with_one_drain_each(decided: Sequence[Action]) -> list[Action]:
    """Keep the first drain of each node: a second would replace it at once, and a deadline would count from there."""
    first = {action.node: action for action in reversed(decided) if isinstance(action, Drain)}
    return [action for action in decided if not isinstance(action, Drain) or action is first[action.node]]
