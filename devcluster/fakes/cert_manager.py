"""A fake cert-manager: its CRDs, as far as this project uses them, and a function that issues.

It has no controller: `issue()` answers the existing Certificates once, in cert-manager's order. Nothing renews them,
and it ignores issuers other than selfSigned and ca. Field names are those of cert-manager.io/v1
(https://cert-manager.io/docs/reference/api-docs/); crds/ holds no others, so that a misspelled field is refused here,
too.
"""

from __future__ import annotations

import base64
import datetime
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

Resource = dict[str, Any]
GROUP = "cert-manager.io"
KINDS = ("issuers", "clusterissuers", "certificates")


def crds() -> list[Resource]:
    """Return the CRDs, with the fields that this project sets."""
    folder = Path(__file__).parent / "crds"
    return [yaml.safe_load((folder / f"{kind}.{GROUP}.yaml").read_text()) for kind in KINDS]


@dataclass(frozen=True, slots=True)
class Pair:
    """A certificate and its key, both PEM."""

    certificate: bytes
    key: bytes

    def signs(self) -> tuple[x509.Certificate, ec.EllipticCurvePrivateKey]:
        """Return certificate and key as objects that can sign."""
        key = serialization.load_pem_private_key(self.key, None)
        assert isinstance(key, ec.EllipticCurvePrivateKey)
        return x509.load_pem_x509_certificate(self.certificate), key


def make(spec: Resource, signer: Pair | None) -> Pair:
    """Issue what a Certificate's spec asks for.

    Args:
        spec: The Certificate's spec.
        signer: The CA; None signs with the certificate's own key.
    """
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, spec["commonName"])] if "commonName" in spec else [])
    above, signing = signer.signs() if signer else (None, key)
    now = datetime.datetime.now(datetime.UTC)
    is_ca = spec.get("isCA", False)
    builder = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(above.subject if above else subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(minutes=1))
        .not_valid_after(now + _duration(spec.get("duration", "2160h")))
        .add_extension(x509.BasicConstraints(ca=is_ca, path_length=None), critical=True)
        .add_extension(_key_usage(is_ca), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(signing.public_key()), critical=False)
    )
    if names := spec.get("dnsNames"):
        # RFC 5280, 4.2.1.6: critical where the subject is empty.
        alternative = x509.SubjectAlternativeName([x509.DNSName(name) for name in names])
        builder = builder.add_extension(alternative, critical=not spec.get("commonName"))
    if "server auth" in spec.get("usages", ()):
        builder = builder.add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
    form = serialization.PrivateFormat.TraditionalOpenSSL
    return Pair(
        builder.sign(signing, hashes.SHA256()).public_bytes(serialization.Encoding.PEM),
        key.private_bytes(serialization.Encoding.PEM, form, serialization.NoEncryption()),
    )


def _duration(text: str) -> datetime.timedelta:
    match = re.fullmatch(r"(\d+)([smh])", text)
    if not match:
        raise ValueError(f"duration {text!r}: this fake knows Go durations of one unit")
    return datetime.timedelta(seconds=int(match[1]) * {"s": 1, "m": 60, "h": 3600}[match[2]])


def _key_usage(is_ca: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=True, key_encipherment=not is_ca, key_cert_sign=is_ca, crl_sign=is_ca,
        content_commitment=False, data_encipherment=False, key_agreement=False, encipher_only=False,
        decipher_only=False,
    )  # fmt: skip


def secret(certificate: Resource, pair: Pair, authority: bytes) -> Resource:
    """Return the Secret of a Certificate, with the keys that cert-manager gives it."""
    data = {"tls.crt": pair.certificate, "tls.key": pair.key, "ca.crt": authority}
    metadata = certificate["metadata"]
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "type": "kubernetes.io/tls",
        "metadata": {"name": certificate["spec"]["secretName"], "namespace": metadata["namespace"]},
        "data": {key: base64.b64encode(value).decode() for key, value in data.items()},
    }


def is_ready(resource: Resource) -> bool:
    """Return whether a resource's condition Ready is True."""
    conditions = resource.get("status", {}).get("conditions", [])
    return any(condition["type"] == "Ready" and condition["status"] == "True" for condition in conditions)


def ready(resource: Resource) -> Resource:
    """Return the resource with cert-manager's answer in its status."""
    now = datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    condition = {
        "type": "Ready",
        "status": "True",
        "reason": "Ready",
        "message": "by a fake",
        "lastTransitionTime": now,
    }
    return {**resource, "status": {"conditions": [condition]}}


def issue(
    issuers: Iterable[Resource], certificates: Iterable[Resource], read_secret: Callable[[str], Resource | None]
) -> list[Resource]:
    """Return the objects that cert-manager would write next: Secrets, and resources with their status.

    Args:
        issuers: Issuers of a namespace.
        certificates: Its Certificates.
        read_secret: Returns a Secret of the namespace by name, or None.
    """
    answers: list[Resource] = []
    known = {issuer["metadata"]["name"]: issuer for issuer in issuers}
    for issuer in known.values():
        signer = issuer["spec"].get("ca")
        if not is_ready(issuer) and (signer is None or read_secret(signer["secretName"]) is not None):
            answers.append(ready(issuer))
    for certificate in certificates:
        issuer = known.get(certificate["spec"]["issuerRef"]["name"], {})
        if is_ready(certificate) or not is_ready(issuer):
            continue
        signer = issuer["spec"].get("ca")
        above = _pair(read_secret(signer["secretName"])) if signer else None
        pair = make(certificate["spec"], above)
        answers += [secret(certificate, pair, (above or pair).certificate), ready(certificate)]
    return answers


def _pair(stored: Resource | None) -> Pair:
    assert stored is not None, "an issuer is ready only once its Secret is there"
    return Pair(base64.b64decode(stored["data"]["tls.crt"]), base64.b64decode(stored["data"]["tls.key"]))
