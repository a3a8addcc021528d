"""Certificates of the cluster's own servers, issued by cert-manager.

Nothing here is in the ledger: cert-manager itself looks after these objects, and the Secrets with keys are its own.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

import pulumi

from components.config import Config
from components.config.addons.mode import AddonMode
from components.config.values.quantities import duration_seconds
from components.kubernetes.component import Component
from components.kubernetes.manifest import Manifest, declared
from contract import names

CERT_MANAGER: Final = "cert-manager.io/v1"

_CA_DURATION: Final = "87600h"
"""The CA lives ten years. After it changes, a client that trusts the old one refuses what the new one signed."""


def _declared(config: Config, kind: str, name: str, spec: Mapping[str, Any]) -> Manifest:
    # `up` waits until it is issued, or ends with cert-manager's own words.
    wait = {"pulumi.com/waitFor": "condition=Ready"}
    body = declared(config, CERT_MANAGER, kind, name, "certificates", {"spec": dict(spec)}, annotations=wait)
    return Manifest(body, held=False, deadline_seconds=duration_seconds(config.timeouts.available))


def _private_key() -> dict[str, Any]:
    # A new key at each renewal: a key that leaked once ends with its certificate.
    return {"algorithm": "ECDSA", "size": 256, "rotationPolicy": "Always"}


def _authority(config: Config) -> list[Manifest]:
    """Return the cluster's own CA: a self-signed certificate, and the issuer that signs with it."""
    certificate = {
        "isCA": True,
        "commonName": f"{config.cluster.namespace} {config.cluster.name} Slurm CA",
        "secretName": names.CA,
        "duration": _CA_DURATION,
        "privateKey": {**_private_key(), "rotationPolicy": "Never"},
        "issuerRef": {"name": names.SELF_SIGNED, "kind": "Issuer", "group": "cert-manager.io"},
    }
    return [
        _declared(config, "Issuer", names.SELF_SIGNED, {"selfSigned": {}}),
        _declared(config, "Certificate", names.CA, certificate),
        _declared(config, "Issuer", names.CA, {"ca": {"secretName": names.CA}}),
    ]


def dns_names(config: Config, service: str) -> list[str]:
    """Return every name by which pods may call a Service."""
    namespace, domain = config.cluster.namespace, config.cluster.cluster_domain
    return [
        service,
        f"{service}.{namespace}",
        f"{service}.{namespace}.svc",
        f"{service}.{namespace}.svc.{domain}",
    ]


def _certificate(config: Config, service: str, secret: str) -> Manifest:
    certificates = config.certificates
    issuer = (
        (names.CA, "Issuer") if certificates.issuer is None else (certificates.issuer.name, certificates.issuer.kind)
    )
    spec = {
        "secretName": secret,
        "dnsNames": dns_names(config, service),
        "duration": certificates.duration,
        "renewBefore": certificates.renew_before,
        "privateKey": _private_key(),
        "usages": ["digital signature", "key encipherment", "server auth"],
        "issuerRef": {"name": issuer[0], "kind": str(issuer[1]), "group": "cert-manager.io"},
    }
    return _declared(config, "Certificate", service, spec)


def manifests(config: Config) -> list[Manifest]:
    """Return Issuers and Certificates, in the order in which they can become ready."""
    if not config.certificates.is_on:
        return []
    servers = [(names.REST, names.REST_TLS)] if config.rest_tls else []
    servers += [(names.DATABASE, names.DATABASE_TLS)] if config.database_tls else []
    return [
        *([] if config.certificates.issuer else _authority(config)),
        *(_certificate(config, service, secret) for service, secret in servers),
    ]


class Certificates(Component):
    """cert-manager, if it is to be installed, and what it issues.

    Args:
        name: Name of the resource in the stack.
        config: The configuration: `certificates`, `rest.tls`, `accounting.mode`, `timeouts` and `cluster`.
        depends_on: Resources that come first, such as the namespace.
        opts: Options of the resource.
    """

    def __init__(
        self,
        name: str,
        config: Config,
        depends_on: Sequence[pulumi.Resource] = (),
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        super().__init__(name, opts)
        before = list(depends_on)
        if config.certificates.mode is AddonMode.INSTALL:
            before.append(self._cert_manager(config))
        for manifest in manifests(config):
            # One after the other: an issuer signs only once it has its own certificate.
            before += self.declare([manifest], before).values()
        self.register_outputs({"mode": str(config.certificates.mode)})

    def _cert_manager(self, config: Config) -> pulumi.Resource:
        # Only here: the package asks for a plugin that other modes do without.
        import pulumi_kubernetes_cert_manager as cert_manager

        release = cert_manager.ReleaseArgs(
            version=config.certificates.version, namespace=config.certificates.namespace, create_namespace=True
        )
        return cert_manager.CertManager(
            "cert-manager", install_crds=True, helm_options=release, opts=pulumi.ResourceOptions(parent=self)
        )
