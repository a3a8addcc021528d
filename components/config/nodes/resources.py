"""Configuration of what each node of a set has: CPUs, memory, processes."""

from collections.abc import Iterator

from components.config.model import Model, setting
from components.config.rule import Violation, rule
from components.config.values.quantities import Cpu, Memory, PageSize, WholeNumber, cpu_millis, memory_bytes

_MOST_PROCESSES = 2**22
"""PID_MAX_LIMIT of Linux."""


class NodeResources(Model):
    """Resources of each node of the set."""

    cpu: WholeNumber = setting("CPUs that Slurm schedules on a node, and the pod's limit.", ge=1, le=65533)
    memory: Memory = setting("Memory of the pod: for jobs and for what is reserved.", unit="Kubernetes quantity")
    reserved_memory: Memory = setting(
        "Part of memory that jobs don't get: slurmd, and up to 32Mi beside each job for its slurmstepd (cgroup v2).",
        unit="Kubernetes quantity",
        default="256Mi",
    )
    shared_memory: Memory | None = setting(
        "Size of /dev/shm, through which MPI and NCCL pass data inside a node (NCCL: 1Gi or more). Default: "
        "jail.tmpSize.",
        unit="Kubernetes quantity",
        default=None,
    )
    hugepages: dict[PageSize, Memory] = setting(
        "Huge pages for jobs, by their size, such as 2Mi: 8Gi. They come beside memory, and Slurm does not divide them "
        "among jobs.",
        unit="Kubernetes quantity",
        factory=dict,
    )
    processes: WholeNumber = setting(
        "Processes and threads that all jobs of a node may have together, on cgroup v2; one job may have half of them. "
        "Keep it below the kubelet's podPidsLimit, so that the pod's own programs start whatever jobs do.",
        default=65_536,
        ge=64,
        le=_MOST_PROCESSES,
    )
    cpu_request: Cpu | None = setting(
        "CPU that Kubernetes keeps for the pod. Left out: cpu. Less shares a Kubernetes node's CPUs, for development.",
        unit="Kubernetes CPU quantity",
        default=None,
    )

    @property
    def pod_memory_mib(self) -> int:
        """Memory for jobs and submounts, in MiB."""
        return (memory_bytes(self.memory) - memory_bytes(self.reserved_memory)) // 2**20

    @rule
    def _hugepages(self) -> Iterator[Violation]:
        for size, amount in self.hugepages.items():
            if memory_bytes(amount) % memory_bytes(size):
                yield Violation("hugepages", size, want=f"a multiple of {size}")

    @rule
    def _memory(self) -> Iterator[Violation]:
        if self.pod_memory_mib < 1:
            want = f"more than resources.reservedMemory ({self.reserved_memory}): nothing would be left for jobs"
            yield Violation("memory", want=want)

    @property
    def shares_cpus(self) -> bool:
        """Return whether Kubernetes keeps fewer CPUs for the pod than Slurm schedules."""
        return self.cpu_request is not None and cpu_millis(self.cpu_request) < self.cpu * 1000
