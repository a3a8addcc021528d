"""The API server is known to aggregated APIs by a certificate that no other client can have."""

from __future__ import annotations

from pathlib import Path

from cryptography import x509

from devcluster.apiserver import control_plane
from devcluster.apiserver.control_plane import Ports
from devcluster.apiserver.pki import Authority


def test_the_front_proxys_certificate_is_of_an_authority_of_its_own_as_kubeadm_makes_it(tmp_path: Path) -> None:
    given = control_plane.credentials(Authority(tmp_path), ("127.0.0.1",))
    command = control_plane.api_server_command(Path("kube-apiserver"), given, Ports(), bind="::", advertise="10.0.0.1")

    options = dict(word.removeprefix("--").split("=", 1) for word in command if word.startswith("--") and "=" in word)
    front = x509.load_pem_x509_certificate(Path(options["requestheader-client-ca-file"]).read_bytes())
    shown = x509.load_pem_x509_certificate(Path(options["proxy-client-cert-file"]).read_bytes())
    shown.verify_directly_issued_by(front)
    assert shown.subject.rfc4514_string() == f"CN={options['requestheader-allowed-names']}"
    assert Path(options["proxy-client-key-file"]).exists()
    clients = x509.load_pem_x509_certificate(Path(options["client-ca-file"]).read_bytes())
    assert front.public_key() != clients.public_key()
