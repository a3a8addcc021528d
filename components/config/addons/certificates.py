"""Configuration of certificates: who issues them, and which connections of the cluster use TLS."""

from collections.abc import Iterator
from enum import StrEnum
from typing import Final

from components.config.addons.mode import AddonMode
from components.config.model import Model, setting
from components.config.rule import Violation, rule
from components.config.values.images import Version
from components.config.values.object_names import DnsLabel, ObjectName
from components.config.values.quantities import Duration, duration_seconds

_SHORTEST_SECONDS: Final = 3600  # cert-manager takes no shorter duration.


class IssuerKind(StrEnum):
    """Scope of an issuer; the values are cert-manager's own."""

    ISSUER = "Issuer"
    CLUSTER_ISSUER = "ClusterIssuer"


class Issuer(Model):
    """An issuer that is there already. It must put its CA into ca.crt of the Secrets, as CA and Vault issuers do."""

    name: ObjectName = setting("Name of the issuer.")
    kind: IssuerKind = setting("Issuer (of the same namespace) or ClusterIssuer.", default=IssuerKind.ISSUER)


class Certificates(Model):
    """TLS inside the cluster, by cert-manager."""

    mode: AddonMode = setting(
        "install: the program puts cert-manager into Kubernetes; existing: it is there; off: no TLS in the cluster.",
        default=AddonMode.OFF,
    )
    version: Version = setting("Version of cert-manager's chart, for install.", default="v1.21.1")
    namespace: DnsLabel = setting("Namespace of cert-manager, for install.", default="cert-manager")
    issuer: Issuer | None = setting(
        "Who signs; left out: a CA of the cluster's own, made by cert-manager and kept in Secret slurm-ca.",
        default=None,
    )
    duration: Duration = setting("How long a certificate is valid, at least 1h.", unit="s, m or h", default="2160h")
    renew_before: Duration = setting(
        "How long before its end a certificate is renewed.", unit="s, m or h", default="720h"
    )

    @property
    def is_on(self) -> bool:
        """Return whether cert-manager issues certificates for this cluster."""
        return self.mode is not AddonMode.OFF

    @rule
    def _keys_of_mode(self) -> Iterator[Violation]:
        if self.mode is AddonMode.OFF:
            for key in self.given - {"mode"}:
                yield Violation(key, want="nothing while certificates.mode is off; or mode install or existing")
        elif self.mode is AddonMode.EXISTING:
            for key in self.given & {"version", "namespace"}:
                yield Violation(key, want="nothing with certificates.mode existing: cert-manager is there already")

    @rule
    def _durations(self) -> Iterator[Violation]:
        if not self.is_on:
            return
        seconds = duration_seconds(self.duration)
        if seconds < _SHORTEST_SECONDS:
            yield Violation("duration", want="1h or more: cert-manager takes no shorter one")
        if duration_seconds(self.renew_before) >= seconds:
            want = f"less than certificates.duration ({self.duration}): it would be renewed without end"
            yield Violation("renewBefore", want=want)
