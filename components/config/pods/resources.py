"""Configuration of pods that run no jobs."""

from typing import Any

from components.config.model import Model, setting
from components.config.values.object_names import LabelKey, LabelValue
from components.config.values.quantities import Cpu, Memory


def _cpu(default: str) -> Any:
    return setting("CPU that is kept for the pod; it may use more.", unit="Kubernetes CPU quantity", default=default)


def _memory(default: str) -> Any:
    return setting("Memory that the pod gets, and may not exceed.", unit="Kubernetes quantity", default=default)


class PodResources(Model):
    """Resource requests of a pod; those of another pod have defaults of their own, for each key by itself."""

    cpu: Cpu = _cpu("100m")
    memory: Memory = _memory("256Mi")


class SidecarResources(PodResources):
    """Those of a container of the site's: little, since nobody knows what it does."""

    cpu: Cpu = _cpu("10m")
    memory: Memory = _memory("64Mi")


class ControllerResources(PodResources):
    """Those of slurmctld, which held 22 MB with 1,000 nodes; its memory grows with the job queue."""

    cpu: Cpu = _cpu("250m")
    memory: Memory = _memory("1Gi")


class RestResources(PodResources):
    """Those of slurmrestd: 142 MB for listings of 1,000 nodes, and 22 MiB for the states of 10,000 jobs.

    `bench/queues.py` checks that the operator's own requests keep it below 256 MiB. The rest is for users: reading a
    job in full takes 140 KiB.
    """

    cpu: Cpu = _cpu("100m")
    memory: Memory = _memory("512Mi")


class AccountingResources(PodResources):
    """Those of slurmdbd."""

    cpu: Cpu = _cpu("100m")
    memory: Memory = _memory("512Mi")


class DatabaseResources(PodResources):
    """Those of the database of accounting: a year of a busy cluster's jobs is some GiB of rows."""

    cpu: Cpu = _cpu("250m")
    memory: Memory = _memory("2Gi")


class LdapResources(PodResources):
    """Those of the pod that follows an LDAP directory."""

    cpu: Cpu = _cpu("50m")
    memory: Memory = _memory("256Mi")


class LoginResources(PodResources):
    """Those of a login node: users edit, compile and copy files there."""

    cpu: Cpu = _cpu("500m")
    memory: Memory = _memory("4Gi")


class Toleration(Model):
    """A Kubernetes toleration."""

    key: LabelKey | None = setting("Key of the taint; left out: every key.", default=None)
    operator: str = setting("Exists or Equal.", default="Equal", pattern="^(Exists|Equal)$")
    value: LabelValue | None = setting("Value of the taint, for Equal.", default=None)
    effect: str | None = setting(
        "NoSchedule, PreferNoSchedule or NoExecute; left out: each.",
        default=None,
        pattern="^(NoSchedule|PreferNoSchedule|NoExecute)$",
    )
