"""Certificates of the embedded cluster: one authority for each state folder, and what it signs."""

from __future__ import annotations

import datetime
import ipaddress
import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

VALIDITY = datetime.timedelta(days=3650)
"""Lifetime of certificates. Nothing renews them: a dev cluster is deleted long before."""

CLOCK_SKEW = datetime.timedelta(hours=1)


@dataclass(frozen=True, slots=True)
class KeyPair:
    """Files of a certificate and its key, both PEM; the key has mode 600."""

    certificate: Path
    key: Path


@dataclass(frozen=True, slots=True)
class Subject:
    """Subject of a certificate, in Kubernetes' terms: user (common name), groups (organizations), addresses."""

    user: str
    groups: tuple[str, ...] = ()
    names: tuple[str, ...] = ()
    addresses: tuple[str, ...] = ()


class Authority:
    """A certificate authority that lives in a folder; made on first use, read again afterwards."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._folder = folder
        self.certificate = folder / "ca.crt"
        self.key = folder / "ca.key"
        if not _belong_together(KeyPair(self.certificate, self.key)):
            self._make()
        self._certificate = x509.load_pem_x509_certificate(self.certificate.read_bytes())
        key = serialization.load_pem_private_key(self.key.read_bytes(), password=None)
        assert isinstance(key, ec.EllipticCurvePrivateKey)
        self._key = key

    def issue(self, name: str, subject: Subject) -> KeyPair:
        """Return the key pair `name` for this subject, signed anew only if the one on disk says something else."""
        pair = KeyPair(self._folder / f"{name}.crt", self._folder / f"{name}.key")
        if _belong_together(pair) and self._holds(pair.certificate, subject):
            return pair
        key = ec.generate_private_key(ec.SECP256R1())
        usages = x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH])
        certificate = (
            _builder(_name(subject), self._certificate.subject, key.public_key())
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(usages, critical=False)
            .add_extension(x509.SubjectAlternativeName(_alternatives(subject)), critical=False)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
            .add_extension(_issued_by(self._certificate), critical=False)
            .sign(self._key, hashes.SHA256())
        )
        write_secret(pair.key, _pem(key))
        _write_public(pair.certificate, certificate.public_bytes(serialization.Encoding.PEM))
        return pair

    def service_account_keys(self) -> KeyPair:
        """Return the RSA key that signs service account tokens, and (as `certificate`) its public half."""
        pair = KeyPair(self._folder / "service-account.pub", self._folder / "service-account.key")
        if not (pair.certificate.exists() and pair.key.exists()):
            key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
            write_secret(pair.key, _pem(key))
            public = key.public_key().public_bytes(
                serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
            )
            _write_public(pair.certificate, public)
        return pair

    def _make(self) -> None:
        key = ec.generate_private_key(ec.SECP256R1())
        name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "pulumi-slurm devcluster")])
        certificate = (
            _builder(name, name, key.public_key())
            .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
            .add_extension(_SIGNS_CERTIFICATES, critical=True)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
            .sign(key, hashes.SHA256())
        )
        write_secret(self.key, _pem(key))
        _write_public(self.certificate, certificate.public_bytes(serialization.Encoding.PEM))

    def _holds(self, path: Path, subject: Subject) -> bool:
        certificate = x509.load_pem_x509_certificate(path.read_bytes())
        names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        try:
            certificate.verify_directly_issued_by(self._certificate)
        except (InvalidSignature, ValueError):
            return False
        return certificate.subject == _name(subject) and list(names) == _alternatives(subject)


def write_secret(path: Path, content: bytes) -> None:
    """Write a file that only root reads, whatever the umask, and never half of it."""
    beside = path.with_name(path.name + ".new")
    descriptor = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(content)
    beside.replace(path)


def _write_public(path: Path, content: bytes) -> None:
    beside = path.with_name(path.name + ".new")
    beside.write_bytes(content)
    beside.replace(path)


def _belong_together(pair: KeyPair) -> bool:
    """Return whether both files exist and match. A killed run leaves a new key beside an old certificate."""
    if not (pair.certificate.exists() and pair.key.exists()):
        return False
    certificate = x509.load_pem_x509_certificate(pair.certificate.read_bytes())
    key = serialization.load_pem_private_key(pair.key.read_bytes(), password=None)
    return certificate.public_key() == key.public_key()


def _builder(subject: x509.Name, issuer: x509.Name, public_key: ec.EllipticCurvePublicKey) -> x509.CertificateBuilder:
    now = datetime.datetime.now(datetime.UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(public_key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - CLOCK_SKEW)
        .not_valid_after(now + VALIDITY)
    )


def _name(subject: Subject) -> x509.Name:
    groups = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, group) for group in subject.groups]
    return x509.Name([*groups, x509.NameAttribute(NameOID.COMMON_NAME, subject.user)])


def _alternatives(subject: Subject) -> list[x509.GeneralName]:
    names: Iterable[str] = subject.names or (() if subject.addresses else (subject.user.replace(":", "."),))
    return [
        *(x509.DNSName(name) for name in names),
        *(x509.IPAddress(ipaddress.ip_address(address)) for address in subject.addresses),
    ]


def _pem(key: ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )


def _issued_by(authority: x509.Certificate) -> x509.AuthorityKeyIdentifier:
    """Return the authority's key identifier. Python from 3.13 on requires it in certificates (VERIFY_X509_STRICT)."""
    identifier = authority.extensions.get_extension_for_class(x509.SubjectKeyIdentifier).value
    return x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(identifier)


_SIGNS_CERTIFICATES = x509.KeyUsage(
    digital_signature=True, content_commitment=False, key_encipherment=False, data_encipherment=False,
    key_agreement=False, key_cert_sign=True, crl_sign=True, encipher_only=False, decipher_only=False,
)  # fmt: skip
