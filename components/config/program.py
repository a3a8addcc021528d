"""The whole configuration of the program."""

from enum import StrEnum

from components.config.accounting import Accounting
from components.config.addons.certificates import Certificates
from components.config.addons.gpu_operator import GpuOperator
from components.config.addons.ldap import Ldap
from components.config.addons.monitoring import Monitoring
from components.config.addons.network_operator import NetworkOperator
from components.config.checks import Checks
from components.config.cluster import Cluster, Images, Kubernetes, Timeouts
from components.config.jail import Jail
from components.config.login import Login
from components.config.model import Model, setting
from components.config.nodes.health import Health
from components.config.nodes.node_sets import NodeSet
from components.config.partitions import Partition
from components.config.pods.resources import PodResources
from components.config.slurm import Controller, Rest, Slurm
from components.config.values.addresses import Cidr
from components.config.values.object_names import ObjectName
from components.config.values.quantities import WholeNumber


class OperatorMode(StrEnum):
    """Source of the operator and its CRDs: the program installs them, or they exist already."""

    INSTALL = "install"
    EXISTING = "existing"


class Credentials(Model):
    """Existing keys. Left out: the program generates them once and keeps them as Pulumi secrets."""

    existing_secret: ObjectName | None = setting("A Secret with slurm.key and jwt.key.", default=None)
    existing_ssh_secret: ObjectName | None = setting(
        "A Secret with the SSH host keys ssh_host_ed25519_key, ssh_host_rsa_key and their .pub files.", default=None
    )
    existing_database_secret: ObjectName | None = setting(
        "A Secret with the database password under the key password, for accounting.mode: mariadb.", default=None
    )


class Operator(Model):
    """The operator, which acts on what depends on running jobs."""

    mode: OperatorMode = setting(
        "install: this program declares the CRDs and the operator of the namespace; existing: both are there.",
        default=OperatorMode.INSTALL,
    )
    watch_nodes: bool = setting(
        "Whether a ClusterRole lets the operator read Kubernetes nodes, so that a cordon or a taint becomes a drain. "
        "Without it no worker can be evicted: a Kubernetes drain waits until somebody deletes the pod.",
        default=True,
    )
    replicas: WholeNumber = setting(
        "Pods of the operator. One acts; with 2 the other takes over within 15 s after the first one's Kubernetes "
        "node fails.",
        default=1,
        ge=1,
        le=3,
    )
    resources: PodResources = setting("What the pod asks for.", factory=PodResources)


class NetworkPolicies(Model):
    """Network policies of the namespace."""

    enabled: bool = setting("Whether pods accept only the connections that Slurm needs.", default=True)
    rest_client_cidrs: list[Cidr] = setting("Addresses that may reach the REST API besides the operator.", factory=list)


class Config(Model):
    """All keys of the namespace `pulumi-slurm`."""

    cluster: Cluster = setting("The cluster as a whole.")
    kubernetes: Kubernetes = setting("Which Kubernetes cluster to use.", factory=Kubernetes)
    images: Images = setting("Container images.")
    jail: Jail = setting("The root file system that all nodes share.")
    controller: Controller = setting("The pod of slurmctld.", factory=Controller)
    rest: Rest = setting("The pod of slurmrestd.", factory=Rest)
    node_sets: list[NodeSet] = setting("Groups of equal nodes.", min_length=1)
    partitions: list[Partition] = setting(
        "Slurm's partitions; left out: one named main with every node set.", factory=list
    )
    login: Login = setting("Login nodes.", factory=Login)
    directory: Ldap = setting("An LDAP directory whose users are the cluster's.", factory=Ldap)
    slurm: Slurm = setting("Slurm's own settings.", factory=Slurm)
    health: Health = setting("How nodes are checked.", factory=Health)
    accounting: Accounting = setting("Accounting: which jobs ran, for whom, and what they used.", factory=Accounting)
    credentials: Credentials = setting("Where keys come from.", factory=Credentials)
    operator: Operator = setting("The operator.", factory=Operator)
    network_operator: NetworkOperator = setting(
        "NVIDIA's network operator: RDMA and secondary networks in pods.", factory=NetworkOperator
    )
    network_policies: NetworkPolicies = setting("Network policies.", factory=NetworkPolicies)
    certificates: Certificates = setting("TLS inside the cluster.", factory=Certificates)
    monitoring: Monitoring = setting("What Prometheus scrapes.", factory=Monitoring)
    gpu_operator: GpuOperator = setting("NVIDIA's GPU operator.", factory=GpuOperator)
    checks: Checks = setting("What is looked up in Kubernetes before anything is planned.", factory=Checks)
    timeouts: Timeouts = setting("How long `pulumi up` waits.", factory=Timeouts)

    @property
    def effective_partitions(self) -> list[Partition]:
        """The configured partitions, or the default one when there are none."""
        if self.partitions or not self.node_sets:  # Of a configuration that is partly wrong, all may be missing.
            return self.partitions
        sets = [node_set.name for node_set in self.node_sets]
        return [Partition.model_validate({"name": "main", "nodeSets": sets, "default": True})]

    @property
    def rest_tls(self) -> bool:
        """Return whether clients reach slurmrestd by HTTPS."""
        return self.certificates.is_on if self.rest.tls is None else self.rest.tls

    @property
    def database_tls(self) -> bool:
        """Return whether the program's own database demands TLS, with a certificate of the issuer."""
        return self.certificates.is_on and self.accounting.has_own_database

    @property
    def retains_namespace(self) -> bool:
        """Return whether a volume outlives the stack. Then its namespace has to stay too."""
        database = self.accounting.has_own_database and self.accounting.storage.retain
        return self.jail.storage.retain or self.controller.state_storage.retain or database
