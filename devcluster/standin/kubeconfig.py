"""Where the API server is and who we are there: a kubeconfig, or a pod's own service account."""

from __future__ import annotations

import base64
import binascii
import dataclasses
import json
import os
import pathlib
import ssl
import subprocess
import tempfile
import urllib.parse
import urllib.request
from collections.abc import Mapping
from typing import Any

import yaml

_SERVICE_ACCOUNT = pathlib.Path("/var/run/secrets/kubernetes.io/serviceaccount")
_EXEC_SECONDS = 30.0


class KubeconfigError(Exception):
    """The kubeconfig cannot be used; the message says which part of it."""


@dataclasses.dataclass(frozen=True, slots=True)
class Connection:
    """A reachable API server, as a kubeconfig describes it."""

    server: str
    tls: ssl.SSLContext | bool
    headers: Mapping[str, str]
    namespace: str
    proxy: str | None = None
    tls_server_name: str | None = None


def load(text_or_path: str | None) -> dict[str, Any]:
    """Reads a kubeconfig.

    Args:
        text_or_path: the content of a kubeconfig, or a path; None for `KUBECONFIG` and then `~/.kube/config`.

    Raises:
        KubeconfigError: it is not there, or not a kubeconfig.
    """
    if not text_or_path:
        return _load_default()
    path = pathlib.Path(text_or_path).expanduser() if "\n" not in text_or_path else None
    if path is not None and _is_file(path):
        return _parse(path.read_text(), path)
    return _parse(text_or_path, None)


def _is_file(path: pathlib.Path) -> bool:
    try:
        return path.is_file()
    except OSError:  # a content that is too long for a path
        return False


def _load_default() -> dict[str, Any]:
    names = [name for name in os.environ.get("KUBECONFIG", "").split(os.pathsep) if name]
    paths = [pathlib.Path(name) for name in names] or [pathlib.Path("~/.kube/config").expanduser()]
    merged: dict[str, Any] = {}
    for path in filter(_is_file, paths):
        for key, value in _parse(path.read_text(), path).items():
            if isinstance(value, list):
                merged[key] = [*merged.get(key, []), *value]
            else:
                merged.setdefault(key, value)
    if merged:
        return merged
    if (_SERVICE_ACCOUNT / "token").is_file():
        return _in_cluster()
    raise KubeconfigError(
        "no kubeconfig: set the provider's `kubeconfig`, KUBECONFIG, or write ~/.kube/config "
        f"(looked at {', '.join(map(str, paths))})"
    )


def _in_cluster() -> dict[str, Any]:
    host, port = os.environ.get("KUBERNETES_SERVICE_HOST", ""), os.environ.get("KUBERNETES_SERVICE_PORT", "443")
    address = f"[{host}]" if ":" in host else host
    return {
        "current-context": "in-cluster",
        "contexts": [
            {
                "name": "in-cluster",
                "context": {
                    "cluster": "in-cluster",
                    "user": "pod",
                    "namespace": (_SERVICE_ACCOUNT / "namespace").read_text().strip(),
                },
            }
        ],
        "clusters": [
            {
                "name": "in-cluster",
                "cluster": {
                    "server": f"https://{address}:{port}",
                    "certificate-authority": str(_SERVICE_ACCOUNT / "ca.crt"),
                },
            }
        ],
        "users": [{"name": "pod", "user": {"tokenFile": str(_SERVICE_ACCOUNT / "token")}}],
    }


_PATHS = {
    "clusters": ("cluster", ("certificate-authority",)),
    "users": ("user", ("client-certificate", "client-key", "tokenFile")),
}


def _parse(text: str, path: pathlib.Path | None) -> dict[str, Any]:
    where = str(path) if path else "the kubeconfig's content"
    if path is None and "\n" not in text and "{" not in text:
        raise KubeconfigError(f"no kubeconfig at {text}")
    try:
        parsed = yaml.safe_load(text)
    except yaml.YAMLError as error:
        # The parser's own message would quote lines, and those may hold a key.
        raise KubeconfigError(f"{where} is not YAML") from error
    if not isinstance(parsed, dict) or not isinstance(parsed.get("clusters"), list):
        raise KubeconfigError(f"{where} is not a kubeconfig: it has no list `clusters`")
    if path is None:
        return parsed
    for section, (inner, keys) in _PATHS.items():
        for entry in parsed.get(section) or []:
            for key in keys:
                if entry.get(inner, {}).get(key):
                    entry[inner][key] = str(path.parent / entry[inner][key])
    return parsed


def _named(config: Mapping[str, Any], section: str, inner: str, name: str) -> dict[str, Any]:
    for entry in config.get(section) or []:
        if entry.get("name") == name:
            return dict(entry.get(inner) or {})
    raise KubeconfigError(f"the kubeconfig has no {inner} named {name!r}")


def active_cluster(config: Mapping[str, Any], context: str | None, cluster: str | None) -> dict[str, Any] | None:
    """The cluster that a kubeconfig points to; None when it points nowhere."""
    try:
        chosen = _named(config, "contexts", "context", context or str(config.get("current-context", "")))
        return _named(config, "clusters", "cluster", cluster or str(chosen.get("cluster", "")))
    except KubeconfigError:
        return None


def connection(config: Mapping[str, Any], context: str | None, cluster: str | None) -> Connection:
    """Everything needed to talk to the API server.

    Raises:
        KubeconfigError: the context, the cluster or the credentials are missing or unreadable.
    """
    chosen = _named(config, "contexts", "context", context or str(config.get("current-context", "")))
    server = _named(config, "clusters", "cluster", cluster or str(chosen.get("cluster", "")))
    user = _named(config, "users", "user", str(chosen["user"])) if chosen.get("user") else {}
    if "exec" in user:
        user = {**user, **_exec_credential(user["exec"])}
    try:
        return Connection(
            server=str(server["server"]).rstrip("/"),
            tls=_tls(server, user),
            headers=_headers(user),
            namespace=str(chosen.get("namespace") or "default"),
            proxy=server.get("proxy-url") or _environment_proxy(str(server["server"])),
            tls_server_name=server.get("tls-server-name"),
        )
    except (OSError, ssl.SSLError, KeyError, binascii.Error) as error:
        raise KubeconfigError(f"the kubeconfig's credentials cannot be used: {error}") from error


def _environment_proxy(server: str) -> str | None:
    parts = urllib.parse.urlsplit(server)
    host = parts.hostname or ""
    if host == "localhost" or host.startswith("127.") or host == "::1" or urllib.request.proxy_bypass(host):
        return None
    return urllib.request.getproxies().get(parts.scheme)


def _bytes(entry: Mapping[str, Any], key: str) -> bytes | None:
    if entry.get(f"{key}-data"):
        return base64.b64decode(entry[f"{key}-data"])
    return pathlib.Path(entry[key]).read_bytes() if entry.get(key) else None


def _tls(server: Mapping[str, Any], user: Mapping[str, Any]) -> ssl.SSLContext | bool:
    authority = _bytes(server, "certificate-authority")
    context = ssl.create_default_context(cadata=authority.decode() if authority else None)
    if server.get("insecure-skip-tls-verify"):
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    certificate, key = _bytes(user, "client-certificate"), _bytes(user, "client-key")
    if certificate and key:
        # OpenSSL takes a client certificate from a file only.
        with tempfile.NamedTemporaryFile(prefix="standin-", suffix=".pem") as pem:
            pem.write(certificate + b"\n" + key)
            pem.flush()
            context.load_cert_chain(pem.name)
    return context


def _headers(user: Mapping[str, Any]) -> dict[str, str]:
    token = user.get("token")
    if not token and user.get("tokenFile"):
        token = pathlib.Path(user["tokenFile"]).read_text().strip()
    if token:
        return {"Authorization": f"Bearer {token}"}
    if user.get("username"):
        pair = f"{user['username']}:{user.get('password', '')}".encode()
        return {"Authorization": f"Basic {base64.b64encode(pair).decode()}"}
    return {}


def _exec_credential(plugin: Mapping[str, Any]) -> dict[str, Any]:
    command = [str(plugin["command"]), *map(str, plugin.get("args") or [])]
    extra = {str(item["name"]): str(item["value"]) for item in plugin.get("env") or []}
    info = {"apiVersion": plugin["apiVersion"], "kind": "ExecCredential", "spec": {"interactive": False}}
    try:
        done = subprocess.run(
            command,
            env={**os.environ, **extra, "KUBERNETES_EXEC_INFO": json.dumps(info)},
            capture_output=True,
            check=True,
            stdin=subprocess.DEVNULL,
            timeout=_EXEC_SECONDS,
        )
        status = json.loads(done.stdout)["status"]
    except (OSError, subprocess.SubprocessError, ValueError, KeyError) as error:
        raise KubeconfigError(
            f"the kubeconfig's credential program {command[0]} gave no credential: {error}"
        ) from error
    pairs = {
        "token": status.get("token"),
        "client-certificate-data": _base64(status.get("clientCertificateData")),
        "client-key-data": _base64(status.get("clientKeyData")),
    }
    return {key: value for key, value in pairs.items() if value}


def _base64(text: str | None) -> str | None:
    return base64.b64encode(text.encode()).decode() if text else None
