"""Decides about retries: a node that a long check drained is tried again, and returns after some passes.

A drained node gets no job. So the operator first reserves the node for the user of long checks, and then lifts the
drain: no other job begins on it. The reservation goes after the last pass, or when the node is drained again. A node
that is neither drained nor reserved meanwhile, since somebody deleted the reservation, is drained again.
"""

from __future__ import annotations

import dataclasses
import datetime
from collections.abc import Iterable, Mapping, Sequence, Set

from contract import names, reasons
from slurm_operator import drains
from slurm_operator.actions import Action, Drain, EndReservation, Reserve, UndrainReserved
from slurm_operator.decide.cluster.checks import selection
from slurm_operator.decide.cluster.checks.changes import Began, Change, GaveUp, Over
from slurm_operator.decide.cluster.checks.ledger import Aim, Ledger, Retry, Verdict
from slurm_operator.decide.cluster.checks.selection import Submission
from slurm_operator.decide.node_sets import window
from slurm_operator.decide.nodes import reservations as ours
from slurm_operator.decide.nodes import slurm_nodes
from slurm_operator.decide.nodes.workers import Worker
from slurm_operator.drains import Owner
from slurm_operator.state.resources import LongCheck
from slurm_operator.state.slurm import Nodes, Reservation, SlurmNode

LASTS = datetime.timedelta(days=365)
"""A reservation ends by itself after this, as one without a limit does."""
_RESERVED = frozenset({"RESERVED", "MAINTENANCE"})
_UNKNOWN_CHECK = "unknown"
"""Check of a reservation that the ledger does not know: a person lifts the drain of its node."""


@dataclasses.dataclass(frozen=True, slots=True)
class Steps:
    """The consequences of a pass for retries: changes of the ledger, actions, and jobs in reservations."""

    changes: list[Change] = dataclasses.field(default_factory=list)
    actions: list[Action] = dataclasses.field(default_factory=list)
    submissions: list[Submission] = dataclasses.field(default_factory=list)


@dataclasses.dataclass(frozen=True, slots=True)
class Seen:
    """The state that a pass sees.

    Attributes:
        checks: the declared ones by name.
        members: check → nodes of its partition.
        nodes: Slurm's nodes.
        reservations: all of Slurm's.
        ledger: all that is known.
        now: the time.
    """

    checks: Mapping[str, LongCheck]
    members: Mapping[str, Sequence[Worker]]
    nodes: Nodes
    reservations: tuple[Reservation, ...]
    ledger: Ledger
    now: datetime.datetime

    def worker(self, node: str) -> Worker | None:
        """Return a node as its node set has it; None if no check tests it."""
        return next((worker for some in self.members.values() for worker in some if worker.name == node), None)

    def reservation(self, node: str) -> Reservation | None:
        """Return the operator's reservation of a node."""
        name = ours.for_retry(node)
        named = (there for there in self.reservations if there.name == name and ours.is_for_retry(there))
        return next((there for there in named if node in there.nodes), None)

    def reserved_by_others(self) -> frozenset[str]:
        """Return nodes of reservations that the operator did not make."""
        others = (there for there in self.reservations if not window.is_ours(there) and not ours.is_for_retry(there))
        return frozenset(node for there in others for node in there.nodes)


def steps(seen: Seen, told: Ledger, taken: Set[str]) -> Steps:
    """Return what follows; only retries that the status has are acted on.

    Args:
        seen: the state.
        told: what the status has.
        taken: nodes that are not free.
    """
    decided, used = Steps(), {*taken}
    for node in sorted(seen.ledger.retries.keys() & told.retries.keys(), key=selection.natural):
        retry = seen.ledger.retries[node]
        # A reservation ends for passes that the status has.
        for step in _next(seen, dataclasses.replace(retry, passes=told.retries[node].passes)):
            if isinstance(step, GaveUp | Over):
                decided.changes.append(step)
            else:
                decided.actions.append(step)
        if job := _job(seen, retry, used):
            decided.submissions.append(job)
            used.update(job.nodes)
    decided.changes.extend(Began(retry) for retry in (*_unknown(seen), *_beginning(seen)))
    return decided


def _next(seen: Seen, retry: Retry) -> list[Action | GaveUp | Over]:
    """Return the next steps of a retry, apart from its jobs."""
    node, there, check = seen.nodes.get(retry.node), seen.reservation(retry.node), _check(seen, retry)
    name = ours.for_retry(retry.node)

    def end(why: str) -> list[Action | GaveUp | Over]:
        return [EndReservation(name, why)] if there else [Over(retry.node)]

    if node is None:
        worker = seen.worker(retry.node)
        # A record that an update makes anew has lost its drain.
        return [] if worker and worker.stays else end(f"{retry.node} is gone")
    owner, given_up = drains.owner(node), retry.given_up or check is None
    if owner is Owner.FOREIGN:
        return end("somebody drained the node")
    if check and retry.passes >= check.passes and not retry.given_up:
        return end(f"long check {check.name} passed {retry.passes} times")
    if owner is None and (given_up or there is None):
        return [GaveUp(retry.node), Drain(retry.node, retry.why)]
    if owner is Owner.LONG_CHECK and (given_up or node.reason != retry.why):
        return end("the node is drained again")
    if owner is Owner.LONG_CHECK and there is None:
        until = seen.now + LASTS
        return [Reserve(name, (retry.node,), seen.now, until, names.RETRY_USER, names.RETRY_FLAGS)]
    if owner is Owner.LONG_CHECK:
        return [UndrainReserved(retry.node, retry.why, name)]
    if there and owner in (Owner.SCALE_IN, Owner.UPDATE):
        # Slurm deletes no record in a reservation. A node that comes back without one is drained first.
        return [EndReservation(name, "the node is to be updated or removed")]
    return []


def _check(seen: Seen, retry: Retry) -> LongCheck | None:
    """Return the check of a retry if it still tries drained nodes again."""
    check = seen.checks.get(retry.check)
    return check if check and check.drains and check.passes else None


def _job(seen: Seen, retry: Retry, used: Set[str]) -> Submission | None:
    """Return the next job of a node that is reserved and serves."""
    node, check = seen.nodes.get(retry.node), _check(seen, retry)
    worker = seen.worker(retry.node)
    if node is None or check is None or retry.given_up or retry.passes >= check.passes or retry.node in used:
        return None
    if not seen.reservation(retry.node) or not _is_free(node) or worker is None or not worker.is_up:
        return None
    said = seen.ledger.latest.get((check.name, retry.node))
    if said and said.verdict in (Verdict.NONE, Verdict.SUSPECT) and seen.now < said.at + selection.RETRY:
        return None
    others = seen.reserved_by_others()
    free = (it.name for it in seen.members[check.name] if selection.is_free(it))
    good = selection.partners(check, (name for name in free if name not in used and name not in others), seen.ledger)
    beside = tuple(name for name in good if name != retry.node)[: check.nodes - 1]
    if len(beside) < check.nodes - 1:
        return None
    ends = selection.deadline(check, seen.now)
    return Submission(check, retry.node, ends, beside, Aim.RETRIES, ours.for_retry(retry.node))


def _is_free(node: SlurmNode) -> bool:
    """Return True if a reserved node has no job."""
    return slurm_nodes.is_idle(dataclasses.replace(node, states=node.states - _RESERVED))


def _beginning(seen: Seen) -> list[Retry]:
    """Return the retries that begin: of nodes that are drained for their check for a while."""
    begun, others, taken = [], seen.reserved_by_others(), seen.ledger.taken()
    for check in seen.checks.values():
        members = seen.members[check.name]
        room = selection.share(check, members) // check.nodes
        room -= sum(retry.check == check.name for retry in seen.ledger.retries.values())
        if not check.drains or not check.passes or not selection.has_partners(check, members, seen.ledger):
            continue
        due = [worker for worker in members if worker.name not in others | taken | seen.ledger.retries.keys()]
        nodes = [worker.node for worker in due if worker.is_up and worker.node and _is_due(check, worker.node, seen)]
        longest = sorted(nodes, key=lambda node: (node.reason_set or seen.now, selection.natural(node.name)))
        begun += [Retry(check.name, node.name, node.reason) for node in longest[: max(0, room)]]
    return begun


def _is_due(check: LongCheck, node: SlurmNode, seen: Seen) -> bool:
    by_it = drains.owner(node) is Owner.LONG_CHECK and node.reason.startswith(f"{reasons.LONG_CHECK}{check.name}: ")
    waited = node.reason_set is not None and node.reason_set + selection.again(check) <= seen.now
    return by_it and waited and slurm_nodes.looks_idle(node)


def _unknown(seen: Seen) -> Iterable[Retry]:
    """Yield retries of reservations of ours that the ledger does not know: their nodes are to be drained again."""
    why = f"{reasons.LONG_CHECK}{_UNKNOWN_CHECK}: it was tried again, and nobody knows the result"
    for there in filter(ours.is_for_retry, seen.reservations):
        node = there.name.removeprefix(names.RETRY_PREFIX)
        if node in there.nodes and node not in seen.ledger.retries:
            yield Retry(_UNKNOWN_CHECK, node, why, given_up=True)
