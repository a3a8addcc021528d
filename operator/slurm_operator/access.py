"""How the operator reaches the API server: as a pod by its service account, else by a kubeconfig."""

from __future__ import annotations

import base64
import dataclasses
import os
import ssl
import tempfile
from pathlib import Path
from typing import Any

import yaml

SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")


@dataclasses.dataclass(frozen=True, slots=True)
class Access:
    """Where the API server is and who we are; a token is read anew each time, since the kubelet renews its file."""

    server: str
    authority: bytes
    authority_file: Path | None = None
    token_file: Path | None = None
    token: str | None = None
    certificate: bytes | None = None
    key: bytes | None = None

    def bearer(self) -> str | None:
        """Return the token of now, if tokens are used."""
        return self.token_file.read_text().strip() if self.token_file else self.token

    def tls(self) -> ssl.SSLContext:
        """Return a context that trusts the cluster's authority and shows the client certificate, if there is one."""
        context = ssl.create_default_context(cadata=self.authority.decode())
        if self.certificate and self.key:
            # The ssl module takes client keys from files only.
            with tempfile.NamedTemporaryFile() as pair:
                pair.write(self.certificate + b"\n" + self.key)
                pair.flush()
                context.load_cert_chain(pair.name)
        return context


def find() -> Access:
    """Find the way to the API server.

    Raises:
        FileNotFoundError: neither a service account nor the file named by KUBECONFIG is there.
    """
    if "KUBECONFIG" in os.environ:
        return from_kubeconfig(Path(os.environ["KUBECONFIG"]))
    host, port = os.environ.get("KUBERNETES_SERVICE_HOST", ""), os.environ.get("KUBERNETES_SERVICE_PORT", "443")
    address = f"[{host}]" if ":" in host else host
    file = SERVICE_ACCOUNT / "ca.crt"
    return Access(f"https://{address}:{port}", file.read_bytes(), file, token_file=SERVICE_ACCOUNT / "token")


def from_kubeconfig(path: Path) -> Access:
    """Read the current context of a kubeconfig."""
    config = yaml.safe_load(path.read_text())
    context = _named(config["contexts"], config["current-context"])["context"]
    cluster = _named(config["clusters"], context["cluster"])["cluster"]
    user = _named(config["users"], context["user"])["user"]

    def content(holder: dict[str, Any], key: str) -> bytes | None:
        if f"{key}-data" in holder:
            return base64.b64decode(holder[f"{key}-data"])
        return (path.parent / holder[key]).read_bytes() if key in holder else None

    return Access(
        server=cluster["server"],
        authority=content(cluster, "certificate-authority") or b"",
        token=user.get("token"),
        certificate=content(user, "client-certificate"),
        key=content(user, "client-key"),
    )


def _named(entries: list[dict[str, Any]], name: str) -> dict[str, Any]:
    return next(entry for entry in entries if entry["name"] == name)
