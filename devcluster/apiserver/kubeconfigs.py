"""Kubeconfig files of the embedded cluster, self-contained (certificates inside), readable by root only."""

from __future__ import annotations

import base64
import json
from pathlib import Path

from devcluster.apiserver.pki import KeyPair, write_secret


def write(path: Path, server: str, authority: Path, client: KeyPair, context: str = "devcluster") -> Path:
    """Write a kubeconfig with one context and return its path.

    Args:
        path: The file; it gets mode 600.
        server: URL of the API server.
        authority: The certificate that signed the server's.
        client: What the user shows; its common name is the Kubernetes user.
        context: Name of the cluster, the user and the context.
    """
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": context,
        "clusters": [{"name": context, "cluster": {"server": server, "certificate-authority-data": _data(authority)}}],
        "users": [
            {
                "name": context,
                "user": {
                    "client-certificate-data": _data(client.certificate),
                    "client-key-data": _data(client.key),
                },
            }
        ],
        "contexts": [{"name": context, "context": {"cluster": context, "user": context}}],
    }
    # JSON is YAML, and every reader of kubeconfigs accepts it.
    write_secret(path, (json.dumps(config, indent=1) + "\n").encode())
    return path


def _data(path: Path) -> str:
    return base64.b64encode(path.read_bytes()).decode()
