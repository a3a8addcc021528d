"""Decides about retries: a node that a long check drained is tried again, and returns after some passes.

If a check comes before jobs, a new or repaired node is tried in the same way. Its drain says so
(drains.Owner.UNTESTED), and one pass ends that.

A drained node gets no job. So the operator first reserves the node for the user of long checks, and then lifts the
drain: no other job begins on it. The reservation goes after the last pass, or when the node is drained again. A node
that is neither drained nor reserved meanwhile, since somebody deleted the reservation, is drained again.
"""

from __future__ import annotations

import dataclasses
import datetime
import functools
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
from slurm_operator.state.slurm import Nodes, Reservation, SlurmNode, all_of

LASTS = datetime.timedelta(days=365)
"""A reservation ends by itself after this, as one without a limit does."""
MOST = 200
"""Nodes that are tried at a time: each has a reservation, through which Slurm looks for each job."""
_HELD = (Owner.LONG_CHECK, Owner.UNTESTED)
_RESERVED = frozenset({"RESERVED", "MAINTENANCE"})
_UNKNOWN_CHECK = "unknown"
"""Check of a reservation that the ledger does not know: a person lifts the drain of its node."""


@dataclasses.dataclass(frozen=True, slots=True)
class Steps:
    """The consequences of a pass for retries: changes of the ledger, actions, and jobs in reservations."""

    changes: list[Change] = dataclasses.field(default_factory=list)
    actions: list[Action] = dataclasses.field(default_factory=list)
    submissions: list[Submission] = dataclasses.field(default_factory=list)


@dataclasses.dataclass(frozen=True)
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

    @functools.cached_property
    def workers(self) -> dict[str, Worker]:
        """Nodes that a check tests, as their node sets have them, by name."""
        return {worker.name: worker for some in self.members.values() for worker in some}

    @functools.cached_property
    def first_checks(self) -> dict[str, list[str]]:
        """Node → names of the checks that it passes before it takes jobs, in their order."""
        by_node: dict[str, list[str]] = {}
        for name in (name for name, check in self.checks.items() if check.comes_first):
            for worker in self.members[name]:
                by_node.setdefault(worker.name, []).append(name)
        return by_node

    def reservation(self, node: str) -> Reservation | None:
        """Return the operator's reservation of a node."""
        name = ours.for_retry(node)
        named = (there for there in self.reservations if there.name == name and ours.is_for_retry(there))
        return next((there for there in named if node in there.nodes), None)

    def reserved_by_others(self) -> frozenset[str]:
        """Return nodes of reservations that the operator did not make."""
        others = (there for there in self.reservations if not window.is_ours(there) and not ours.is_for_retry(there))
        return all_of(there.nodes for there in others)


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
        if retry.check != told.retries[node].check:
            continue  # The one before is over, and the status has it still.
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
        worker = seen.workers.get(retry.node)
        # A record that an update makes anew has lost its drain.
        return [] if worker and worker.stays else end(f"{retry.node} is gone")
    owner, given_up = drains.owner(node), retry.given_up or check is None
    if owner is Owner.FOREIGN:
        return end("somebody drained the node")
    passed = check is not None and retry.passes >= _needed(check, retry) and not retry.given_up
    if owner is None and retry.is_first and (passed or check is None) and (further := _further(seen, retry)):
        return [Drain(retry.node, f"{reasons.UNTESTED}{further}")]
    if passed or (retry.is_first and check is None):
        return end(f"long check {retry.check} passed {retry.passes} times" if passed else "it is not to be tested")
    if owner is None and there is None and check is None and retry.passes and not retry.given_up:
        # Its last pass has ended the reservation, or somebody did. Then the configuration lost the check, too.
        return [Over(retry.node)]
    if owner is None and (given_up or there is None):
        return [GaveUp(retry.node), Drain(retry.node, retry.why)]
    # A repair may have ended the drain of a check: then the node stays untested, and that check goes on.
    other = owner is Owner.LONG_CHECK or retry.is_first
    if owner in _HELD and (given_up or (other and node.reason != retry.why)):
        return end("the node is drained again")
    if owner in _HELD and there is None:
        until = seen.now + LASTS
        return [Reserve(name, (retry.node,), seen.now, until, names.RETRY_USER, names.RETRY_FLAGS)]
    if owner in _HELD:
        return [UndrainReserved(retry.node, node.reason, name)]
    if there and owner in (Owner.SCALE_IN, Owner.UPDATE):
        # Slurm deletes no record in a reservation. A node that comes back without one is drained first.
        return [EndReservation(name, "the node is to be updated or removed")]
    return []


def _check(seen: Seen, retry: Retry) -> LongCheck | None:
    """Return the check that a retry runs; None if the configuration no longer has it run there."""
    check = seen.checks.get(retry.check)
    if retry.is_first:
        return check if check and check.name in seen.first_checks.get(retry.node, ()) else None
    return check if check and check.drains and check.passes else None


def _needed(check: LongCheck, retry: Retry) -> int:
    """Return how many passes end a retry."""
    return 1 if retry.is_first else check.passes


def _further(seen: Seen, retry: Retry) -> str:
    """Return the check that follows in a new node's test; empty after the last one."""
    checks = seen.first_checks.get(retry.node, [])
    left = checks[checks.index(retry.check) + 1 :] if retry.check in checks else checks
    return left[0] if left else ""


def _job(seen: Seen, retry: Retry, used: Set[str]) -> Submission | None:
    """Return the next job of a node that is reserved and serves."""
    node, check = seen.nodes.get(retry.node), _check(seen, retry)
    worker = seen.workers.get(retry.node)
    if node is None or check is None or retry.given_up or retry.passes >= _needed(check, retry) or retry.node in used:
        return None
    if not seen.reservation(retry.node) or not _is_free(node) or worker is None or not worker.is_up:
        return None
    said = seen.ledger.latest.get((check.name, retry.node))
    if said and said.verdict in (Verdict.NONE, Verdict.SUSPECT) and seen.now < said.at + selection.RETRY:
        return None
    beside = _beside(seen, check, retry.node, used) if check.nodes > 1 else ()
    if len(beside) < check.nodes - 1:
        return None
    ends = selection.deadline(check, seen.now)
    return Submission(check, retry.node, ends, beside, Aim.RETRIES, ours.for_retry(retry.node))


def _beside(seen: Seen, check: LongCheck, node: str, used: Set[str]) -> tuple[str, ...]:
    """Return good nodes for a job of several nodes; they may be too few."""
    others = seen.reserved_by_others()
    free = (it.name for it in seen.members[check.name] if selection.is_free(it))
    good = selection.partners(check, (name for name in free if name not in used and name not in others), seen.ledger)
    return tuple(name for name in good if name != node)[: check.nodes - 1]


def _is_free(node: SlurmNode) -> bool:
    """Return whether a reserved node has no job."""
    return slurm_nodes.is_idle(dataclasses.replace(node, states=node.states - _RESERVED))


def _beginning(seen: Seen) -> list[Retry]:
    """Return the retries that begin: of untested nodes, and of those that are drained for their check for a while."""
    begun = list[Retry]()
    kept = all_of([seen.reserved_by_others(), frozenset(seen.ledger.taken() | seen.ledger.retries.keys())])
    for check in seen.checks.values():
        members = seen.members[check.name]
        there = [worker.node for worker in members if worker.is_up and worker.node and worker.name not in kept]
        idle = sorted(filter(slurm_nodes.looks_idle, there), key=lambda node: _turn(check, node, seen))
        if check.comes_first:  # These nodes take no jobs, so their share is no matter.
            begun += [Retry(check.name, node.name, node.reason) for node in idle if _is_first_due(check, node, seen)]
        room = selection.share(check, members) // check.nodes
        room -= sum(retry.check == check.name and not retry.is_first for retry in seen.ledger.retries.values())
        if check.drains and check.passes and selection.has_partners(check, members, seen.ledger):
            due = [node for node in idle if _is_due(check, node, seen)]
            begun += [Retry(check.name, node.name, node.reason) for node in due[: max(0, room)]]
    return begun[: max(0, MOST - len(seen.ledger.retries))]


def _turn(check: LongCheck, node: SlurmNode, seen: Seen) -> tuple[bool, datetime.datetime, tuple[str, int]]:
    """Return a node's place in the order: those that somebody asks for, then those that are drained for longest."""
    asked = seen.ledger.request(check.name, node.name) is not None
    return not asked, node.reason_set or seen.now, selection.natural(node.name)


def _is_due(check: LongCheck, node: SlurmNode, seen: Seen) -> bool:
    by_it = drains.owner(node) is Owner.LONG_CHECK and node.reason.startswith(f"{reasons.LONG_CHECK}{check.name}: ")
    waited = node.reason_set is not None and node.reason_set + selection.again(check) <= seen.now
    return by_it and (waited or seen.ledger.request(check.name, node.name) is not None)


def _is_first_due(check: LongCheck, node: SlurmNode, seen: Seen) -> bool:
    """Return whether a node awaits this check's first pass, and has not failed it just now."""
    said = seen.ledger.latest.get((check.name, node.name))
    waited = said is None or said.verdict is Verdict.PASS or said.at + selection.again(check) <= seen.now
    awaits = drains.owner(node) is Owner.UNTESTED and node.reason == f"{reasons.UNTESTED}{check.name}"
    return awaits and (waited or seen.ledger.request(check.name, node.name) is not None)


def _unknown(seen: Seen) -> Iterable[Retry]:
    """Yield retries of reservations of ours that the ledger does not know: their nodes are to be drained again."""
    why = f"{reasons.LONG_CHECK}{_UNKNOWN_CHECK}: it was tried again, and nobody knows the result"
    for there in filter(ours.is_for_retry, seen.reservations):
        node = there.name.removeprefix(names.RETRY_PREFIX)
        if node in there.nodes and node not in seen.ledger.retries:
            yield Retry(_UNKNOWN_CHECK, node, why, given_up=True)
