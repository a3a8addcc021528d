"""Configuration of pods that run no jobs."""

from components.config.model import Model, setting
from components.config.values.object_names import LabelKey, LabelValue
from components.config.values.quantities import Cpu, Memory


class PodResources(Model):
    """Resource requests of a pod."""

    cpu: Cpu = setting("CPU that is kept for the pod; it may use more.", unit="Kubernetes CPU quantity", default="100m")
    memory: Memory = setting(
        "Memory that the pod gets, and may not exceed.", unit="Kubernetes quantity", default="256Mi"
    )


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


def sidecar_resources() -> PodResources:
    """The default for a container of the site's: little, since nobody knows what it does."""
    return PodResources(cpu="10m", memory="64Mi")


def controller_resources() -> PodResources:
    """The default for the controller: slurmctld held 22 MB with 1,000 nodes; its memory grows with the job queue."""
    return PodResources(cpu="250m", memory="1Gi")


def rest_resources() -> PodResources:
    """The default for slurmrestd: 142 MB for listings of 1,000 nodes, and 22 MiB for the states of 10,000 jobs.

    `bench/queues.py` checks that the operator's own requests keep it below 256 MiB. The rest is for users: reading a
    job in full takes 140 KiB.
    """
    return PodResources(cpu="100m", memory="512Mi")


def accounting_resources() -> PodResources:
    """The default for slurmdbd."""
    return PodResources(cpu="100m", memory="512Mi")


def database_resources() -> PodResources:
    """The default for the database of accounting: a year of a busy cluster's jobs is some GiB of rows."""
    return PodResources(cpu="250m", memory="2Gi")


def ldap_resources() -> PodResources:
    """The default for the pod that follows an LDAP directory."""
    return PodResources(cpu="50m", memory="256Mi")


def login_resources() -> PodResources:
    """The default for a login node: users edit, compile and copy files there."""
    return PodResources(cpu="500m", memory="4Gi")
