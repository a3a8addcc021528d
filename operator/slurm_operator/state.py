"""State that one pass of the operator observes, as plain values: the decisions take these and nothing else."""

from __future__ import annotations

import dataclasses
import datetime
import enum
from collections.abc import Mapping, Set

from contract import policies
from contract.policies import ReactionPolicy
from slurm_operator.accounts import Declared, Ledger


class EveryNode(frozenset[str]):
    """The nodes of a job whose host list can't be read: it may be on any node."""

    def __contains__(self, name: object) -> bool:
        return True

    def __and__(self, other: Set[object]) -> frozenset[str]:
        return frozenset(str(name) for name in other)

    __rand__ = __and__


EVERY_NODE = EveryNode()


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
    slurm.conf(5); None if it was not listed.
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


NOT_ASKED = Unknown("NotAsked", "jobs were not listed")


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
    """A reservation of slurmctld; `users` and `accounts` are lists of who may use it, as Slurm writes them."""

    name: str
    nodes: frozenset[str]
    starts: datetime.datetime
    ends: datetime.datetime
    users: str = ""
    accounts: str = ""
    flags: frozenset[str] = frozenset()


@dataclasses.dataclass(frozen=True, slots=True)
class TooDeep(Unknown):
    """The queue is too deep to list its jobs. That is no failure, and lasts."""


@dataclasses.dataclass(frozen=True, slots=True)
class Jobs:
    """Jobs that were read one by one; `complete`: all jobs of interest, not only those that do not plainly run."""

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


@dataclasses.dataclass(frozen=True, slots=True)
class Taint:
    """A taint of a Kubernetes node."""

    key: str
    effect: str
    value: str = ""


@dataclasses.dataclass(frozen=True, slots=True)
class Toleration:
    """Taints that a pod does not mind; an empty key or effect means every one."""

    key: str = ""
    effect: str = ""
    value: str = ""
    any_value: bool = False


@dataclasses.dataclass(frozen=True, slots=True)
class NodeCondition:
    """A condition of Kubernetes nodes that counts as a check.

    `fails_when` is the status that drains. `unknown_drains`: so does a status that nobody knows.
    """

    type: str
    fails_when: bool = True
    unknown_drains: bool = False


@dataclasses.dataclass(frozen=True, slots=True)
class K8sNode:
    """A Kubernetes node; `away_since` is when its kubelet was last heard of to be well, None while it is.

    `labels` are those that node sets make features, or places in topologies, of. `conditions` are type, status and
    reason of those that count as checks.
    """

    cordoned: bool = False
    taints: tuple[Taint, ...] = ()
    away_since: datetime.datetime | None = None
    labels: tuple[tuple[str, str], ...] = ()
    conditions: tuple[tuple[str, str, str], ...] = ()


@dataclasses.dataclass(frozen=True, slots=True)
class PodCondition:
    """A worker's pod condition. `since` is when `status` became so, as Kubernetes writes it."""

    status: str
    reason: str
    message: str = ""
    since: str = dataclasses.field(default="", compare=False)


@dataclasses.dataclass(frozen=True, slots=True)
class Pod:
    """A pod; `trouble` is a sentence about what keeps it from starting, empty if nothing does.

    `revision` is that of its StatefulSet's template. `k8s_node` is empty before the pod is scheduled.
    """

    name: str
    component: str
    ready: bool
    running: bool
    terminating: bool = False
    created: datetime.datetime | None = None
    trouble: str = ""
    revision: str = ""
    uid: str = ""
    k8s_node: str = ""
    tolerations: tuple[Toleration, ...] = ()
    evictable: bool = False
    slurm: PodCondition | None = None
    health: PodCondition | None = None

    @property
    def is_scheduled(self) -> bool:
        """True if Kubernetes has found a node for it."""
        return bool(self.k8s_node) or self.running


@dataclasses.dataclass(frozen=True, slots=True)
class Workload:
    """A StatefulSet or Deployment; `current` is true when its controller has acted on the latest generation.

    `revision` is that of its newest template, empty as long as it is not known. Of a set that is `on_delete` Kubernetes
    replaces no pod for a newer template. `facts` are what a worker's template declares, `weights` the first nodes'
    weight and how many nodes share one.
    """

    name: str
    replicas: int
    ready: int
    resource_version: str
    current: bool = True
    created: int = 0
    revision: str = ""
    on_delete: bool = False
    facts: Facts | None = None
    weights: tuple[int, int] | None = None

    @property
    def is_ready(self) -> bool:
        """True if all of its pods are ready, as far as Kubernetes is to replace them in the latest generation."""
        return self.current and self.ready >= self.replicas


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
    """A restart of an unfit node, decided at that time; `replace`: its pod is to leave its Kubernetes node."""

    node: str
    at: datetime.datetime
    replace: bool = False


@dataclasses.dataclass(frozen=True, slots=True)
class Place:
    """Where nodes of a set are in a topology: in a unit, or as values of labels of their Kubernetes nodes say."""

    name: str
    unit: str = ""
    labels: tuple[str, ...] = ()


@dataclasses.dataclass(frozen=True, slots=True)
class NodeSet:
    """A NodeSet resource; `replicas` is None when nobody has said how many.

    `finalizer_url` is the slurmrestd that was noted with our finalizer; None without one. `declared` is the program's
    number, None if it leaves that to others; `scaled_by` are those others who wrote the number that counts.
    `updating` are nodes that an update had taken and that did not work since, as its status remembers. `features` are
    those of its nodes beside its name, None if administrators give them. Labels of Kubernetes nodes give others.
    `conditions` of Kubernetes nodes count as checks of its nodes. `topology` is None if administrators place them.
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
    approved: frozenset[str] = frozenset()
    declared: int | None = None
    scaled_by: tuple[str, ...] = ()
    features: tuple[str, ...] | None = None
    feature_labels: tuple[str, ...] = ()
    conditions: tuple[NodeCondition, ...] = ()
    topology: tuple[Place, ...] | None = None

    @property
    def labels(self) -> frozenset[str]:
        """Keys of labels of Kubernetes nodes that its nodes' records depend on."""
        return frozenset([*self.feature_labels, *(key for place in self.topology or () for key in place.labels)])


@dataclasses.dataclass(frozen=True, slots=True)
class Cluster:
    """The SlurmCluster resource.

    `closed` are partitions that the operator closed to empty them, from its status. `administrators` and `appointed`,
    also from its status, are name → AdminLevel. `accounts` is None if it declares none; `ledger` is what its status
    says of them.
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


class Unread(enum.StrEnum):
    """Parts that a pass can do without, where the API server refuses to show them."""

    REST = "slurmrestd's Deployment"
    CONFIGURATION = "the configuration"
    LEDGER = "the ledger"


@dataclasses.dataclass(frozen=True, slots=True)
class Kubernetes:
    """One pass's state of Kubernetes; `accounting_words` says why slurmdbd is not ready, from its log.

    `unread` has the API server's words about what it refuses to show. The fields of that are None.
    """

    cluster: Cluster
    node_sets: tuple[NodeSet, ...]
    workloads: Mapping[str, Workload]
    rest: Workload | None
    pods: Mapping[str, Pod]
    desired_config: Mapping[str, str] | None
    active_config: Mapping[str, str] | None
    ledger_revision: str | None
    accounting_words: str = ""
    unread: Mapping[Unread, str] = dataclasses.field(default_factory=dict)


Nodes = Mapping[str, SlurmNode]
K8sNodes = Mapping[str, K8sNode]
