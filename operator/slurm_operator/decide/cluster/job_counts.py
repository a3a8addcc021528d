"""Counts jobs for the SlurmCluster's status: a summary whose size has a bound, however many jobs there are.

`pulumi preview` reads it to tell what an edit means for jobs (components/preflight/counted_jobs.py). Of up to
MOST_SPANS values each has its number of jobs. More of them are counted by spans, each from its least to its largest
value.
"""

from __future__ import annotations

import collections
import datetime
import itertools
from collections.abc import Iterable, Mapping, Sequence

from slurm_operator.decide.nodes import slurm_nodes
from slurm_operator.state.kubernetes import Kubernetes, Workload
from slurm_operator.state.resources import NodeSet
from slurm_operator.state.slurm import Census, Nodes, SlurmJob, Unknown
from slurm_operator.timestamps import timestamp

MOST_SPANS = 8
MOST_NAMES = 16
"""Accounts, or QOS, of a partition that are counted by name."""
MOST_PARTITIONS = 100
OTHERS = "*"
"""Name under which all other accounts, or QOS, of a partition are counted together."""
UNLIMITED = "UNLIMITED"
REPEATED_AFTER = datetime.timedelta(minutes=10)
"""Counts that stay as they are get a new time so often: an older time tells that nobody counts."""

_INFINITE = 4_294_967_295
"""Slurm's INFINITE (slurm.h): no time limit in minutes is as long."""
_Weighed = tuple[SlurmJob, int]
Counts = dict[str, object]


def summary(census: Census | Unknown, seen: Kubernetes, nodes: Nodes, now: datetime.datetime) -> Counts:
    """Return what the status says of jobs.

    Args:
        census: the jobs, or why they are not counted.
        seen: the node sets, with the size of their nodes.
        nodes: Slurm's nodes, which tell whether they have jobs however many jobs there are.
        now: when the jobs were counted.
    """
    jobs: Sequence[_Weighed] = census.jobs if isinstance(census, Census) else ()
    partitions, left_out = _partitions(jobs)
    places, busy = _places(jobs), _busy(nodes)
    counts: Counts = {
        "unknown": census.message if isinstance(census, Unknown) else "",
        "unread": 0 if isinstance(census, Unknown) else census.unread,
        "partitions": partitions,
        "partitionsLeftOut": left_out,
        "nodeSets": [
            {
                **_node_set(node_set, seen.workloads.get(node_set.stateful_set), places.get(node_set.name, ())),
                **({"busy": _written(of_set)} if (of_set := busy.get(node_set.name)) else {}),
            }
            for node_set in seen.node_sets
        ],
    }
    return {"countedAt": timestamp(now), **_without_empty(counts)}


def told(latest: Counts | None, before: Counts | None) -> Counts | None:
    """Return what the status is to say: the latest counts, unless those before say the same and are not old.

    Args:
        latest: what was counted last; None before the first count.
        before: what the status says.
    """
    if latest is None or before is None:
        return latest or before
    age = _moment(latest) - _moment(before)
    return before if age < REPEATED_AFTER and {**latest, "countedAt": ""} == {**before, "countedAt": ""} else latest


def spans(counted: Mapping[int, int]) -> list[tuple[int, int, int]]:
    """Return least value, largest value and number of a few spans that have all values.

    Args:
        counted: value → how many have it.
    """
    ordered = sorted(counted.items())
    if len(ordered) <= MOST_SPANS:
        return [(value, value, number) for value, number in ordered]
    share = -(-sum(counted.values()) // MOST_SPANS)
    rows: list[tuple[int, int, int]] = []
    least, total = ordered[0][0], 0
    for (value, number), after in itertools.zip_longest(ordered, ordered[1:]):
        total += number
        if total >= share or after is None:
            rows.append((least, value, total))
            least, total = after[0] if after else value, 0
    return rows


def _partitions(jobs: Sequence[_Weighed]) -> tuple[list[Counts], int]:
    """Return the counts of the partitions with most jobs, and how many partitions are left out."""
    running: dict[str, list[_Weighed]] = collections.defaultdict(list)
    waiting: dict[str, list[_Weighed]] = collections.defaultdict(list)
    for job, times in jobs:
        for partition in job.partitions:
            if _waits(job):
                waiting[partition].append((job, times))
            elif _runs(job):
                running[partition].append((job, times))
    partitions = running.keys() | waiting.keys()
    chosen = sorted(partitions, key=lambda name: (-_number(running[name]) - _number(waiting[name]), name))[
        :MOST_PARTITIONS
    ]
    rows: list[Counts] = [
        {
            "name": name,
            **({"running": _running(running[name])} if running[name] else {}),
            **({"waiting": _waiting(waiting[name])} if waiting[name] else {}),
        }
        for name in sorted(chosen)
    ]
    return rows, len(partitions) - len(rows)


def _waits(job: SlurmJob) -> bool:
    return "PENDING" in job.states or bool(job.states & {"REQUEUED", "REQUEUE_HOLD", "SPECIAL_EXIT"})


def _runs(job: SlurmJob) -> bool:
    return not _waits(job) and "COMPLETING" not in job.states


def _number(jobs: Iterable[_Weighed]) -> int:
    return sum(times for _, times in jobs)


def _running(jobs: Sequence[_Weighed]) -> Counts:
    sets: collections.Counter[str] = collections.Counter()
    for job, times in jobs:
        sets.update(dict.fromkeys({_set_and_ordinal(node)[0] for node in job.nodes} - {""}, times))
    return _without_empty(
        {
            "jobs": _number(jobs),
            "limits": _written(_counted((_limit(job), times) for job, times in jobs)),
            "nodeSets": dict(sorted(sets.items())),
        }
    )


def _waiting(jobs: Sequence[_Weighed]) -> Counts:
    return _without_empty(
        {
            "jobs": _number(jobs),
            "limits": _written(_counted((_limit(job), times) for job, times in jobs)),
            "nodes": _written(_counted((job.node_count, times) for job, times in jobs)),
            "cpus": _written(_counted((job.cpus_per_node, times) for job, times in jobs)),
            "memory": _written(_counted((job.memory_per_node, times) for job, times in jobs)),
            "accounts": _names((job.account, times) for job, times in jobs),
            "qos": _names((job.qos, times) for job, times in jobs),
        }
    )


def _places(jobs: Iterable[_Weighed]) -> dict[str, list[tuple[int, SlurmJob]]]:
    """Return by node set its running jobs, each with the highest ordinal of its nodes there."""
    places: dict[str, list[tuple[int, SlurmJob]]] = collections.defaultdict(list)
    for job, _ in jobs:
        highest: dict[str, int] = {}
        for name, ordinal in map(_set_and_ordinal, job.nodes if _runs(job) else ()):
            highest[name] = max(ordinal, highest.get(name, 0))
        for name, ordinal in highest.items():
            places[name].append((ordinal, job))
    return places


def _busy(nodes: Nodes) -> dict[str, collections.Counter[int]]:
    """Return by node set the ordinals of its nodes that have jobs."""
    busy: dict[str, collections.Counter[int]] = collections.defaultdict(collections.Counter)
    for node in filter(slurm_nodes.has_work, nodes.values()):
        name, ordinal = _set_and_ordinal(node.name)
        busy[name][ordinal] += 1
    return busy


def _node_set(node_set: NodeSet, workload: Workload | None, places: Sequence[tuple[int, SlurmJob]]) -> Counts:
    """Return a node set's size, and how many jobs run up to which of its nodes, and until when."""
    facts = workload.facts if workload else None
    kept = dict(facts.options).get("MemSpecLimit", 0) if facts else 0
    rows: list[Counts] = []
    for least, most, number in spans(collections.Counter(place for place, _ in places)):
        ends = [job.ends for place, job in places if least <= place <= most]
        known = [end for end in ends if end is not None]
        until = {"until": timestamp(max(known))} if len(known) == len(ends) else {}
        rows.append({"first": least, "last": most, "jobs": number, **until})
    return {
        "name": node_set.name,
        **({} if node_set.replicas is None else {"replicas": node_set.replicas}),
        **({"cpus": facts.cpus, "memory": facts.memory_mib - kept} if facts else {}),
        **({"nodes": rows} if rows else {}),
    }


def _set_and_ordinal(node: str) -> tuple[str, int]:
    """Return the set and the place of a node, whose name is its pod's; a node of nobody's is in no set."""
    name, _, ordinal = node.rpartition("-")
    return (name, int(ordinal)) if ordinal.isdecimal() else ("", 0)


def _limit(job: SlurmJob) -> int:
    return _INFINITE if job.limit_minutes is None else job.limit_minutes


def _counted(values: Iterable[tuple[int, int]]) -> collections.Counter[int]:
    counted: collections.Counter[int] = collections.Counter()
    for value, times in values:
        counted[value] += times
    return counted


def _written(counted: Mapping[int, int]) -> dict[str, int]:
    """Write spans as a status has them: 60, or 60-1440."""
    return {
        _word(least) if least == most else f"{_word(least)}-{_word(most)}": number
        for least, most, number in spans(counted)
    }


def _word(value: int) -> str:
    return UNLIMITED if value == _INFINITE else str(value)


def _names(values: Iterable[tuple[str, int]]) -> dict[str, int]:
    """Count the most frequent names by themselves; jobs without such a name are not counted."""
    counted: collections.Counter[str] = collections.Counter()
    for name, times in values:
        counted.update({name: times} if name else {})
    chosen = dict(sorted(counted.items(), key=lambda item: (-item[1], item[0]))[:MOST_NAMES])
    others = counted.total() - sum(chosen.values())
    return {**dict(sorted(chosen.items())), **({OTHERS: others} if others else {})}


def _without_empty(counts: Counts) -> Counts:
    return {key: value for key, value in counts.items() if value}


def _moment(counts: Counts) -> datetime.datetime:
    return datetime.datetime.fromisoformat(str(counts["countedAt"]))
