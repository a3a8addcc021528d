"""Reads the parts of a kubeconfig that a request to the API server needs.

Client certificates, tokens and credential plugins (`exec`) are understood. The Pulumi provider reads kubeconfigs by
itself. This module is for checks before the plan, which may fail without harm.
"""

import base64
import json
import os
import ssl
import subprocess
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import yaml

EXEC_SECONDS: Final = 20
_DEFAULT: Final = "~/.kube/config"
_SERVICE_ACCOUNT: Final = Path("/var/run/secrets/kubernetes.io/serviceaccount")
"""Folder with a pod's own token and CA. Pulumi also uses it where there is no kubeconfig."""


class KubeconfigError(Exception):
    """The kubeconfig is not usable; the text says what is missing."""


@dataclass(frozen=True, slots=True)
class Access:
    """Address and credentials of an API server.

    Attributes:
        server: Its URL.
        tls: Trust and client certificate; None for plain HTTP.
        headers: What authorises each request.
        proxy: URL of the proxy in between.
    """

    server: str
    tls: ssl.SSLContext | None
    headers: Mapping[str, str]
    proxy: str | None = None


def _content(kubeconfig: str | None) -> tuple[Any, Path]:
    """Return the parsed file and the folder that its relative paths start from."""
    if kubeconfig is not None and "\n" in kubeconfig:
        return yaml.safe_load(kubeconfig), Path.cwd()
    named = kubeconfig or os.environ.get("KUBECONFIG") or _DEFAULT
    for file in (Path(name).expanduser() for name in named.split(os.pathsep) if name):
        if file.exists():
            return yaml.safe_load(file.read_text("utf-8")), file.parent
    if named == _DEFAULT and (_SERVICE_ACCOUNT / "token").exists():
        return _in_cluster(), _SERVICE_ACCOUNT
    raise KubeconfigError(f"there is no kubeconfig at {named}")


def _in_cluster() -> Mapping[str, Any]:
    """Return a kubeconfig made of a pod's own token and CA."""
    host, port = os.environ["KUBERNETES_SERVICE_HOST"], os.environ["KUBERNETES_SERVICE_PORT"]
    server = f"https://[{host}]:{port}" if ":" in host else f"https://{host}:{port}"
    return {
        "current-context": "pod",
        "contexts": [{"name": "pod", "context": {"cluster": "pod", "user": "pod"}}],
        "clusters": [{"name": "pod", "cluster": {"server": server, "certificate-authority": "ca.crt"}}],
        "users": [{"name": "pod", "user": {"tokenFile": "token"}}],
    }


def _entry(content: Mapping[str, Any], kind: str, name: Any) -> Mapping[str, Any]:
    for entry in content.get(f"{kind}s") or []:
        if entry.get("name") == name:
            return entry.get(kind) or {}
    raise KubeconfigError(f"the kubeconfig has no {kind} {name}")


def _bytes(part: Mapping[str, Any], key: str, folder: Path) -> bytes | None:
    if data := part.get(f"{key}-data"):
        return base64.b64decode(data)
    return (folder / part[key]).read_bytes() if part.get(key) else None


def _plugin(plugin: Mapping[str, Any]) -> Mapping[str, Any]:
    """Answer of a credential plugin: `status` of an ExecCredential (client.authentication.k8s.io)."""
    variables = {variable["name"]: variable["value"] for variable in plugin.get("env") or []}
    request = {"apiVersion": plugin["apiVersion"], "kind": "ExecCredential", "spec": {"interactive": False}}
    try:
        done = subprocess.run(
            [plugin["command"], *(plugin.get("args") or [])],
            env={**os.environ, **variables, "KUBERNETES_EXEC_INFO": json.dumps(request)},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=EXEC_SECONDS,
            check=True,
        )
    except (OSError, subprocess.SubprocessError) as failure:
        raise KubeconfigError(f"the credential plugin {plugin['command']} failed: {type(failure).__name__}") from None
    status: Mapping[str, Any] = json.loads(done.stdout).get("status") or {}
    return status


def _tls(cluster: Mapping[str, Any], certificate: bytes | None, key: bytes | None, folder: Path) -> ssl.SSLContext:
    authority = _bytes(cluster, "certificate-authority", folder)
    context = ssl.create_default_context(cadata=authority.decode() if authority else None)
    if cluster.get("insecure-skip-tls-verify"):
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    if certificate and key:
        # The standard library reads a client certificate only from files. These are private, and removed at once.
        with tempfile.TemporaryDirectory() as scratch:
            files = Path(scratch, "certificate"), Path(scratch, "key")
            for file, content in zip(files, (certificate, key), strict=True):
                file.touch(mode=0o600)
                file.write_bytes(content)
            context.load_cert_chain(*files)
    return context


def read(kubeconfig: str | None, context: str | None) -> Access:
    """Return the address and credentials of the API server that Pulumi would use.

    Args:
        kubeconfig: Content or path; None for KUBECONFIG's or the user's own.
        context: Its context; None for the current one.

    Raises:
        KubeconfigError: It does not exist, or is not usable.
    """
    try:
        content, folder = _content(kubeconfig)
        chosen = _entry(content, "context", context or content.get("current-context"))
        cluster, user = (_entry(content, kind, chosen.get(kind)) for kind in ("cluster", "user"))
        server = str(cluster["server"])
        answer = _plugin(user["exec"]) if user.get("exec") else {}
        token = answer.get("token") or user.get("token")
        if not token and user.get("tokenFile"):
            token = (folder / user["tokenFile"]).read_text("utf-8").strip()
        certificate, key = (_bytes(user, name, folder) for name in ("client-certificate", "client-key"))
        if answer.get("clientCertificateData"):
            certificate, key = (answer[name].encode() for name in ("clientCertificateData", "clientKeyData"))
        tls = _tls(cluster, certificate, key, folder) if server.startswith("https:") else None
    except (OSError, ValueError, KeyError, AttributeError, TypeError, yaml.YAMLError) as failure:
        # Without the error's text and cause: both may quote the file.
        raise KubeconfigError(f"the kubeconfig cannot be read ({type(failure).__name__})") from None
    return Access(server, tls, {"Authorization": f"Bearer {token}"} if token else {}, cluster.get("proxy-url"))
