"""Counts of jobs as the operator writes them into a SlurmCluster's status (its decide/cluster/job_counts.py)."""

import datetime
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

OTHERS: Final = "*"
"""Stands for the accounts, or QOS, that are not counted by name."""
_UNLIMITED: Final = "UNLIMITED"


@dataclass(frozen=True, slots=True)
class Number:
    """A number of jobs, from `least` to `most`: counts of spans tell no more. Both are equal if it is exact."""

    least: int = 0
    most: int = 0

    def __add__(self, other: "Number") -> "Number":
        return Number(self.least + other.least, self.most + other.most)

    def __str__(self) -> str:
        if self.least == self.most:
            return str(self.least)
        return f"{self.least} to {self.most}" if self.least else f"up to {self.most}"


@dataclass(frozen=True, slots=True)
class Span:
    """Jobs whose values are from `least` to `most`."""

    least: float
    most: float
    jobs: int


@dataclass(frozen=True, slots=True)
class Spans:
    """Jobs by a value that each of them has."""

    spans: tuple[Span, ...] = ()

    def between(self, above: float, most: float = math.inf, doubtful: float | None = None) -> Number:
        """Return how many jobs have a value above one, and at most another.

        Args:
            above: The one.
            most: The other.
            doubtful: A value that may not be the job's own.
        """
        sure = [span for span in self.spans if above < span.least and span.most <= most]
        sure = [span for span in sure if doubtful is None or not span.least <= doubtful <= span.most]
        possible = [span for span in self.spans if above < span.most and span.least <= most]
        return Number(sum(span.jobs for span in sure), sum(span.jobs for span in possible))


@dataclass(frozen=True, slots=True)
class RunningJobs:
    """Jobs that run in a partition.

    Attributes:
        jobs: How many.
        limits: By time limit in minutes.
        node_sets: Node set → jobs on its nodes; a job counts in each of its sets.
    """

    jobs: int = 0
    limits: Spans = Spans()
    node_sets: Mapping[str, int] = field(default_factory=dict)

    def on(self, sets: Sequence[str]) -> Number:
        """Return how many run on nodes of these sets."""
        counted = [self.node_sets.get(name, 0) for name in sets]
        return Number(max(counted, default=0), min(sum(counted), self.jobs))


@dataclass(frozen=True, slots=True)
class WaitingJobs:
    """Jobs that wait in a partition.

    Attributes:
        jobs: How many.
        limits: By time limit in minutes.
        nodes: By the number of nodes that they ask for.
        cpus: By CPUs that they need on each node.
        memory: By MiB that they need on each node.
        accounts: Account → jobs.
        qos: QOS → jobs.
    """

    jobs: int = 0
    limits: Spans = Spans()
    nodes: Spans = Spans()
    cpus: Spans = Spans()
    memory: Spans = Spans()
    accounts: Mapping[str, int] = field(default_factory=dict)
    qos: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class PartitionJobs:
    """Jobs of a partition."""

    running: RunningJobs = RunningJobs()
    waiting: WaitingJobs = WaitingJobs()


@dataclass(frozen=True, slots=True)
class NodesJobs:
    """Running jobs whose highest node in a set has an ordinal from `first` to `last`.

    Attributes:
        first: Lowest ordinal.
        last: Highest ordinal.
        jobs: How many.
        until: When the last of them reaches its time limit; None if one has no limit.
    """

    first: int
    last: int
    jobs: int
    until: datetime.datetime | None = None


@dataclass(frozen=True, slots=True)
class NodeSetJobs:
    """A node set as it is now, and its running jobs.

    Attributes:
        replicas: Wanted number of nodes; None if nobody said it.
        cpus: CPUs of a node; None if unknown.
        memory_mib: Memory of a node for jobs; None if unknown.
        nodes: Its jobs by ordinals.
        busy: Its nodes that have jobs, by ordinal.
    """

    replicas: int | None = None
    cpus: int | None = None
    memory_mib: int | None = None
    nodes: tuple[NodesJobs, ...] = ()
    busy: Spans = Spans()


@dataclass(frozen=True, slots=True)
class CountedJobs:
    """Counts of a cluster's jobs.

    Attributes:
        counted_at: When they were counted; None if they never were.
        unknown: Why they are not counted; empty if they are.
        unread: Jobs that are not counted yet.
        partitions: Partitions with jobs.
        left_out: Further partitions with jobs.
        node_sets: The node sets.
    """

    counted_at: datetime.datetime | None = None
    unknown: str = ""
    unread: int = 0
    partitions: Mapping[str, PartitionJobs] = field(default_factory=dict)
    left_out: int = 0
    node_sets: Mapping[str, NodeSetJobs] = field(default_factory=dict)

    def of(self, partition: str) -> PartitionJobs | None:
        """Return the jobs of a partition; None if they are not known."""
        missing = None if self.unknown or self.left_out else PartitionJobs()
        return self.partitions.get(partition, missing)


def read(status: Mapping[str, Any]) -> CountedJobs:
    """Return the counts that a SlurmCluster's status has.

    Raises:
        ValueError: They have another shape.
        KeyError: They lack something.
    """
    jobs = status.get("jobs")
    if jobs is None:
        return CountedJobs(unknown="the operator has not counted them yet")
    return CountedJobs(
        counted_at=datetime.datetime.fromisoformat(jobs["countedAt"]),
        unknown=jobs.get("unknown", ""),
        unread=jobs.get("unread", 0),
        partitions={item["name"]: _partition(item) for item in jobs.get("partitions", ())},
        left_out=jobs.get("partitionsLeftOut", 0),
        node_sets={item["name"]: _node_set(item) for item in jobs.get("nodeSets", ())},
    )


def _partition(item: Mapping[str, Any]) -> PartitionJobs:
    running, waiting = item.get("running", {}), item.get("waiting", {})
    return PartitionJobs(
        RunningJobs(running.get("jobs", 0), _spans(running.get("limits", {}), _minutes), running.get("nodeSets", {})),
        WaitingJobs(
            jobs=waiting.get("jobs", 0),
            limits=_spans(waiting.get("limits", {}), _minutes),
            nodes=_spans(waiting.get("nodes", {}), int),
            cpus=_spans(waiting.get("cpus", {}), int),
            memory=_spans(waiting.get("memory", {}), int),
            accounts=waiting.get("accounts", {}),
            qos=waiting.get("qos", {}),
        ),
    )


def _node_set(item: Mapping[str, Any]) -> NodeSetJobs:
    return NodeSetJobs(
        item.get("replicas"),
        item.get("cpus"),
        item.get("memory"),
        tuple(
            NodesJobs(row["first"], row["last"], row["jobs"], _moment(row.get("until")))
            for row in item.get("nodes", ())
        ),
        _spans(item.get("busy", {}), int),
    )


def _spans(written: Mapping[str, int], value: Callable[[str], float]) -> Spans:
    rows = []
    for words, jobs in written.items():
        least, _, most = words.partition("-")
        rows.append(Span(value(least), value(most or least), jobs))
    return Spans(tuple(rows))


def _minutes(word: str) -> float:
    return math.inf if word == _UNLIMITED else int(word)


def _moment(text: str | None) -> datetime.datetime | None:
    return None if text is None else datetime.datetime.fromisoformat(text)
