from __future__ import annotations

from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.x509.verification import PolicyBuilder, Store

from devcluster.apiserver.pki import Authority, Subject


def test_a_certificate_is_kept_until_its_subject_changes(tmp_path: Path) -> None:
    first = Authority(tmp_path).issue("server", Subject("s", addresses=("10.0.0.1",))).certificate.read_bytes()

    again = Authority(tmp_path).issue("server", Subject("s", addresses=("10.0.0.1",))).certificate.read_bytes()
    moved = Authority(tmp_path).issue("server", Subject("s", addresses=("10.0.0.2",))).certificate.read_bytes()

    assert again == first
    assert moved != first


def test_a_certificate_of_an_authority_that_is_gone_is_issued_anew(tmp_path: Path) -> None:
    pair = Authority(tmp_path).issue("server", Subject("s"))
    (tmp_path / "ca.crt").unlink()

    authority = Authority(tmp_path)
    authority.issue("server", Subject("s"))

    signer = x509.load_pem_x509_certificate(authority.certificate.read_bytes())
    x509.load_pem_x509_certificate(pair.certificate.read_bytes()).verify_directly_issued_by(signer)


def test_keys_are_readable_by_their_owner_only(tmp_path: Path) -> None:
    authority = Authority(tmp_path)

    keys = [authority.key, authority.issue("x", Subject("x")).key, authority.service_account_keys().key]

    assert [oct(key.stat().st_mode & 0o777) for key in keys] == ["0o600"] * 3


def test_a_certificate_passes_the_strict_verification_of_new_pythons(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    pair = authority.issue("server", Subject("server", names=("localhost",)))
    ca, leaf = (x509.load_pem_x509_certificate(file.read_bytes()) for file in (authority.certificate, pair.certificate))
    verifier = PolicyBuilder().store(Store([ca])).build_server_verifier(x509.DNSName("localhost"))
    assert verifier.verify(leaf, [])[-1] == ca


def test_a_key_beside_the_certificate_of_another_is_issued_anew(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    one, other = authority.issue("one", Subject("s")), authority.issue("other", Subject("s"))
    one.key.write_bytes(other.key.read_bytes())

    again = Authority(tmp_path).issue("one", Subject("s"))

    key = serialization.load_pem_private_key(again.key.read_bytes(), password=None)
    assert x509.load_pem_x509_certificate(again.certificate.read_bytes()).public_key() == key.public_key()
