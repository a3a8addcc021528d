"""Slurm's nodes, jobs and reservations as one pass reads them from slurmctld."""

from __future__ import annotations

import dataclasses
import datetime
from collections.abc import Iterable, Mapping, Set

from contract.conditions import Reason


@dataclasses.dataclass(frozen=True, slots=True)
class SeenCheckJob:
    """A job as slurmctld has it, as far as it tells whose it is and how it ended.

    `nodes` are those that it asked for. `status` is its exit status, None without one. `held`: nobody released it.
    `comment` is what it reports (contract/check_reports.py).
    """

    name: str
    user_id: int
    nodes: frozenset[str]
    states: frozenset[str]
    status: int | None = None
    held: bool = False
    comment: str = ""


@dataclasses.dataclass(frozen=True, slots=True)
class SeenQuietJob:
    """A job that a node noted as quiet.

    `resumed` is when it began to run, or was suspended or resumed last. `excluded` are nodes that it does not take.
    `requeues`: it may be queued again. `comment` is its AdminComment. `held`: nobody released it.
    """

    job_id: int
    states: frozenset[str]
    partition: str
    nodes: frozenset[str]
    resumed: datetime.datetime | None = None
    requeues: bool = False
    excluded: frozenset[str] = frozenset()
    node_count: int = 1
    comment: str = ""
    held: bool = False


class EveryNode(frozenset[str]):
    """The nodes of a job or reservation whose host list can't be read: it may have any node."""

    def __contains__(self, name: object) -> bool:
        return True

    def __and__(self, other: Set[object]) -> frozenset[str]:
        return frozenset(str(name) for name in other)

    __rand__ = __and__


EVERY_NODE = EveryNode()


def all_of(sets: Iterable[frozenset[str]]) -> frozenset[str]:
    """Return the nodes of all sets; EVERY_NODE if it is one of them."""
    given = tuple(sets)
    return EVERY_NODE if any(nodes is EVERY_NODE for nodes in given) else frozenset().union(*given)


@dataclasses.dataclass(frozen=True, slots=True)
class Facts:
    """A node's size: what slurmctld takes from the registration that makes a record, and from no later one.

    `options` are further keys of its line in slurm.conf: those that a template declares, or all that a record shows.
    """

    cpus: int
    memory_mib: int
    gres: str = ""
    options: tuple[tuple[str, int], ...] = ()


@dataclasses.dataclass(frozen=True, slots=True)
class SlurmNode:
    """A node record of slurmctld; `states` is the base state with its flags, as slurmrestd lists them.

    `started` is when its slurmd did, by the node's clock; None before it ever registered. `reason_set`: when its reason
    was set. `busy`: a job that may have processes is there, as far as jobs were looked at. `facts`: what its record
    says. `allocated_memory` (MiB) is that of running and suspended jobs. `topology` is its place in topologies, as in
    slurm.conf(5); None if it was not listed. `replaced_by` is what stands there instead of `reason`.
    """

    name: str
    states: frozenset[str]
    reason: str = ""
    reason_user: str = ""
    allocated_cpus: int = 0
    started: datetime.datetime | None = None
    reason_set: datetime.datetime | None = None
    comment: str = ""
    busy: bool = False
    facts: Facts | None = None
    allocated_memory: int = 0
    features: frozenset[str] | None = None
    weight: int | None = None
    extra: str = ""
    topology: str | None = None
    replaced_by: str = ""


@dataclasses.dataclass(frozen=True, slots=True)
class SlurmJob:
    """A job as slurmctld has it; `nodes` are those that it was given; one that `requeues` outlives their loss.

    `names` are nodes that its user asked for or excluded: it can't do without their records. `ends` is when its time
    limit ends it, None if it has none or does not run. `node_count` is how many nodes it asks for, `waits_for` Slurm's
    reason why it does not run. `limit_minutes` is its time limit, None without one. On each node it
    needs at least `cpus_per_node` and `memory_per_node` (MiB).
    """

    job_id: int
    states: frozenset[str]
    partitions: frozenset[str]
    nodes: frozenset[str]
    requeues: bool = False
    names: frozenset[str] = frozenset()
    ends: datetime.datetime | None = None
    node_count: int = 1
    waits_for: str = ""
    limit_minutes: int | None = None
    account: str = ""
    qos: str = ""
    cpus_per_node: int = 1
    memory_per_node: int = 0


@dataclasses.dataclass(frozen=True, slots=True)
class Running:
    """The settings that slurmctld runs with; `started` is by its own clock, `parameters` are SlurmctldParameters.

    `communication` are the words of its CommunicationParameters. `counts_memory`: each job takes memory of its nodes.
    """

    parameters: str
    started: datetime.datetime
    communication: frozenset[str] = frozenset()
    counts_memory: bool = False


@dataclasses.dataclass(frozen=True, slots=True)
class Unknown:
    """Slurm could not be read: no decision may rest on its state."""

    reason: str
    message: str


NOT_ASKED = Unknown(Reason.NOT_ASKED, "jobs were not listed")


@dataclasses.dataclass(frozen=True, slots=True)
class Named:
    """Nodes that a running or waiting job names, or a reservation of now or later.

    `awaited` leaves out nodes that only the jobs on them name, or only the operator's own reservation for updates.
    `jobs` are those that name a node, for words.
    """

    by_any: frozenset[str]
    awaited: frozenset[str]
    jobs: tuple[SlurmJob, ...] = dataclasses.field(default=(), compare=False)


@dataclasses.dataclass(frozen=True, slots=True)
class Reservation:
    """A reservation of slurmctld; `users` and `accounts` are lists of who may use it, as Slurm writes them.

    `unread` is why its nodes can't be read, which may be any; empty if they can.
    """

    name: str
    nodes: frozenset[str]
    starts: datetime.datetime
    ends: datetime.datetime
    users: str = ""
    accounts: str = ""
    flags: frozenset[str] = frozenset()
    unread: str = ""


@dataclasses.dataclass(frozen=True, slots=True)
class TooDeep(Unknown):
    """The queue is too deep to list its jobs. That is no failure, and lasts."""


@dataclasses.dataclass(frozen=True, slots=True)
class Jobs:
    """Jobs that were read one by one.

    `complete` is False if there were too many to read. Then those that only run or configure are missing.
    """

    jobs: tuple[SlurmJob, ...]
    complete: bool = True


@dataclasses.dataclass(frozen=True, slots=True)
class Census:
    """All jobs that wait or run, each with how many it stands for; `unread` more of them were not looked at yet."""

    jobs: tuple[tuple[SlurmJob, int], ...]
    unread: int = 0


@dataclasses.dataclass(frozen=True, slots=True)
class FullListing:
    """A full listing of nodes, made after the pass had seen a drain, and a later listing of jobs.

    `named` is None unless all jobs and reservations were looked at: then no record may be deleted. `complete`: `jobs`
    has all jobs that may have processes. Else the nodes' records show them (decide/node_sets/full_listing.py).
    """

    nodes: Mapping[str, SlurmNode]
    jobs: tuple[SlurmJob, ...]
    named: Named | None = None
    complete: bool = True


Nodes = Mapping[str, SlurmNode]
