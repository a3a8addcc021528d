"""Configuration of long checks: jobs that test idle nodes."""

from collections.abc import Iterator
from enum import StrEnum
from typing import Annotated, Final

from components.config.model import Model, setting
from components.config.rule import Violation, rule
from components.config.values.files import AbsolutePath
from components.config.values.object_names import PartitionName
from components.config.values.quantities import Duration, WholeNumber, duration_seconds
from components.config.values.schedules import Schedule, least_pause_seconds
from components.config.values.validation import matching

LEAST_EVERY_SECONDS: Final = 600
LEAST_BURN_MINUTES: Final = 2
MOST_NODES: Final = 64
CHECK_NAME: Final = "[a-z]([a-z0-9-]{0,30}[a-z0-9])?"
CheckName = Annotated[
    str, matching(CHECK_NAME, "at most 32 lower-case letters, digits and inner hyphens, a letter first")
]


class Builtin(StrEnum):
    """Checks that the program brings; docs/health.md says what each needs in the jail."""

    MEMORY_BANDWIDTH = "memory-bandwidth"
    DISK = "disk"
    NETWORK = "network"
    MPI_PING_PONG = "mpi-ping-pong"
    IB_WRITE_BW = "ib-write-bw"
    ALL_REDUCE = "all-reduce"
    NVBANDWIDTH = "nvbandwidth"
    GPU_BURN = "gpu-burn"
    DCGM_DIAG_1 = "dcgm-diag-1"
    DCGM_DIAG_2 = "dcgm-diag-2"
    DCGM_DIAG_3 = "dcgm-diag-3"

    @property
    def measures(self) -> bool:
        """Return whether it compares a bandwidth with a threshold."""
        return self is not Builtin.GPU_BURN and self not in DCGM_DIAGS

    @property
    def unit(self) -> str:
        """Return the unit of its threshold."""
        if self in (Builtin.MEMORY_BANDWIDTH, Builtin.ALL_REDUCE, Builtin.NVBANDWIDTH):
            return "GB/s"
        return "Gb/s" if self is Builtin.IB_WRITE_BW else "MB/s"

    @property
    def needs_gpus(self) -> bool:
        """Return whether it tests GPUs."""
        return self in (Builtin.ALL_REDUCE, Builtin.NVBANDWIDTH, Builtin.GPU_BURN, *DCGM_DIAGS)

    @property
    def nodes(self) -> range:
        """Return how many nodes its jobs may have."""
        if self is Builtin.ALL_REDUCE:
            return range(1, MOST_NODES + 1)
        pairs = (Builtin.NETWORK, Builtin.MPI_PING_PONG, Builtin.IB_WRITE_BW)
        return range(2, 3) if self in pairs else range(1, 2)

    def knows_products(self, nodes: int) -> bool:
        """Return whether health/thresholds has its threshold for some GPUs, on so many nodes."""
        return self is Builtin.NVBANDWIDTH or (self is Builtin.ALL_REDUCE and nodes == 1)


DCGM_DIAGS: Final = (Builtin.DCGM_DIAG_1, Builtin.DCGM_DIAG_2, Builtin.DCGM_DIAG_3)


class Reaction(StrEnum):
    """Reaction to a node that fails."""

    DRAIN = "drain"
    NOTE = "note"


def _is_in_memory(directory: str) -> bool:
    return f"{directory}/".startswith(("/tmp/", "/run/", "/dev/"))  # noqa: S108 - refused


class LongCheck(Model):
    """A job that tests idle nodes; see docs/health.md."""

    name: CheckName = setting("Its name in the reasons of drains.")
    partition: PartitionName = setting(
        "The partition whose nodes it tests, and to which its jobs are submitted. A partition of its own with the "
        "lowest priorityTier lets other jobs preempt them."
    )
    builtin: Builtin | None = setting("A check that the program brings.", default=None)
    script: AbsolutePath | None = setting(
        "A program in the jail, in place of builtin. It runs as the user nobody: 0 passes, 3 could not look, another "
        "exit status fails.",
        default=None,
    )
    nodes: WholeNumber = setting(
        "Nodes of each job. If one of several nodes fails, the operator finds it in further jobs.",
        default=1,
        ge=1,
        le=MOST_NODES,
    )
    least: WholeNumber | None = setting(
        "The bandwidth to reach. Required with a builtin that measures one, refused without it. On one node all-reduce "
        "and nvbandwidth have thresholds of their own for some GPUs.",
        unit="GB/s for memory-bandwidth, all-reduce and nvbandwidth, Gb/s for ib-write-bw, else MB/s",
        default=None,
        ge=1,
        le=1_000_000,
    )
    directory: AbsolutePath | None = setting(
        "A folder of the jail on the disk to test, in which user nobody may write, such as a submount. Required with "
        "the builtin disk, refused without it.",
        default=None,
    )
    every: Duration = setting("Time between two checks of a node: 10m or more.", unit="s, m or h", default="24h")
    schedule: Schedule | None = setting(
        "In place of every: a cron line in UTC, such as 0 3 * * *. A node is due once a tick has passed since its last "
        "check.",
        default=None,
    )
    time_limit: Duration = setting(
        "Time limit of a job, in whole minutes. A job that reaches it fails.", unit="s, m or h", default="10m"
    )
    share_percent: WholeNumber = setting(
        "Share of the partition's nodes that it tests at a time, rounded up.", unit="percent", default=10, ge=1, le=100
    )
    reaction: Reaction = setting("drain drains a node that fails; note only tells of it.", default=Reaction.DRAIN)
    return_after_passes: WholeNumber = setting(
        "Passes in a row after which a drained node returns. The operator tries it again in a reservation. 0 leaves "
        "the drain to a person.",
        default=2,
        ge=0,
        le=10,
    )

    before_jobs: bool = setting(
        "Whether a new or repaired node takes jobs only after it has passed. Needs nodes: 1 and reaction: drain.",
        default=False,
    )

    @property
    def minutes(self) -> int:
        """The time limit as Slurm counts it."""
        return duration_seconds(self.time_limit) // 60

    @rule
    def _program(self) -> Iterator[Violation]:
        given = [key for key in ("builtin", "script") if key in self.given]
        if len(given) != 1:
            yield Violation(want="exactly one of builtin and script", got=given or None)

    @rule
    def _least(self) -> Iterator[Violation]:
        measures = self.builtin is not None and self.builtin.measures
        if self.builtin is not None and measures and self.least is None and not self.builtin.knows_products(self.nodes):
            yield Violation("least", want=f"the {self.builtin.unit} that {self.builtin} must reach")
        elif not measures and self.least is not None:
            measuring = ", ".join(builtin for builtin in Builtin if builtin.measures)
            yield Violation("least", want=f"nothing: it is for the builtins {measuring}")

    @rule
    def _directory(self) -> Iterator[Violation]:
        if self.builtin is not Builtin.DISK and self.directory is not None:
            yield Violation("directory", want="nothing: it is for the builtin disk")
        elif self.builtin is Builtin.DISK and (self.directory is None or _is_in_memory(self.directory)):
            yield Violation("directory", want="a folder on the disk to test; /tmp, /run and /dev/shm are memory")

    @rule
    def _nodes(self) -> Iterator[Violation]:
        able = self.builtin.nodes if self.builtin is not None else range(1, MOST_NODES + 1)
        if self.nodes not in able:
            yield Violation("nodes", want=f"{able[0]}, as {self.builtin} needs")

    @rule
    def _before_jobs(self) -> Iterator[Violation]:
        if self.before_jobs and self.nodes != 1:
            yield Violation("beforeJobs", want="false, or nodes: 1: the nodes of a new cluster have no good partner")
        if self.before_jobs and self.reaction is not Reaction.DRAIN:
            yield Violation("beforeJobs", want="false, or reaction: drain: a node that fails would take jobs")

    @rule
    def _time_limit(self) -> Iterator[Violation]:
        if duration_seconds(self.time_limit) % 60:
            yield Violation("timeLimit", want="whole minutes, as Slurm counts them")
        elif self.builtin is Builtin.GPU_BURN and self.minutes < LEAST_BURN_MINUTES:
            want = f"{LEAST_BURN_MINUTES}m or more: gpu_burn takes 30 s to end, after half of this time"
            yield Violation("timeLimit", want=want)

    @rule
    def _every(self) -> Iterator[Violation]:
        if self.schedule is not None:
            return
        if duration_seconds(self.every) < LEAST_EVERY_SECONDS:
            yield Violation("every", want=f"{LEAST_EVERY_SECONDS // 60}m or more: nodes are there for other jobs")
        elif duration_seconds(self.every) <= duration_seconds(self.time_limit):
            yield Violation("every", want=f"more than timeLimit ({self.time_limit})")

    @rule
    def _schedule(self) -> Iterator[Violation]:
        if self.schedule is None:
            return
        pause = least_pause_seconds(self.schedule)
        if "every" in self.given:
            yield Violation("schedule", want=f"nothing beside every ({self.every}): one of the two")
        elif pause < LEAST_EVERY_SECONDS:
            want = f"times that are {LEAST_EVERY_SECONDS // 60}m or more apart: nodes are there for other jobs"
            yield Violation("schedule", want=want)
        elif pause <= duration_seconds(self.time_limit):
            yield Violation("schedule", want=f"times further apart than timeLimit ({self.time_limit})")
