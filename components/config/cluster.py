"""Configuration of the cluster as a whole: its name, where it runs, its images, how long to wait."""

from enum import StrEnum

from pydantic import SecretStr

from components.config.model import Model, setting
from components.config.values.images import ImmutableImage, Registry
from components.config.values.object_names import DnsLabel, ObjectName, SetName
from components.config.values.quantities import Duration
from contract import names


class PullPolicy(StrEnum):
    """Policy for pulling images; the values are Kubernetes' own (imagePullPolicy)."""

    ALWAYS = "Always"
    IF_NOT_PRESENT = "IfNotPresent"
    NEVER = "Never"


class Cluster(Model):
    """The Slurm cluster and the namespace that holds it; a namespace holds one cluster."""

    name: SetName = setting("Name of the cluster: Slurm's ClusterName, and the name of the SlurmCluster object.")
    namespace: DnsLabel = setting("Kubernetes namespace that holds everything.", default=names.NAMESPACE)
    create_namespace: bool = setting(
        "Whether the program makes the namespace; false takes an existing one.", default=True
    )
    adopt: str | None = setting(
        "Consent to take over the cluster that the namespace holds already, with its keys: the revision that a refused "
        "`pulumi up` names. It holds for that very revision, and means nothing afterwards.",
        default=None,
    )
    cluster_domain: ObjectName = setting("DNS domain of the Kubernetes cluster.", default="cluster.local")


class Kubernetes(Model):
    """The Kubernetes cluster to use. Left out: the current context of KUBECONFIG."""

    context: str | None = setting("Context of the kubeconfig.", default=None)
    kubeconfig: SecretStr | None = setting(
        "A kubeconfig file's content or path; set it with `pulumi config set --secret`.", default=None
    )
    cluster_identifier: str | None = setting(
        "What tells this Kubernetes cluster from others: a change replaces every object. Default: cluster.name.",
        default=None,
    )


class Images(Model):
    """Container images. Each names its content: a digest, or a tag made from a hash."""

    registry: Registry | None = setting("Put before every image that has no registry of its own.", default=None)
    slurm: ImmutableImage = setting("The image with all Slurm daemons.")
    operator: ImmutableImage | None = setting("The operator's image; needed for operator.mode: install.", default=None)
    database: ImmutableImage | None = setting("MariaDB's image; needed for accounting.mode: mariadb.", default=None)
    pull_policy: PullPolicy = setting("When nodes pull images.", default=PullPolicy.IF_NOT_PRESENT)
    pull_secrets: list[ObjectName] = setting("Secrets of the namespace with registry credentials.", factory=list)

    def reference(self, image: str) -> str:
        """The full reference of an image: those without a registry get `registry` before them."""
        return f"{self.registry}/{image}" if self.registry and "/" not in image else image


class Timeouts(Model):
    """Deadlines of `pulumi up`. Work that has started goes on after them."""

    available: Duration = setting("Until jobs can run after a change.", unit="s, m or h", default="30m")
    nodes: Duration = setting("Until nodes take jobs, with `nodeSets[].waitForNodes`.", unit="s, m or h", default="30m")
    populate: Duration = setting("Until a new root of the jail is complete.", unit="s, m or h", default="30m")
