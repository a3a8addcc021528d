"""The history of a run: a file with a JSON object per line, and its records. Pure, except for the reading."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

CANARY = "canary-"
"""Prefix of the names of canaries: jobs that must end well."""
HEADLINE = "message"
"""Stands among a resource's conditions for status.message."""
ENDED = frozenset(
    {"COMPLETED", "CANCELLED", "FAILED", "TIMEOUT", "NODE_FAIL", "PREEMPTED", "BOOT_FAIL", "DEADLINE", "OUT_OF_MEMORY"}
    | {"REVOKED", "LAUNCH_FAILED", "RECONFIG_FAIL"}
)
"""States in which a job stays."""


@dataclass(frozen=True, slots=True)
class Condition:
    """A condition of a custom resource."""

    status: str
    reason: str
    message: str


@dataclass(frozen=True, slots=True)
class Pod:
    """The fields of a pod that the rules need."""

    uid: str
    component: str
    ready: bool
    ending: bool
    restarts: int


@dataclass(frozen=True, slots=True)
class Kubernetes:
    """A look at the API server.

    Attributes:
        at: seconds since the epoch.
        pods: by name.
        conditions: by "Kind/name", then by type.
        holder: who holds the operator's lease; empty if nobody does.
        unready: workloads with fewer ready pods than asked for, in words.
        node_problems: what is wrong with Kubernetes nodes, in words.
    """

    at: float
    pods: Mapping[str, Pod]
    conditions: Mapping[str, Mapping[str, Condition]]
    holder: str
    unready: tuple[str, ...] = ()
    node_problems: tuple[str, ...] = ()

    def lines(self) -> list[str]:
        """Return a line for each condition and one for the lease, as `Kind.told` matches them."""
        rows = [
            f"{title} {kind}={condition.status} {condition.reason} {condition.message}"
            for title, conditions in self.conditions.items()
            for kind, condition in conditions.items()
        ]
        return [*rows, f"Lease holder={self.holder}"]


@dataclass(frozen=True, slots=True)
class Node:
    """A Slurm node's record."""

    states: frozenset[str]
    reason: str
    user: str


@dataclass(frozen=True, slots=True)
class Job:
    """A job, or a task of an array; times are seconds since the epoch, 0 where Slurm has none."""

    id: str
    name: str
    state: str
    nodes: tuple[str, ...]
    start: float
    end: float

    @property
    def has_ended(self) -> bool:
        """Return whether the job has reached a final state."""
        return self.state in ENDED


@dataclass(frozen=True, slots=True)
class Slurm:
    """A look at slurmctld."""

    at: float
    nodes: Mapping[str, Node]
    jobs: tuple[Job, ...]


@dataclass(frozen=True, slots=True)
class Line:
    """A line with its time: of an Event, or of a pod's log."""

    at: float
    text: str
    pod: str = ""


@dataclass(slots=True)
class Injected:
    """A fault that took place: the times at which its begin and its end were started and were done."""

    number: int
    kind: str
    target: str
    began: float
    done: float = 0.0
    over: float = 0.0
    note: Mapping[str, str] = field(default_factory=dict)
    trouble: str = ""


@dataclass(frozen=True, slots=True)
class Canary:
    """A job that must end well; `sure` tells whether sbatch answered with its id."""

    at: float
    name: str
    tasks: int
    sure: bool


@dataclass(slots=True)
class History:
    """All records of a run, each list in the order of time."""

    seed: int = 0
    minutes: int = 0
    planned: int = 0
    nodes: tuple[str, ...] = ()
    finished: float = 0.0
    kubernetes: list[Kubernetes] = field(default_factory=list)
    slurm: list[Slurm] = field(default_factory=list)
    events: list[Line] = field(default_factory=list)
    logs: list[Line] = field(default_factory=list)
    faults: dict[int, Injected] = field(default_factory=dict)
    canaries: list[Canary] = field(default_factory=list)
    printed: dict[str, list[list[str]]] = field(default_factory=dict)
    accounts: dict[str, tuple[str, str]] = field(default_factory=dict)

    @property
    def last_end(self) -> float:
        """Return the end of the last fault."""
        return max((fault.over or fault.began for fault in self.faults.values()), default=0.0)


def read(file: Path) -> History:
    """Read the history that a run wrote.

    Raises:
        ValueError: it is no such file; the sentence says which line.
    """
    with file.open() as lines:
        return parse(lines, str(file))


def parse(lines: Iterable[str], title: str = "history") -> History:
    """Records of lines, in the order of time.

    Raises:
        ValueError: a line is none of a run's; the sentence says which.
    """
    history = History()
    for number, line in enumerate(lines, 1):
        try:
            row = json.loads(line)
            add(history, row)
        except (ValueError, LookupError, TypeError, AttributeError) as error:
            raise ValueError(f"{title}, line {number}, is not what bench.faults wrote: {error!r}") from error
    if not history.kubernetes and not history.slurm:
        raise ValueError(f"{title} holds no look at a cluster")
    for rows in (history.kubernetes, history.slurm, history.events, history.logs):
        rows.sort(key=lambda row: row.at)
    return history


def add(history: History, row: Mapping[str, Any]) -> None:
    """Add a record in the file's form."""
    fields = {key: value for key, value in row.items() if key != "record"}
    match row["record"]:
        case "run":
            history.seed, history.minutes, history.planned = row["seed"], row["minutes"], row["planned"]
            history.nodes = tuple(row["nodes"])
        case "kubernetes":
            history.kubernetes.append(kubernetes(fields))
        case "slurm":
            history.slurm.append(slurm(fields))
        case "event":
            history.events.append(Line(**fields))
        case "log":
            history.logs.append(Line(**fields))
        case "begin":
            history.faults[row["number"]] = Injected(**fields)
        case "begun" | "end":
            fault = history.faults[row["number"]]
            for key in fields.keys() - {"number"}:
                setattr(fault, key, fields[key])
        case "canary":
            history.canaries.append(Canary(**fields))
        case "printed":
            history.printed.setdefault(row["name"], []).append(row["lines"])
        case "account":
            history.accounts[row["id"]] = row["name"], row["state"]
        case "finished":
            history.finished = row["at"]
        case "blind":
            pass
        case other:
            raise ValueError(f"unknown record {other!r}")


def kubernetes(row: Mapping[str, Any]) -> Kubernetes:
    """Return a look at the API server from the file's form."""
    conditions = {
        title: {kind: Condition(*fields) for kind, fields in rows.items()} for title, rows in row["conditions"].items()
    }
    return Kubernetes(
        row["at"],
        {name: Pod(**pod) for name, pod in row["pods"].items()},
        conditions,
        row["holder"],
        tuple(row["unready"]),
        tuple(row["node_problems"]),
    )


def slurm(row: Mapping[str, Any]) -> Slurm:
    """Return a look at slurmctld from the file's form."""
    nodes = {name: Node(frozenset(node["states"]), node["reason"], node["user"]) for name, node in row["nodes"].items()}
    jobs = tuple(Job(**{**job, "nodes": tuple(job["nodes"])}) for job in row["jobs"])
    return Slurm(row["at"], nodes, jobs)
