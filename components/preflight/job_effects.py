"""Decides what an edit of partitions and node sets means for the jobs of the running cluster: pure functions."""

import datetime
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from components.config.nodes.node_sets import JobsOfRemoved, Removal
from components.config.slurm_keys.partition_options import TYPED
from components.config.values.quantities import slurm_seconds
from components.preflight.counted_jobs import OTHERS, CountedJobs, NodeSetJobs, Number, PartitionJobs

Line = Mapping[str, str]
"""A partition's keys, as Slurm writes them, and their values."""

_STARTS: Final = ("UP", "DRAIN")
"""States in which waiting jobs start (slurm.conf(5), State)."""
_TAKES: Final = ("UP", "DOWN")
"""States in which a partition takes new jobs."""
_NO_LIMIT: Final = "UNLIMITED"


@dataclass(frozen=True, slots=True)
class NodeSize:
    """Nodes of a set, as the configuration has them.

    Attributes:
        cpus: CPUs of a node.
        memory_mib: Memory of a node for jobs.
        replicas: Wanted number of nodes; None if others say it.
        removal: What becomes of jobs on nodes that go.
    """

    cpus: int
    memory_mib: int
    replicas: int | None = None
    removal: Removal = field(default_factory=Removal)


@dataclass(frozen=True, slots=True)
class Declared:
    """Partitions and node sets that the configuration declares, as far as they decide whether a job may start.

    Attributes:
        partitions: Partition → its line of slurm.conf.
        node_sets: Node set → its nodes.
    """

    partitions: Mapping[str, Line]
    node_sets: Mapping[str, NodeSize]


@dataclass(frozen=True, slots=True)
class _Edit:
    """An edit and what it means for jobs: nothing for any, or None if nobody knows."""

    what: str
    consequences: tuple[str, ...] | None


def effects(running: Mapping[str, Line], declared: Declared, jobs: CountedJobs) -> list[str]:
    """Return a sentence for each edit that concerns jobs of the running cluster, and one for what is not known.

    Args:
        running: Partition → its line of the slurm.conf that slurmctld reads.
        declared: What the configuration declares.
        jobs: The cluster's jobs and node sets.
    """
    edits = [*_partitions(running, declared, jobs), *_node_sets(declared, jobs)]
    sentences = ["; ".join((edit.what, *edit.consequences)) for edit in edits if edit.consequences]
    if uncounted := [edit.what for edit in edits if edit.consequences is None]:
        why = jobs.unknown or f"the operator counts those of {len(jobs.partitions)} partitions"
        what = "; ".join(uncounted)
        sentences.append(f"{what}; what that means for jobs is not known, as they are not counted: {why}")
    if edits and jobs.unread:
        sentences.append(f"{jobs.unread} jobs are not counted yet, so more may be concerned")
    return sentences


def _partitions(running: Mapping[str, Line], declared: Declared, jobs: CountedJobs) -> Iterator[_Edit]:
    for name, old in running.items():
        own, new = jobs.of(name), declared.partitions.get(name)
        if new is None:
            edits = [_Edit("is removed", tuple(_closing(own or PartitionJobs())))]
        else:
            known = own or PartitionJobs()
            edits = [*_limits(old, new, known), *_state(old, new, known), *_members(old, new, known)]
            edits += [*_sizes(old, new, declared, jobs, known), *_admitted(old, new, known)]
        for edit in edits:
            of = f"partition {name} {edit.what}" if new is None else f"partition {name}: {edit.what}"
            yield _Edit(of, None if own is None else edit.consequences)


def _closing(own: PartitionJobs) -> Iterator[str]:
    if own.running.jobs or own.waiting.jobs:
        there = f"{own.running.jobs} of its jobs run and {own.waiting.jobs} wait"
        yield f"{there}: it takes no more, and the new configuration waits until they have ended"


def _limits(old: Line, new: Line, own: PartitionJobs) -> Iterator[_Edit]:
    was, will_be = (line.get("MaxTime", _NO_LIMIT) for line in (old, new))
    limit = _minutes(will_be)
    if limit < _minutes(was):
        # Slurm shows the partition's limit for a waiting job that names none. Such a job takes the new one.
        unnamed = None if "DefaultTime" in old else _minutes(was)
        yield _edit(
            _change("MaxTime", was, will_be),
            _told(
                own.running.limits.between(limit),
                "running job is longer, and keeps its limit",
                "running jobs are longer, and keep their limit",
            ),
            _told(
                own.waiting.limits.between(limit, doubtful=unnamed),
                "waiting job asks for more, and would not start (PartitionTimeLimit)",
                "waiting jobs ask for more, and would not start (PartitionTimeLimit)",
            ),
        )
    was, will_be = (line.get("MaxNodes", _NO_LIMIT) for line in (old, new))
    if _count(will_be) < _count(was):
        yield _edit(
            _change("MaxNodes", was, will_be),
            _told(
                own.waiting.nodes.between(_count(will_be), _count(was)),
                "waiting job asks for more, and would not start (PartitionNodeLimit)",
                "waiting jobs ask for more, and would not start (PartitionNodeLimit)",
            ),
        )


def _state(old: Line, new: Line, own: PartitionJobs) -> Iterator[_Edit]:
    was, will_be = (line.get("State", "UP") for line in (old, new))
    what = _change("State", was, will_be)
    if was in _STARTS and will_be not in _STARTS:
        reason = "PartitionDown" if will_be == "DOWN" else "PartitionInactive"
        words = f"would not start ({reason}); running ones go on"
        yield _edit(what, _told(_exactly(own.waiting.jobs), f"waiting job {words}", f"waiting jobs {words}"))
    elif was in _TAKES and will_be not in _TAKES:
        words = "as before, and it takes no new ones"
        there = _exactly(own.running.jobs + own.waiting.jobs)
        yield _edit(what, _told(there, f"job of it goes on {words}", f"jobs of it go on {words}"))


def _members(old: Line, new: Line, own: PartitionJobs) -> Iterator[_Edit]:
    was, will_be = _sets(old), _sets(new)
    if gone := [name for name in was if name not in will_be]:
        nodes = f"nodes of {', '.join(gone)}"
        yield _edit(
            _change("Nodes", ", ".join(was), ", ".join(will_be)),
            _told(
                own.running.on(gone),
                f"running job has {nodes}, and keeps them",
                f"running jobs have {nodes}, and keep them",
            ),
            _told(_exactly(own.waiting.jobs), f"waiting job gets no {nodes}", f"waiting jobs get no {nodes}"),
        )


def _sizes(old: Line, new: Line, declared: Declared, jobs: CountedJobs, own: PartitionJobs) -> Iterator[_Edit]:
    """Yield what gets smaller of a partition's largest node."""
    now = [jobs.node_sets.get(name, NodeSetJobs()) for name in _sets(old)]
    then = [declared.node_sets[name] for name in _sets(new) if name in declared.node_sets]
    for spans, unit, was, will_be in (
        (own.waiting.cpus, "CPUs", [one.cpus for one in now], [one.cpus for one in then]),
        (own.waiting.memory, "MiB", [one.memory_mib for one in now], [one.memory_mib for one in then]),
    ):
        sizes = [size for size in was if size is not None]
        largest, smaller = max(sizes, default=0), max(will_be, default=0)
        if len(sizes) == len(was) and smaller < largest:
            yield _edit(
                f"its largest node has {largest} → {smaller} {unit} for jobs",
                _told(
                    spans.between(smaller, largest),
                    "waiting job needs more of a node, and would not start",
                    "waiting jobs need more of a node, and would not start",
                ),
            )


def _admitted(old: Line, new: Line, own: PartitionJobs) -> Iterator[_Edit]:
    """Yield accounts and QOS that are no longer admitted."""
    yield from _refused(old, new, "Accounts", own.waiting.accounts)
    yield from _refused(old, new, "Qos", own.waiting.qos)


def _refused(old: Line, new: Line, kind: str, waiting: Mapping[str, int]) -> Iterator[_Edit]:
    allow, deny = f"Allow{kind}", f"Deny{kind}"
    allowed_before, allowed, denied_before, denied = (
        _listed(line.get(key)) for key in (allow, deny) for line in (old, new)
    )
    fewer = allowed and (not allowed_before or allowed_before - allowed)
    if not fewer and not denied - denied_before:
        return
    # An account is admitted with all below it, and nobody here knows which these are. One that waits was admitted.
    is_tree = kind == "Accounts" and bool(allowed_before)
    lost = {
        name: number
        for name, number in waiting.items()
        if name != OTHERS
        and (is_tree or _admits(allowed_before, denied_before, name))
        and not _admits(allowed, denied, name)
    }
    others = waiting.get(OTHERS, 0)
    number = Number(sum(lost.values()), sum(lost.values()) + others)
    whose = f" of {', '.join(lost)}" if lost else ""
    unless = ", unless an account above is allowed" if kind == "Accounts" and allowed else ""
    words = f"{whose} would not start{unless}"
    edited = [key for key in (allow, deny) if old.get(key) != new.get(key)]
    what = ", ".join(_change(key, old.get(key, "none"), new.get(key, "none")) for key in edited)
    yield _edit(what, _told(number, f"waiting job{words}", f"waiting jobs{words}"))


def _admits(allowed: frozenset[str], denied: frozenset[str], name: str) -> bool:
    return name in allowed if allowed else name not in denied


def _node_sets(declared: Declared, jobs: CountedJobs) -> Iterator[_Edit]:
    for name, now in jobs.node_sets.items():
        then = declared.node_sets.get(name)
        if then is None:
            fate = "its removal policy decides when they go"
            yield _Edit(f"node set {name} is removed", _leaving(now, 0, fate, jobs))
        elif then.replicas is not None and now.replicas is not None and then.replicas < now.replicas:
            what = f"node set {name}: replicas {now.replicas} → {then.replicas}"
            yield _Edit(what, _leaving(now, then.replicas, _fate(then.removal), jobs))


def _fate(removal: Removal) -> str:
    match removal.jobs:
        case JobsOfRemoved.WAIT:
            return "these nodes stay until their jobs have ended"
        case JobsOfRemoved.DEADLINE:
            return f"these nodes wait for {removal.deadline} at most"
        case JobsOfRemoved.FORCE:
            return "these nodes do not wait"


def _leaving(now: NodeSetJobs, kept: int, fate: str, jobs: CountedJobs) -> tuple[str, ...]:
    """Return what becomes of jobs on nodes whose ordinal is `kept` or higher."""
    if jobs.unknown:
        # Records of nodes tell it, however many jobs there are.
        busy = now.busy.between(kept - 1)
        return tuple(_told(busy, f"node that goes has jobs; {fate}", f"nodes that go have jobs; {fate}"))
    rows = [row for row in now.nodes if row.last >= kept]
    number = Number(sum(row.jobs for row in rows if row.first >= kept), sum(row.jobs for row in rows))
    ends = [row.until for row in rows if row.until is not None]
    until = f"until {_moment(max(ends))} at most" if ends and len(ends) == len(rows) else "some without a time limit"
    return tuple(
        _told(number, f"job runs on nodes that go, {until}; {fate}", f"jobs run on nodes that go, {until}; {fate}")
    )


def _sets(line: Line) -> list[str]:
    """Return a partition's node sets, whose names Slurm has as slurm_node_set() writes them."""
    return [name.removeprefix("ns_").replace("_", "-") for name in line.get("Nodes", "").split(",") if name]


def _listed(words: str | None) -> frozenset[str]:
    return frozenset((words or "").split(",")) - {""}


def _edit(what: str, *consequences: Iterator[str]) -> _Edit:
    return _Edit(what, tuple(sentence for told in consequences for sentence in told))


def _change(key: str, was: str, will_be: str) -> str:
    return f"{TYPED[key]} {was} → {will_be}"


def _minutes(time: str) -> float:
    """Return a time limit as Slurm counts it, rounded up."""
    seconds = slurm_seconds(time)
    return seconds if math.isinf(seconds) else math.ceil(seconds / 60)


def _count(words: str) -> float:
    return math.inf if words == _NO_LIMIT else int(words)


def _exactly(number: int) -> Number:
    return Number(number, number)


def _told(number: Number, one: str, many: str) -> Iterator[str]:
    """Yield a sentence about jobs, if there are any."""
    if number.most:
        yield f"{number} {one if number.most == 1 else many}"


def _moment(moment: datetime.datetime) -> str:
    return moment.astimezone(datetime.UTC).strftime("%Y-%m-%d %H:%M UTC")
