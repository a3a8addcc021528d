"""Slurm's reservations, for the updates that wait for a window."""

from __future__ import annotations

import dataclasses
import logging
import math
from collections.abc import Callable, Iterable, Sequence

from slurm_operator.clients.kubernetes import Object
from slurm_operator.clients.slurm.slurm_error import SlurmError
from slurm_operator.clients.slurm.slurmrestd import SlurmRest
from slurm_operator.decide.node_sets import update, window
from slurm_operator.decide.nodes.workers import NodeSetState
from slurm_operator.execute import Executor
from slurm_operator.findings import Finding
from slurm_operator.reconcile.defects import Defects
from slurm_operator.reconcile.pass_budget import PassBudget
from slurm_operator.state.slurm import Reservation

log = logging.getLogger(__name__)

SECONDS = 60.0
"""Pause between looks for reservations of ours that no node set needs any more."""


class Reservations:
    """Reads reservations when a decision needs them, and deletes those of node sets that are gone.

    Attributes:
        problems: findings of the latest look.
    """

    def __init__(self, executor: Executor, defects: Defects, clock: Callable[[], float]) -> None:
        self.problems: list[Finding] = []
        self._executor = executor
        self._defects = defects
        self._clock = clock
        self._seen: tuple[Reservation, ...] | None = None
        self._seen_at = -math.inf
        self._has_ours = False

    async def look(self, rest: SlurmRest, sets: Sequence[NodeSetState]) -> list[NodeSetState]:
        """The node sets with all reservations, which are looked at while nodes wait, or one of ours is there."""
        waiting = False
        with self._defects.isolated("look at reservations"):
            waiting = any(state.node_set.update.window and update.outdated(state) for state in sets)
        self._seen, due = None, self._clock() >= self._seen_at + SECONDS
        if waiting or due or self._has_ours:
            try:
                self._seen = await rest.reservations()
            except SlurmError as error:
                log.warning("no listing of reservations: %s", error)
            else:
                self._seen_at, self._has_ours = self._clock(), any(map(window.is_ours, self._seen))
                self.problems = window.unread(self._seen)
        return [dataclasses.replace(state, reservations=self._seen) for state in sets]

    async def end_left_over(
        self, rest: SlurmRest, body: Object, node_sets: Iterable[str], budget: PassBudget
    ) -> list[Finding]:
        """Delete our reservations of node sets that are gone; returned is what failed.

        Args:
            rest: the cluster's slurmrestd.
            body: the cluster's resource, for Events.
            node_sets: names of all that there are.
            budget: the time of this pass; there is always enough for a little.
        """
        problems, ends = list[Finding](), budget.ends()
        for decided in window.left_over(self._seen or (), node_sets):
            if not budget.is_over(ends):
                problems += await self._executor.execute(rest, body, decided)
        return problems
