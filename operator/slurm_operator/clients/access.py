"""Access to the API server: by the pod's service account, else by a kubeconfig."""

from __future__ import annotations

import base64
import os
import ssl
import tempfile
from pathlib import Path

import kopf

SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")


def find() -> kopf.ConnectionInfo:
    """Return the way to the API server. Callers ask before each call, since the kubelet renews the token's file.

    Raises:
        FileNotFoundError: neither a service account nor the file named by KUBECONFIG is there.
    """
    if info := kopf.login_with_kubeconfig():
        return info
    # By address, which works without DNS.
    host, port = os.environ.get("KUBERNETES_SERVICE_HOST", ""), os.environ.get("KUBERNETES_SERVICE_PORT", "443")
    return kopf.ConnectionInfo(
        server=f"https://[{host}]:{port}" if ":" in host else f"https://{host}:{port}",
        ca_path=str(SERVICE_ACCOUNT / "ca.crt"),
        token=(SERVICE_ACCOUNT / "token").read_text().strip(),
    )


def tls(info: kopf.ConnectionInfo) -> ssl.SSLContext:
    """Return a context that trusts the cluster's authority and shows the client certificate, if there is one."""
    authority = base64.b64decode(info.ca_data).decode() if info.ca_data else None
    context = ssl.create_default_context(cafile=info.ca_path, cadata=authority)
    if info.certificate_path:
        context.load_cert_chain(info.certificate_path, info.private_key_path)
    elif info.certificate_data and info.private_key_data:
        # The ssl module takes client keys from files only.
        with tempfile.NamedTemporaryFile() as pair:
            pair.write(base64.b64decode(info.certificate_data) + b"\n" + base64.b64decode(info.private_key_data))
            pair.flush()
            context.load_cert_chain(pair.name)
    return context
