"""Configuration of Slurm's partitions."""

from collections.abc import Iterator
from enum import StrEnum
from typing import Annotated

from pydantic import AfterValidator, BeforeValidator

from components.config.model import Model, setting
from components.config.nodes.hangs import Hangs
from components.config.rule import Violation, rule
from components.config.slurm_keys.partition_options import KEYS, refusal
from components.config.slurm_keys.slurm_options import OptionValue, quoted_text
from components.config.values.object_names import AccountName, DnsLabel, PartitionName, QosName
from components.config.values.quantities import SlurmMemory, SlurmTime, WholeNumber, memory_mib, slurm_seconds
from components.config.values.validation import matching

_MOST = 65533
"""The largest number that Slurm takes in 16 bits; those above have meanings."""
_MOST_NODES = 65536
"""MAX_SLURM_NODES of slurm.h."""


class PartitionState(StrEnum):
    """State of a partition: it takes jobs, or starts them; the values are those of State."""

    UP = "UP"
    DOWN = "DOWN"
    DRAIN = "DRAIN"
    INACTIVE = "INACTIVE"


class Exclusive(StrEnum):
    """Exclusive use of a job's nodes; the values are those of Exclusive."""

    NO = "NO"
    NODE = "NODE"
    USER = "USER"
    TOPO = "TOPO"


class PreemptMode(StrEnum):
    """Fate of a job that another one preempts; the values are those of a partition's PreemptMode."""

    OFF = "OFF"
    CANCEL = "CANCEL"
    REQUEUE = "REQUEUE"
    SUSPEND = "SUSPEND"


OverSubscribe = Annotated[
    str,
    BeforeValidator(quoted_text),
    matching(
        r"NO|YES(:([2-9]|[1-9]\d{1,3}))?|FORCE(:[1-9]\d{0,3})?",
        "NO, YES, YES:4 (2 or more jobs), FORCE or FORCE:4; exclusive: NODE says what EXCLUSIVE said",
    ),
]
OptionName = Annotated[str, AfterValidator(KEYS.check)]


class Partition(Model):
    """A Slurm partition."""

    name: PartitionName = setting("Name of the partition.")
    node_sets: list[DnsLabel] = setting("Node sets whose nodes are in it.", min_length=1)
    default: bool = setting("Whether jobs that name no partition go here.", default=False)
    state: PartitionState = setting(
        "Whether it takes jobs and starts them: UP both, DOWN takes them, DRAIN starts those that wait, INACTIVE none.",
        default=PartitionState.UP,
    )
    hidden: bool | None = setting("Whether squeue and sinfo leave it out unless asked for all.", default=None)
    max_time: SlurmTime = setting(
        "Longest run time of a job.", unit="days-hours:minutes:seconds, minutes, or UNLIMITED", default="UNLIMITED"
    )
    default_time: SlurmTime | None = setting(
        "Run time of jobs that name none. Left out: maxTime.",
        unit="days-hours:minutes:seconds, minutes, or UNLIMITED",
        default=None,
    )
    min_nodes: WholeNumber | None = setting("Fewest nodes of a job.", default=None, ge=0, le=_MOST_NODES)
    max_nodes: WholeNumber | None = setting(
        "Most nodes of a job. Left out: no limit.", default=None, ge=1, le=_MOST_NODES
    )
    priority_tier: WholeNumber | None = setting(
        "Jobs of higher tiers start first, and may preempt those of lower ones. Left out: 1.",
        default=None,
        ge=0,
        le=_MOST,
    )
    priority_job_factor: WholeNumber | None = setting(
        "Its factor in the priority of its jobs; see accounting.priority.weightPartition. Left out: 1.",
        default=None,
        ge=0,
        le=_MOST,
    )
    qos: QosName | None = setting("QOS whose limits hold for all of its jobs together.", default=None)
    allow_accounts: list[AccountName] = setting(
        "Accounts that may use it, with those below them. Left out: all.", factory=list
    )
    deny_accounts: list[AccountName] = setting("Accounts that may not, with those below them.", factory=list)
    allow_qos: list[QosName] = setting("QOS that its jobs may have. Left out: all.", factory=list)
    deny_qos: list[QosName] = setting("QOS that its jobs may not have.", factory=list)
    over_subscribe: OverSubscribe | None = setting(
        "Whether jobs share cores: NO, YES:N where jobs ask for it, FORCE:N always; N is the most jobs. Left out: NO.",
        default=None,
    )
    exclusive: Annotated[Exclusive, BeforeValidator(quoted_text)] | None = setting(
        "Who has a job's nodes to themselves: NODE the job, USER its user, TOPO the job with its part of the topology.",
        default=None,
    )
    preempt_mode: Annotated[PreemptMode, BeforeValidator(quoted_text)] | None = setting(
        "What happens to its jobs when one of a higher tier preempts them, with slurm.options.PreemptType: "
        "preempt/partition_prio. Left out: slurm.options.PreemptMode.",
        default=None,
    )
    grace_time: WholeNumber | None = setting(
        "How long a preempted job may run on after SIGTERM. Left out: 0.",
        unit="seconds",
        default=None,
        ge=0,
        le=4_294_967_293,
    )
    def_mem_per_cpu: SlurmMemory | None = setting(
        "Memory per CPU of jobs that name none. Left out: that of slurm.options, else the smallest share of a CPU "
        "on its nodes.",
        default=None,
    )
    def_mem_per_gpu: SlurmMemory | None = setting("Memory per GPU of jobs that name none.", default=None)
    def_mem_per_node: SlurmMemory | None = setting("Memory per node of jobs that name none.", default=None)
    max_mem_per_cpu: SlurmMemory | None = setting("Most memory per CPU of a job.", default=None)
    max_mem_per_node: SlurmMemory | None = setting("Most memory per node of a job.", default=None)
    def_cpu_per_gpu: WholeNumber | None = setting("CPUs per GPU of jobs that name none.", default=None, ge=1, le=_MOST)
    resume_timeout: WholeNumber | None = setting(
        "For so long Slurm waits for a node that it rebooted. Left out: slurm.options.ResumeTimeout.",
        unit="seconds",
        default=None,
        ge=1,
        le=_MOST,
    )
    hangs: Hangs | None = setting(
        "What is done about its jobs that hang. Left out: nothing, and nobody looks for them.", default=None
    )
    options: dict[OptionName, OptionValue] = setting(
        "Further keys of its line in slurm.conf; docs/slurm-keys.md lists them.", factory=dict
    )

    @rule
    def _options(self) -> Iterator[Violation]:
        for name, value in self.options.items():
            if want := refusal(name, value):
                yield Violation("options", name, want=want)

    @rule
    def _lists(self) -> Iterator[Violation]:
        for allowed, denied, what in (
            (self.allow_accounts, self.deny_accounts, "Accounts"),
            (self.allow_qos, self.deny_qos, "Qos"),
        ):
            if allowed and denied:
                yield Violation(f"deny{what}", want=f"nothing beside allow{what}: Slurm would ignore it")

    @rule
    def _no_time(self) -> Iterator[Violation]:
        for key, time in (("maxTime", self.max_time), ("defaultTime", self.default_time)):
            if time is not None and not slurm_seconds(time):
                yield Violation(key, want="more than 0, or UNLIMITED: no job could run")

    @rule
    def _times(self) -> Iterator[Violation]:
        if self.default_time is not None and slurm_seconds(self.default_time) > slurm_seconds(self.max_time):
            yield Violation("defaultTime", want=f"a time of at most maxTime ({self.max_time})")

    @rule
    def _nodes(self) -> Iterator[Violation]:
        if self.min_nodes is not None and self.max_nodes is not None and self.min_nodes > self.max_nodes:
            yield Violation("minNodes", want=f"at most maxNodes ({self.max_nodes})")

    @rule
    def _default_memory(self) -> Iterator[Violation]:
        given = [
            key
            for key, value in (
                ("defMemPerCpu", self.def_mem_per_cpu),
                ("defMemPerGpu", self.def_mem_per_gpu),
                ("defMemPerNode", self.def_mem_per_node),
            )
            if value is not None
        ]
        for key in given[1:]:
            yield Violation(key, want=f"nothing beside {given[0]}: Slurm takes one of them")

    @rule
    def _most_memory(self) -> Iterator[Violation]:
        if self.max_mem_per_cpu is not None and self.max_mem_per_node is not None:
            yield Violation("maxMemPerNode", want="nothing beside maxMemPerCpu: Slurm takes one of them")
        per_cpu, per_node = ("maxMemPerCpu", self.max_mem_per_cpu), ("maxMemPerNode", self.max_mem_per_node)
        for key, default, (of, most) in (
            ("defMemPerCpu", self.def_mem_per_cpu, per_cpu),
            ("defMemPerCpu", self.def_mem_per_cpu, per_node),
            ("defMemPerGpu", self.def_mem_per_gpu, per_node),
            ("defMemPerNode", self.def_mem_per_node, per_node),
        ):
            if default is not None and most is not None and memory_mib(default) > memory_mib(most):
                yield Violation(key, want=f"at most {of} ({most})")

    @rule
    def _sharing(self) -> Iterator[Violation]:
        alone = self.exclusive in (Exclusive.NODE, Exclusive.TOPO)
        if alone and self.over_subscribe not in (None, "NO"):
            yield Violation("overSubscribe", want=f"nothing, or NO, beside exclusive: {self.exclusive}")
