"""Configuration of certificates: who issues them, and where TLS is spoken inside the cluster."""

from collections.abc import Iterator, Mapping
from enum import StrEnum
from typing import Any, Final

from components.config.model import Model, setting
from components.config.problems import Problem
from components.config.values.images import Version
from components.config.values.object_names import DnsLabel, ObjectName
from components.config.values.quantities import Duration, duration_seconds
from components.config.values.raw import mapping

_DURATION: Final = "2160h"
_RENEW_BEFORE: Final = "720h"
_SHORTEST_SECONDS: Final = 3600  # cert-manager takes no shorter duration.


class CertificatesMode(StrEnum):
    """Who puts cert-manager into Kubernetes."""

    INSTALL = "install"
    EXISTING = "existing"
    OFF = "off"


class IssuerKind(StrEnum):
    """Where an issuer is known; the values are cert-manager's own."""

    ISSUER = "Issuer"
    CLUSTER_ISSUER = "ClusterIssuer"


class Issuer(Model):
    """An issuer that is there already. It must put its CA into ca.crt of the Secrets, as CA and Vault issuers do."""

    name: ObjectName = setting("Name of the issuer.")
    kind: IssuerKind = setting("Issuer (of the same namespace) or ClusterIssuer.", default=IssuerKind.ISSUER)


class Certificates(Model):
    """TLS inside the cluster, by cert-manager."""

    mode: CertificatesMode = setting(
        "install: the program puts cert-manager into Kubernetes; existing: it is there; off: no TLS in the cluster.",
        default=CertificatesMode.OFF,
    )
    version: Version = setting("Version of cert-manager's chart, for install.", default="v1.21.1")
    namespace: DnsLabel = setting("Namespace of cert-manager, for install.", default="cert-manager")
    issuer: Issuer | None = setting(
        "Who signs; left out: a CA of the cluster's own, made by cert-manager and kept in Secret slurm-ca.",
        default=None,
    )
    duration: Duration = setting("How long a certificate is valid, at least 1h.", unit="s, m or h", default=_DURATION)
    renew_before: Duration = setting(
        "How long before its end a certificate is renewed.", unit="s, m or h", default=_RENEW_BEFORE
    )

    @property
    def is_on(self) -> bool:
        """Whether cert-manager issues certificates for this cluster."""
        return self.mode is not CertificatesMode.OFF


def certificate_problems(config: Mapping[str, Any]) -> Iterator[Problem]:
    """In what the configuration of certificates does not fit itself or those who would use them."""
    certificates = mapping(config.get("certificates"))
    mode = certificates.get("mode", CertificatesMode.OFF)
    rest_tls = mapping(config.get("rest")).get("tls")
    if mode == CertificatesMode.OFF:
        for key in certificates.keys() - {"mode"}:
            want = "nothing while certificates.mode is off; or mode install or existing"
            yield Problem(("certificates", key), certificates[key], want)
        if rest_tls is True:
            want = "nothing, or certificates.mode: install or existing: there is nobody to issue a certificate"
            yield Problem(("rest", "tls"), True, want)
        return
    if mode == CertificatesMode.EXISTING:
        for key in certificates.keys() & {"version", "namespace"}:
            want = "nothing with certificates.mode existing: cert-manager is there already"
            yield Problem(("certificates", key), certificates[key], want)
    yield from _durations(certificates)


def _durations(certificates: Mapping[str, Any]) -> Iterator[Problem]:
    duration, before = (certificates.get("duration", _DURATION), certificates.get("renewBefore", _RENEW_BEFORE))
    try:
        seconds, before_seconds = duration_seconds(duration), duration_seconds(before)
    except (ValueError, KeyError, TypeError, IndexError):
        return  # The values' own type says what is wrong with them.
    if seconds < _SHORTEST_SECONDS:
        yield Problem(("certificates", "duration"), duration, "1h or more: cert-manager takes no shorter one")
    if before_seconds >= seconds:
        want = f"less than certificates.duration ({duration}): it would be renewed without end"
        yield Problem(("certificates", "renewBefore"), before, want)
