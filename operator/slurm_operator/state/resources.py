"""The custom resources: SlurmCluster, and NodeSet with its policies."""

from __future__ import annotations

import dataclasses
import datetime
from collections.abc import Mapping

from contract import names, policies
from contract.policies import ReactionPolicy
from slurm_operator.accounts import Declared, Ledger


@dataclasses.dataclass(frozen=True, slots=True)
class NodeCondition:
    """A condition of Kubernetes nodes that counts as a check.

    `fails_when` is the status that drains. `unknown_drains`: so does a status that nobody knows.
    """

    type: str
    fails_when: bool = True
    unknown_drains: bool = False


@dataclasses.dataclass(frozen=True, slots=True)
class Window:
    """An update window: from `first` on for `duration`, and again each week if it is weekly."""

    first: datetime.datetime
    duration: datetime.timedelta
    weekly: bool = True


@dataclasses.dataclass(frozen=True, slots=True)
class UpdatePolicy:
    """A policy for updates to a changed template; `deadline_seconds` counts from a node's drain, None waits for ever.

    `percent` of the wanted nodes may be out of service for it in place of a number. `window` is None if they may at any
    time.
    """

    max_unavailable: int = policies.MAX_UNAVAILABLE
    deadline_seconds: int | None = None
    paused: bool = False
    percent: int | None = None
    window: Window | None = None

    def room(self, wanted: int) -> int:
        """Return how many of `wanted` nodes may be out of service at once, rounded up as maxUnavailable is."""
        return self.max_unavailable if self.percent is None else max(1, -(-wanted * self.percent // 100))


@dataclasses.dataclass(frozen=True, slots=True)
class RemovalPolicy:
    """Seconds that nodes to remove wait for their jobs after a drain, None for ever; `force`: deletion asks nobody."""

    deadline_seconds: int | None = None
    force: bool = False


@dataclasses.dataclass(frozen=True, slots=True)
class Restart:
    """A restart of an unfit node, decided at that time; `replace`: its pod is to leave its Kubernetes node.

    `uid` is that of the pod to end: another one is its successor, whatever the clocks say. Older operators note none.
    """

    node: str
    at: datetime.datetime
    replace: bool = False
    uid: str = dataclasses.field(default="", compare=False)


@dataclasses.dataclass(frozen=True, slots=True)
class Place:
    """Where nodes of a set are in a topology: in a unit, or as values of labels of their Kubernetes nodes say."""

    name: str
    unit: str = ""
    labels: tuple[str, ...] = ()


@dataclasses.dataclass(frozen=True, slots=True)
class KeptDrain:
    """A drain of another author than the operator, as a NodeSet's status keeps it."""

    node: str
    reason: str
    user: str


@dataclasses.dataclass(frozen=True, slots=True)
class NodeSet:
    """A NodeSet resource; `replicas` is None when nobody has said how many.

    `finalizer_url` is the slurmrestd that was noted with our finalizer; None without one. `declared` is the program's
    number, None if it leaves that to others; `scaled_by` are those others who wrote the number that counts.
    `updating` are nodes that an update had taken and that did not work since, as its status remembers. `features` are
    those of its nodes beside its name, None if administrators give them. Labels of Kubernetes nodes give others.
    `conditions` of Kubernetes nodes count as checks of its nodes. `topology` is None if administrators place them.
    `drains` are those of other authors, in whose place Slurm may put its own.
    """

    name: str
    cluster: str
    stateful_set: str
    replicas: int | None
    finalizer_url: str | None = None
    deleting: bool = False
    forced: bool = False
    removal: RemovalPolicy = dataclasses.field(default_factory=RemovalPolicy)
    update: UpdatePolicy = dataclasses.field(default_factory=UpdatePolicy)
    reactions: ReactionPolicy = dataclasses.field(default_factory=ReactionPolicy)
    restarts: tuple[Restart, ...] = ()
    updating: frozenset[str] = frozenset()
    drains: tuple[KeptDrain, ...] = ()
    approved: frozenset[str] = frozenset()
    declared: int | None = None
    scaled_by: tuple[str, ...] = ()
    features: tuple[str, ...] | None = None
    feature_labels: tuple[str, ...] = ()
    conditions: tuple[NodeCondition, ...] = ()
    topology: tuple[Place, ...] | None = None
    namespace: str = names.NAMESPACE

    @property
    def labels(self) -> frozenset[str]:
        """Keys of labels of Kubernetes nodes that its nodes' records depend on."""
        return frozenset([*self.feature_labels, *(key for place in self.topology or () for key in place.labels)])


@dataclasses.dataclass(frozen=True, slots=True)
class LongCheck:
    """A long check of the SlurmCluster; `drains`: a node that fails is drained, else it is only told of.

    Its nodes are due after `every_seconds`, or at the ticks of `schedule`, a cron line in UTC; the other one is 0 or
    empty. A job has `nodes`. After so many `passes` in a reservation a drained node returns; 0 leaves that to a person.
    `comes_first`: a new or repaired node takes jobs after it has passed. `needs` are its programs, in words, and
    `least` what it is to measure, such as 400 GB/s; empty for one that measures nothing.
    """

    name: str
    partition: str
    node_sets: tuple[str, ...]
    every_seconds: int
    limit_minutes: int
    share_percent: int
    drains: bool
    script: str
    nodes: int = 1
    passes: int = 0
    comes_first: bool = False
    needs: str = ""
    least: str = ""
    schedule: str = ""


@dataclasses.dataclass(frozen=True, slots=True)
class HangPolicy:
    """The policy for a partition's jobs that hang; `requeues`: they are queued again then, if they may be."""

    partition: str
    after_seconds: int
    requeues: bool


@dataclasses.dataclass(frozen=True, slots=True)
class Cluster:
    """The SlurmCluster resource.

    `closed` are partitions that the operator closed to empty them, from its status. `administrators` and `appointed`,
    also from its status, are name → AdminLevel. `login_sets` are StatefulSets of login nodes beside `login`. `accounts`
    is None if it declares none; `ledger` is what its status says of them. `requested_checks` are its annotations that
    ask for a long check: check → text.
    """

    name: str
    revision: str
    rest_url: str
    desired_config: str
    active_config: str
    controller: str
    rest: str
    login: str
    accounting: str = ""
    dry_run_url: str = ""
    closed: frozenset[str] = frozenset()
    administrators: Mapping[str, str] = dataclasses.field(default_factory=dict)
    appointed: Mapping[str, str] = dataclasses.field(default_factory=dict)
    accounts: Declared | None = None
    ledger: Ledger = dataclasses.field(default_factory=Ledger)
    long_checks: tuple[LongCheck, ...] = ()
    hangs: tuple[HangPolicy, ...] = ()
    login_sets: tuple[str, ...] = ()
    requested_checks: Mapping[str, str] = dataclasses.field(default_factory=dict)
    namespace: str = names.NAMESPACE

    def first_checks(self, node_set: str) -> tuple[str, ...]:
        """Return the long checks that a new or repaired node of a NodeSet passes before it takes jobs."""
        return tuple(check.name for check in self.long_checks if check.comes_first and node_set in check.node_sets)
