"""Configuration of the limits of users on login nodes."""

from components.config.model import Model, setting
from components.config.pods.resources import PodResources
from components.config.values.quantities import Cpu, Memory, WholeNumber, memory_bytes


class LoginLimits(Model):
    """Limits of one user on a login node, over all sessions. Jobs have Slurm's limits instead."""

    memory_per_user: Memory | None = setting(
        "Memory of one user. The kernel ends the largest process of a user who needs more. Default: half the node's.",
        unit="Kubernetes quantity",
        default=None,
    )
    cpu_per_user: Cpu | None = setting(
        "CPU of one user. Default: no limit, and equal shares while several users need CPU.",
        unit="Kubernetes CPU quantity",
        default=None,
    )
    processes_per_user: WholeNumber = setting("Processes and threads of one user.", default=1024, ge=16, le=1_000_000)

    def is_more_than(self, resources: PodResources) -> bool:
        """Return whether one user may have more memory than a login node has."""
        limit = self.memory_per_user
        return limit is not None and memory_bytes(limit) > memory_bytes(resources.memory)
