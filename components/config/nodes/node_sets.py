"""Configuration of node sets: groups of equal Slurm nodes, each a pod."""

import datetime
from collections.abc import Iterator
from enum import StrEnum
from typing import Annotated, Final

from components.config.model import Model, setting
from components.config.nodes.gpus import Gpus
from components.config.nodes.gres import Gres, gres_of_node, gres_violations, kinds_of_node, kubernetes_resources
from components.config.nodes.line_options import NodeOptionName, NodeOptionValue, line_violations, socket_violations
from components.config.nodes.network import NodeNetwork
from components.config.nodes.policy import Policy
from components.config.nodes.reactions import Reactions
from components.config.nodes.resources import NodeResources
from components.config.nodes.submounts import Submount, memory_of, too_much_memory
from components.config.pods.pod_options import POD_OPTIONS, NodePodOptions
from components.config.pods.resources import Toleration
from components.config.rule import Violation, rows_with, rule
from components.config.topologies import Place
from components.config.values.images import ImmutableImage
from components.config.values.object_names import Feature, LabelKey, LabelValue, SetName
from components.config.values.quantities import (
    Duration,
    WholeNumber,
    WindowStart,
    duration_seconds,
    memory_mib,
    nodes_or_percentage,
)
from contract import names, policies

CPU_WEIGHT = 100
GPU_WEIGHT = 1000
"""Slurm fills low weights first: jobs without GPUs stay off GPU nodes while others are free."""


LARGEST_SET: Final = 10_000


class JobsOfRemoved(StrEnum):
    """Treatment of jobs on nodes that are removed."""

    WAIT = "wait"
    DEADLINE = "deadline"
    FORCE = "force"


class Window(Policy):
    """A time span in which updates of a set's nodes may begin; a node whose update began finishes it."""

    start: WindowStart = setting(
        "When it opens: each week, such as `Sun 03:00`, or once, such as `2026-12-05T03:00Z`. Both are UTC."
    )
    duration: Duration = setting("How long it is open: 10m or more, and a weekly one a week at most.", unit="s, m or h")

    @rule
    def _duration(self) -> Iterator[Violation]:
        seconds = duration_seconds(self.duration)
        if seconds < policies.LEAST_WINDOW_SECONDS:
            want = f"{policies.LEAST_WINDOW_SECONDS // 60}m or more: no slurmd would be back before the window closes"
            yield Violation("duration", want=want)
        if self.once is None and seconds > policies.WEEK_SECONDS:
            yield Violation("duration", want="168h or less, a week: then the window opens anew")

    @property
    def once(self) -> datetime.datetime | None:
        """Return the moment at which the window opens; None for a weekly window."""
        return datetime.datetime.fromisoformat(self.start) if self.start.endswith("Z") else None

    def is_past(self, now: datetime.datetime) -> bool:
        """Return whether the window never opens again."""
        return self.once is not None and (now - self.once).total_seconds() >= duration_seconds(self.duration)


class Update(Policy):
    """Policy for updates: nodes move to a changed image, root or pod size, each when its jobs have ended."""

    max_unavailable: Annotated[int | str, nodes_or_percentage(LARGEST_SET)] = setting(
        "Nodes that an update may take out of service at once, or their percentage of the set's wanted size, such as "
        "25%, rounded up. Nodes that are out of service for another reason (a health check, a Kubernetes node, a "
        "person) don't count.",
        unit="nodes or percent",
        default=policies.MAX_UNAVAILABLE,
    )
    deadline: Duration | None = setting(
        "How long an update waits for a node's jobs; then they are taken from it, and requeued if they may be. Left "
        "out: as long as they run.",
        unit="s, m or h",
        default=None,
    )
    paused: bool = setting(
        "Whether nodes keep what they run now. Nodes that are drained already work again.", default=False
    )
    window: Window | None = setting(
        "When updates begin; left out: at any time. While nodes wait for it, a reservation in Slurm keeps them free of "
        "jobs that would run into it.",
        default=None,
    )


class Removal(Policy):
    """Policy for jobs on nodes that are removed, because the set gets smaller or is deleted."""

    jobs: JobsOfRemoved = setting(
        "wait: a node stays until its jobs have ended. deadline: they are taken from it when it has been drained for "
        "so long, and requeued if they may be (`--requeue`, the default). force: at once, and a deletion does not "
        "even ask Slurm.",
        default=JobsOfRemoved.WAIT,
    )
    deadline: Duration | None = setting(
        "How long nodes that are removed wait for their jobs. Required with jobs: deadline, refused without it.",
        unit="s, m or h",
        default=None,
    )

    @rule
    def _deadline(self) -> Iterator[Violation]:
        if (self.jobs is JobsOfRemoved.DEADLINE) != (self.deadline is not None):
            yield Violation("deadline", want="a duration such as 24h with jobs: deadline, and nothing without it")


class NodeSet(Model):
    """A group of equal nodes. Its name is also the prefix of the nodes' names, and a Slurm feature."""

    name: SetName = setting("Name of the set; its nodes are NAME-0, NAME-1 …")
    replicas: WholeNumber | None = setting(
        "Wanted number of nodes. Left out: `kubectl scale nodeset` or an autoscaler says it; a new set has one node.",
        default=None,
        ge=0,
        le=LARGEST_SET,
    )
    wait_for_nodes: bool = setting(
        "Whether `pulumi up` waits, when `replicas` changes, until that many nodes take jobs, for `timeouts.nodes` at "
        "most. Nodes that people drained are not waited for.",
        default=False,
    )
    resources: NodeResources = setting("CPUs and memory of each node.")
    gpus: Gpus | None = setting("GPUs of each node; left out: none.", default=None)
    gres: list[Gres] = setting("Generic resources of each node besides GPUs.", factory=list)
    network: NodeNetwork = setting("Networks of each node besides the pod network.", factory=NodeNetwork)
    submounts: list[Submount] = setting(
        "Paths of the jail that are each node's own, or another volume's; all jobs of a node share them.", factory=list
    )
    jail_image: ImmutableImage | None = setting(
        "Image of the root on these nodes alone, to try a new one on a few first. Left out: jail.image.", default=None
    )
    update: Update = setting("How nodes move to changed pods.", factory=Update)
    removal: Removal = setting("What happens to jobs on nodes that are removed.", factory=Removal)
    reactions: Reactions = setting("What the operator does about unfit nodes.", factory=Reactions)
    grace: Duration = setting(
        "How long jobs may run on when somebody deletes their pod. An eviction does not: it is refused.",
        unit="s, m or h",
        default="30s",
    )
    weight: WholeNumber | None = setting(
        f"Slurm's weight of the first nodes; low ones are filled first. Default: {CPU_WEIGHT}, with GPUs {GPU_WEIGHT}.",
        default=None,
        ge=1,
        le=4_000_000_000,
    )
    weight_bucket: WholeNumber = setting(
        "Nodes that share a weight: each further group, at most 16, is filled after the one before, so that the "
        "highest nodes fall idle first and a smaller set finds them free.",
        unit="nodes",
        default=8,
        ge=1,
        le=LARGEST_SET,
    )
    features: list[Feature] | None = setting(
        "Further features of its nodes, for `sbatch --constraint`, beside its name. A change takes effect at once. "
        "Left out: those that administrators give with scontrol stay.",
        default=None,
    )
    feature_labels: list[LabelKey] = setting(
        "Keys of labels of Kubernetes nodes. Each gives the Slurm nodes on them a feature of the key's last part and "
        "its value: topology.kubernetes.io/zone gives zone=a. Needs operator.watchNodes.",
        factory=list,
    )
    topology: list[Place] = setting(
        "Where its nodes are in slurm.topologies. A change takes effect at once, and jobs run on.", factory=list
    )
    options: dict[NodeOptionName, NodeOptionValue] = setting(
        "Further keys of its nodes' lines, as slurmd registers them; docs/slurm-keys.md lists them. A node changes "
        "with its next pod, when its jobs have ended.",
        factory=dict,
    )
    node_selector: dict[LabelKey, LabelValue] = setting("Labels of the Kubernetes nodes to run on.", factory=dict)
    tolerations: list[Toleration] = setting("Taints of Kubernetes nodes that the pods tolerate.", factory=list)
    pod: NodePodOptions = setting(POD_OPTIONS, factory=NodePodOptions)

    @rule
    def _name(self) -> Iterator[Violation]:
        if self.name.startswith(names.RESERVED_PREFIX):
            want = f"a name that does not start with {names.RESERVED_PREFIX}: those are the cluster's own objects"
            yield Violation("name", want=want)

    @rule
    def _wait_for_nodes(self) -> Iterator[Violation]:
        if self.wait_for_nodes and self.replicas is None:
            yield Violation("waitForNodes", want="a number of nodes in replicas beside it, or false")

    @rule
    def _options(self) -> Iterator[Violation]:
        kinds = rows_with(self.gpus.types, "per_node") if self.gpus else []
        gpus = sum(kind.per_node for _, kind in kinds)
        yield from line_violations(self.options, self.resources.cpu, self.job_memory_mib, gpus)

    @rule
    def _cores(self) -> Iterator[Violation]:
        if self.gpus is not None:
            yield from socket_violations(self.options, self.resources.cpu, self.gpus)

    @rule
    def _gres(self) -> Iterator[Violation]:
        yield from gres_violations(self.gpus, self.gres)

    @rule
    def _features(self) -> Iterator[Violation]:
        for at, written in (("features", self.features or []), ("featureLabels", self.feature_labels)):
            for index, feature in enumerate(written):
                if feature in written[:index]:
                    yield Violation(at, index, want="each of them once")

    @rule
    def _submounts(self) -> Iterator[Violation]:
        of = "what resources.memory leaves beside resources.reservedMemory"
        yield from too_much_memory(self.submounts, self.resources.pod_memory_mib, of)

    @property
    def job_memory_mib(self) -> int:
        """Memory that Slurm gives to jobs, in MiB (RealMemory). Files in a tmpfs outlive the job that wrote them."""
        own = self.resources
        return memory_mib(own.memory) - memory_mib(own.reserved_memory) - memory_of(self.submounts)

    @property
    def schedulable_memory_mib(self) -> int:
        """Memory that jobs of a node may have together: Slurm keeps MemSpecLimit of RealMemory for itself."""
        return self.job_memory_mib - self.options.get("MemSpecLimit", 0)

    @property
    def base_weight(self) -> int:
        """Slurm's weight of the first nodes of the set."""
        return self.weight or (GPU_WEIGHT if self.gpus else CPU_WEIGHT)

    @property
    def node_gres(self) -> str | None:
        """Slurm's Gres of a node, such as gpu:h100:8,shard:64."""
        return gres_of_node(self.gpus, self.gres)

    @property
    def gres_kinds(self) -> list[tuple[str, str | None]]:
        """Name and type of each generic resource of a node."""
        return kinds_of_node(self.gpus, self.gres)

    @property
    def device_resources(self) -> dict[str, int]:
        """Kubernetes resources of GPUs and other devices of a pod: name → count."""
        return kubernetes_resources(self.gpus, self.gres)

    @property
    def has_devices(self) -> bool:
        """Return whether Slurm gives device files of a node to jobs."""
        return self.gpus is not None or any(one.devices is not None for one in self.gres)
