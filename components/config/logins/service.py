"""Configuration of the SSH Services in front of login nodes."""

from collections.abc import Iterator
from enum import StrEnum

from components.config.model import Model, setting
from components.config.rule import Violation, rule
from components.config.values.addresses import Cidr
from components.config.values.object_names import LabelKey
from components.config.values.quantities import WholeNumber


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
