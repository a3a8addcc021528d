"""Selects the nodes of a long check's next jobs: idle ones, first suspects and then the longest unchecked.

When a job of several nodes fails, its nodes are suspects. Each then runs the check beside nodes that passed it. If
that job fails, too, the suspect is bad; if it passes, the suspect is good. A bad node is in every job that fails. So it
stays a suspect until it is drained, and no good node fails beside good ones. A check that fails everywhere accuses
nobody.

* A *suspect* of a check is a node whose latest verdict there is FAIL or SUSPECT. Checks of one node have none.
* A *partner* is a free node that stands beside a suspect in a job, and is no suspect.
* A job *accuses* if all partners in it passed the check: its failure is the suspect's own.
"""

from __future__ import annotations

import collections
import dataclasses
import datetime
import math
import random
import re
from collections.abc import Callable, Iterable, Mapping, Sequence, Set

from cronsim import CronSim, CronSimError

from slurm_operator.decide.cluster.checks.ledger import SUSPICIOUS, Aim, Ledger, Verdict
from slurm_operator.decide.nodes import slurm_nodes
from slurm_operator.decide.nodes.workers import Worker
from slurm_operator.state.resources import LongCheck

STARTS_WITHIN = datetime.timedelta(minutes=15)
"""A job that has not begun by then ends (DEADLINE): somebody else's took its node."""
RETRY = datetime.timedelta(minutes=10)
"""A node whose job had no verdict is tested again after this."""
SUSPECT_AFTER = datetime.timedelta(minutes=1)
"""A suspect is tested after this."""
_LONGEST = datetime.timedelta(hours=1)
_SECOND = datetime.timedelta(seconds=1)
_NEVER = datetime.datetime.min.replace(tzinfo=datetime.UTC)


@dataclasses.dataclass(frozen=True, slots=True)
class Submission:
    """A job to submit on hold, which ends unless it begins in time.

    `node` is the first of its nodes, `others` are the rest. `reservation` is the one that it runs in, empty for none.
    """

    check: LongCheck
    node: str
    deadline: datetime.datetime
    others: tuple[str, ...] = ()
    aim: Aim = Aim.TESTS
    reservation: str = ""

    @property
    def nodes(self) -> tuple[str, ...]:
        """All its nodes."""
        return (self.node, *self.others)


def deadline(check: LongCheck, now: datetime.datetime) -> datetime.datetime:
    """Return when a job of a check that has not begun ends."""
    return now + STARTS_WITHIN + datetime.timedelta(minutes=check.limit_minutes)


def again(check: LongCheck) -> datetime.timedelta:
    """Return the pause between tests of a node that fails, or stays a suspect: the check's own, an hour at most."""
    return _LONGEST if check.schedule else min(datetime.timedelta(seconds=check.every_seconds), _LONGEST)


def share(check: LongCheck, members: Sequence[Worker]) -> int:
    """Return how many nodes a check may test at a time."""
    return max(check.nodes, -(-len(members) * check.share_percent // 100))


def is_free(worker: Worker) -> bool:
    """Return whether a node may have a check's job."""
    return worker.is_up and worker.node is not None and slurm_nodes.is_idle(worker.node)


def is_suspect(check: LongCheck, node: str, ledger: Ledger) -> bool:
    """Return whether a node is a suspect of a check."""
    said = ledger.latest.get((check.name, node))
    return check.nodes > 1 and said is not None and said.verdict in SUSPICIOUS


def has_partners(check: LongCheck, members: Iterable[Worker], ledger: Ledger) -> bool:
    """Return whether enough nodes for a suspect's job are no suspects; nodes that have a job now count, too."""
    serving = (worker.name for worker in members if worker.node and slurm_nodes.is_usable(worker.node))
    return sum(not is_suspect(check, name, ledger) for name in serving) >= check.nodes - 1


def partners(check: LongCheck, free: Iterable[str], ledger: Ledger) -> list[str]:
    """Return the partners: first those that passed, the latest first."""

    def order(node: str) -> tuple[bool, float, tuple[str, int]]:
        said = ledger.latest.get((check.name, node))
        return not _passed(check, node, ledger), -said.at.timestamp() if said else 0.0, natural(node)

    return sorted((node for node in free if not is_suspect(check, node, ledger)), key=order)


def in_turn(checks: Iterable[LongCheck], members: Mapping[str, Sequence[Worker]], ledger: Ledger) -> list[LongCheck]:
    """Return the checks in the order in which they take nodes.

    First comes one for which somebody asked, then those with the fewest jobs. Of equal ones that is first whose free
    nodes it has not tested for longest. So none keeps others from nodes and jobs, also if it is always due.
    """
    jobs = collections.Counter(job.check for job in ledger.jobs.values() if not job.failed)

    def turn(check: LongCheck) -> tuple[bool, int, float]:
        free = [worker.name for worker in members[check.name] if is_free(worker)]
        asked = any(ledger.request(check.name, node) for node in free)
        tests = (ledger.latest.get((check.name, node)) for node in free)
        oldest = min((said.at.timestamp() if said else 0.0 for said in tests), default=math.inf)
        return not asked, jobs[check.name], oldest

    return sorted(checks, key=turn)


def submissions(
    check: LongCheck, members: Sequence[Worker], ledger: Ledger, taken: Set[str], now: datetime.datetime
) -> list[Submission]:
    """Return the jobs that a check may have now.

    Args:
        check: the check.
        members: nodes of its partition.
        ledger: all that is known.
        taken: nodes that are not free for it.
        now: the time.
    """
    tested = sum(len(job.nodes) for job in ledger.jobs.values() if job.check == check.name)
    room = (share(check, members) - tested) // check.nodes
    free = [worker.name for worker in members if is_free(worker) and worker.name not in taken]
    since = _due_since(check, now)
    due = sorted((node for node in free if _is_due(check, node, ledger, now, since)), key=_turn(check, ledger))
    groups = _accusing(check, due, free, ledger) if check.nodes > 1 else []
    used = {node for nodes, _ in groups for node in nodes}
    if not groups and not has_partners(check, members, ledger):
        due = _mixed(check, due, free, ledger, now)
    else:
        due = [node for node in due if node not in used and not is_suspect(check, node, ledger)]
    groups += [(nodes, Aim.TESTS) for nodes in _grouped(check, due, [n for n in free if n not in used], ledger)]
    ends = deadline(check, now)
    return [Submission(check, nodes[0], ends, nodes[1:], aim) for nodes, aim in groups[: max(0, room)]]


def _accusing(
    check: LongCheck, due: Iterable[str], free: Iterable[str], ledger: Ledger
) -> list[tuple[tuple[str, ...], Aim]]:
    """Return the nodes of a job for each suspect that is due, as long as there are partners for it."""
    suspects = [node for node in due if is_suspect(check, node, ledger)]
    others, size = partners(check, free, ledger), check.nodes - 1
    beside = [tuple(others[start : start + size]) for start in range(0, len(others) - size + 1, size)]

    def aim(nodes: Iterable[str]) -> Aim:
        return Aim.ACCUSES if all(_passed(check, node, ledger) for node in nodes) else Aim.TESTS

    return [((suspect, *nodes), aim(nodes)) for suspect, nodes in zip(suspects, beside, strict=False)]


def _passed(check: LongCheck, node: str, ledger: Ledger) -> bool:
    said = ledger.latest.get((check.name, node))
    return said is not None and said.verdict is Verdict.PASS


def _mixed(
    check: LongCheck, due: Iterable[str], free: Iterable[str], ledger: Ledger, now: datetime.datetime
) -> list[str]:
    """Return the nodes to test in other groups than before, where there are too few partners for suspects."""
    suspects = [node for node in due if is_suspect(check, node, ledger)]
    waited = [node for node in suspects if ledger.latest[check.name, node].at + again(check) <= now]
    others = (node for node in free if waited and not is_suspect(check, node, ledger))
    mixed = sorted([*waited, *others], key=natural)
    failures = ledger.counts.get((check.name, Verdict.FAIL), 0)
    if len(mixed) < 2 * check.nodes:
        # The only group leaves other nodes out after each failure.
        first = failures % max(1, len(mixed))
        return mixed[first:] + mixed[:first]
    random.Random(failures).shuffle(mixed)  # noqa: S311 - the same failures give the same groups
    return mixed


def _grouped(check: LongCheck, due: Sequence[str], free: Iterable[str], ledger: Ledger) -> list[tuple[str, ...]]:
    """Return the due nodes in groups of the check's size; free nodes that are no suspects fill up the last one."""
    size = check.nodes
    groups = [tuple(due[start : start + size]) for start in range(0, len(due), size)]
    if groups and len(groups[-1]) < size:
        spare = [node for node in sorted(free, key=_turn(check, ledger)) if node not in due]
        spare = [node for node in spare if not is_suspect(check, node, ledger)]
        groups[-1] += tuple(spare[: size - len(groups[-1])])
    return [group for group in groups if len(group) == size]


def latest_tick(check: LongCheck, now: datetime.datetime) -> datetime.datetime | None:
    """Return the latest tick of a check's schedule; None for one that no calendar has, such as `0 3 30 2 *`."""
    try:
        return next(CronSim(check.schedule, now.replace(microsecond=0) + _SECOND, reverse=True), None)
    except CronSimError:
        return None


def _due_since(check: LongCheck, now: datetime.datetime) -> datetime.datetime:
    """Return the time since when a node must have been tested not to be due: the latest tick, or `every` ago."""
    if check.schedule:
        return latest_tick(check, now) or _NEVER
    return now - datetime.timedelta(seconds=check.every_seconds)


def _is_due(check: LongCheck, node: str, ledger: Ledger, now: datetime.datetime, since: datetime.datetime) -> bool:
    said, request = ledger.latest.get((check.name, node)), ledger.request(check.name, node)
    if said and request:
        return said.at <= request.at or said.at + RETRY <= now
    if said is None or (said.verdict is Verdict.FAIL and check.drains):
        return True  # A node that failed is idle only after somebody has undrained it.
    waits = {Verdict.NONE: RETRY, Verdict.SUSPECT: SUSPECT_AFTER}
    return said.at <= (now - waits[said.verdict] if said.verdict in waits else since)


def _turn(check: LongCheck, ledger: Ledger) -> Callable[[str], tuple[bool, bool, float, tuple[str, int]]]:
    """Return the order of nodes: those that somebody asks for, those that were never tested, the longest unchecked."""

    def turn(node: str) -> tuple[bool, bool, float, tuple[str, int]]:
        said, asked = ledger.latest.get((check.name, node)), ledger.request(check.name, node) is not None
        return not asked, said is not None, said.at.timestamp() if said else 0.0, natural(node)

    return turn


def natural(node: str) -> tuple[str, int]:
    """Return a node's place by its set and its ordinal."""
    match = re.fullmatch(r"(.*?)(\d*)", node)
    return (match[1], int(match[2] or 0)) if match else (node, 0)
