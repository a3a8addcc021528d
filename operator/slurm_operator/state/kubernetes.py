"""Kubernetes' objects as one pass sees them: pods, workloads and Kubernetes nodes."""

from __future__ import annotations

import dataclasses
import datetime
import enum
from collections.abc import Mapping

from slurm_operator.state.resources import Cluster, NodeSet
from slurm_operator.state.slurm import Facts


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
    weight and how many nodes share one. `refused` has the API server's words about pods that are not made.
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
    refused: str = ""

    @property
    def is_ready(self) -> bool:
        """True if all of its pods are ready, as far as Kubernetes is to replace them in the latest generation."""
        return self.current and self.ready >= self.replicas

    @property
    def is_rolled_out(self) -> bool:
        """True if all of a Deployment's pods are ready, and of its latest template."""
        return self.is_ready and self.created <= self.replicas


class Unread(enum.StrEnum):
    """Parts that a pass can do without, where the API server refuses to show them."""

    REST = "slurmrestd's Deployment"
    DRY_RUN = "the config dry run's Deployment"
    CONFIGURATION = "the configuration"
    LEDGER = "the ledger"
    EVENTS = "Events"


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
    dry_run: Workload | None = None
    unread: Mapping[Unread, str] = dataclasses.field(default_factory=dict)


K8sNodes = Mapping[str, K8sNode]
