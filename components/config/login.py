"""Configuration of the login nodes."""

from enum import StrEnum

from components.config.model import Model, setting
from components.config.pods import PodResources, login_resources
from components.config.submounts import Submount
from components.config.values import Cidr, Duration, LabelKey, SshPublicKey, UserName, WholeNumber


class ServiceType(StrEnum):
    """How SSH is reached from outside; the values are Kubernetes' own."""

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


class User(Model):
    """An ordinary user, made in a new root if missing; never changed or removed afterwards."""

    name: UserName = setting("Login name.")
    ssh_public_keys: list[SshPublicKey] = setting("Keys that may log in, one OpenSSH line each.", min_length=1)
    sudo: bool = setting("Whether the user may become root in the jail.", default=False)


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
        "How long sessions stay when their login node is replaced; people are told at once.",
        unit="s, m or h",
        default="5m",
    )
