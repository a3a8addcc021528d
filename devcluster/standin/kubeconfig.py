"""Address and credentials for the API server, from a kubeconfig with a certificate or a token."""

from __future__ import annotations

import base64
import binascii
import dataclasses
import os
import pathlib
import ssl
import tempfile
from collections.abc import Mapping
from typing import Any

import yaml

_OFFICIAL = "which the stand-in provider does not have: use the official plugin"
_REFUSED = {
    "cluster": ("proxy-url", "tls-server-name"),
    "user": ("exec", "auth-provider", "username", "password", "as"),
}


class KubeconfigError(Exception):
    """The kubeconfig cannot be used; the message says which part of it."""


@dataclasses.dataclass(frozen=True, slots=True)
class Connection:
    """A reachable API server, as a kubeconfig describes it."""

    server: str
    tls: ssl.SSLContext | bool
    headers: Mapping[str, str]
    namespace: str


def read(text_or_path: str | None, context: str | None = None) -> Connection:
    """Reads everything that is needed to talk to the API server.

    Args:
        text_or_path: the content of a kubeconfig, or a path; None for `KUBECONFIG` and then `~/.kube/config`.
        context: its context; None for the current one.

    Raises:
        KubeconfigError: it is not there, lacks what it names, or asks for what the stand-in does not have.
    """
    config, folder = _content(text_or_path or os.environ.get("KUBECONFIG") or "~/.kube/config")
    chosen = _named(config, "context", context or str(config.get("current-context", "")))
    server, user = (_named(config, kind, str(chosen.get(kind, ""))) for kind in ("cluster", "user"))
    for kind, entry in (("cluster", server), ("user", user)):
        for key in _REFUSED[kind]:
            if entry.get(key):
                raise KubeconfigError(f"the kubeconfig's {kind} {chosen[kind]!r} has `{key}`, {_OFFICIAL}")
    try:
        return Connection(
            server=str(server["server"]).rstrip("/"),
            tls=_tls(server, user, folder),
            headers=_headers(user, folder),
            namespace=str(chosen.get("namespace") or "default"),
        )
    except (OSError, ssl.SSLError, KeyError, binascii.Error) as error:
        raise KubeconfigError(f"the kubeconfig's credentials cannot be used: {error}") from error


def _content(text_or_path: str) -> tuple[dict[str, Any], pathlib.Path]:
    """Return the parsed file, and the folder from which its relative paths start."""
    is_text = "\n" in text_or_path or "{" in text_or_path
    if not is_text and os.pathsep in text_or_path:
        raise KubeconfigError(f"KUBECONFIG names several files, {_OFFICIAL}")
    path = pathlib.Path("content" if is_text else text_or_path).expanduser()
    try:
        parsed = yaml.safe_load(text_or_path if is_text else path.read_text())
    except OSError as error:
        raise KubeconfigError(f"no kubeconfig at {path}: {error.strerror}") from error
    except yaml.YAMLError:
        # Without the error's text and cause: both would quote lines, which may hold a key.
        raise KubeconfigError("the kubeconfig is not YAML") from None
    if not isinstance(parsed, dict) or not isinstance(parsed.get("clusters"), list):
        raise KubeconfigError("the kubeconfig is none: it has no list `clusters`")
    return parsed, path.parent


def _named(config: Mapping[str, Any], kind: str, name: str) -> dict[str, Any]:
    for entry in config.get(f"{kind}s") or []:
        if entry.get("name") == name:
            return dict(entry.get(kind) or {})
    raise KubeconfigError(f"the kubeconfig has no {kind} named {name!r}")


def _bytes(entry: Mapping[str, Any], key: str, folder: pathlib.Path) -> bytes | None:
    if entry.get(f"{key}-data"):
        return base64.b64decode(entry[f"{key}-data"])
    return (folder / entry[key]).read_bytes() if entry.get(key) else None


def _tls(server: Mapping[str, Any], user: Mapping[str, Any], folder: pathlib.Path) -> ssl.SSLContext:
    authority = _bytes(server, "certificate-authority", folder)
    context = ssl.create_default_context(cadata=authority.decode() if authority else None)
    if server.get("insecure-skip-tls-verify"):
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    certificate, key = (_bytes(user, name, folder) for name in ("client-certificate", "client-key"))
    if certificate and key:
        # OpenSSL takes a client certificate from a file only.
        with tempfile.NamedTemporaryFile(prefix="standin-", suffix=".pem") as pem:
            pem.write(certificate + b"\n" + key)
            pem.flush()
            context.load_cert_chain(pem.name)
    return context


def _headers(user: Mapping[str, Any], folder: pathlib.Path) -> dict[str, str]:
    token = user.get("token")
    if not token and user.get("tokenFile"):
        token = (folder / user["tokenFile"]).read_text().strip()
    return {"Authorization": f"Bearer {token}"} if token else {}
