"""Configuration of the login nodes."""

from collections.abc import Iterator
from enum import StrEnum

from components.config.model import Model, setting
from components.config.nodes.submounts import Submount, too_much_memory
from components.config.pods.pod_options import POD_OPTIONS, PlacedPodOptions
from components.config.pods.resources import PodResources, login_resources
from components.config.rule import Violation, named_twice, rule
from components.config.values.addresses import Cidr
from components.config.values.object_names import LabelKey
from components.config.values.quantities import Cpu, Duration, Memory, WholeNumber, memory_bytes, memory_mib
from components.config.values.users import SshPublicKey, UserName


class ServiceType(StrEnum):
    """Type of the SSH Service; the values are Kubernetes' own."""

    LOAD_BALANCER = "LoadBalancer"
    NODE_PORT = "NodePort"


class LoginService(Model):
    """The Service in front of the login nodes."""

    type: ServiceType = setting("LoadBalancer or NodePort.", default=ServiceType.LOAD_BALANCER)
    node_port: WholeNumber | None = setting(
        "Fixed port on every Kubernetes node; left out: one is chosen.", default=None, ge=1, le=65535
    )
    load_balancer_source_ranges: list[Cidr] = setting(
        "Addresses that may reach SSH; left out: all. Also enforced by the network policy.", factory=list
    )
    annotations: dict[LabelKey, str] = setting("Annotations that the cloud's load balancer reads.", factory=dict)

    @rule
    def _source_ranges(self) -> Iterator[Violation]:
        if self.type is ServiceType.NODE_PORT and self.load_balancer_source_ranges:
            want = "nothing: a NodePort Service hides the client's address, so every login would be refused"
            yield Violation("loadBalancerSourceRanges", want=want)


class AdminLevel(StrEnum):
    """An administrator's rights in Slurm; the values are slurmdbd's."""

    ADMINISTRATOR = "Administrator"
    OPERATOR = "Operator"


class User(Model):
    """An ordinary user, made in a new root if missing; never changed or removed afterwards."""

    name: UserName = setting("Login name.")
    ssh_public_keys: list[SshPublicKey] = setting("Keys that may log in, one OpenSSH line each.", min_length=1)
    sudo: bool = setting("Whether the user may become root in the jail.", default=False)
    admin: bool = setting("Whether the user administers Slurm (AdminLevel=Administrator in slurmdbd).", default=False)
    operator: bool = setting(
        "Whether the user operates Slurm (AdminLevel=Operator): all jobs and nodes, not accounts' administrators.",
        default=False,
    )

    @rule
    def _one_level(self) -> Iterator[Violation]:
        if self.admin and self.operator:
            yield Violation("operator", want="one of admin and operator: Slurm gives a person one AdminLevel")

    @property
    def admin_level(self) -> AdminLevel | None:
        """Slurm's AdminLevel; None for an ordinary user."""
        return AdminLevel.ADMINISTRATOR if self.admin else AdminLevel.OPERATOR if self.operator else None


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


class Login(Model):
    """Login nodes: SSH into the jail."""

    replicas: WholeNumber = setting("Number of login nodes behind the Service.", default=1, ge=0, le=100)
    service: LoginService = setting("How SSH is reached.", factory=LoginService)
    users: list[User] = setting("First users; more are made with adduser in the jail.", factory=list)
    resources: PodResources = setting("What each login node asks for.", factory=login_resources)
    submounts: list[Submount] = setting(
        "Paths of the jail that are another volume's on login nodes, such as data sets that jobs see too.", factory=list
    )
    grace: Duration = setting(
        "How long sessions stay when their login node is replaced. Users are told at once.",
        unit="s, m or h",
        default="5m",
    )
    limits: LoginLimits = setting("Limits of one user on a login node.", factory=LoginLimits)
    pod: PlacedPodOptions = setting(POD_OPTIONS, factory=PlacedPodOptions)
    passwords: bool = setting(
        "Whether passwords (set with passwd in the jail) open SSH, too; otherwise keys alone do.", default=False
    )

    @rule
    def _users(self) -> Iterator[Violation]:
        yield from named_twice(self.users, "users")

    @rule
    def _memory_per_user(self) -> Iterator[Violation]:
        limit = self.limits.memory_per_user
        if limit is not None and memory_bytes(limit) > memory_bytes(self.resources.memory):
            want = f"at most login.resources.memory ({self.resources.memory}): the whole node would end before one user"
            yield Violation("limits", "memoryPerUser", want=want)

    @rule
    def _submounts(self) -> Iterator[Violation]:
        memory = self.resources.memory
        yield from too_much_memory(self.submounts, memory_mib(memory), f"login.resources.memory ({memory})")

    @property
    def user_memory_mib(self) -> int:
        """Memory of one user on a login node."""
        limit = self.limits.memory_per_user
        return memory_mib(limit) if limit is not None else memory_mib(self.resources.memory) // 2
