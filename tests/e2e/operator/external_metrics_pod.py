"""The fake adapter in a pod of the dev cluster, behind the API server's aggregation."""

from __future__ import annotations

import base64
import json
import time
from pathlib import Path
from typing import Any

from devcluster.apiserver.pki import Authority, Subject
from tests.e2e.operator import fake_external_metrics as fake

NAME = "external-metrics"
GROUP, _, VERSION = fake.GROUP_VERSION.partition("/")
API_SERVICE = f"{VERSION}.{GROUP}"


def front_proxy(slurm: Any) -> tuple[str, str]:
    """By what the API server says it may be known to aggregated APIs: an authority, and the name of its certificate."""
    told = slurm.get("-n", "kube-system", "configmap", "extension-apiserver-authentication")["data"]
    (name,) = json.loads(told["requestheader-allowed-names"])
    return told["requestheader-client-ca-file"], name


def operator_metrics(slurm: Any) -> str:
    """Return the URL of the operator's metrics."""
    labels = slurm.get("deployment", "slurm-operator")["spec"]["selector"]["matchLabels"]
    selector = ",".join(f"{key}={value}" for key, value in labels.items())
    (pod,) = slurm.get("pods", "-l", selector, "--field-selector=status.phase=Running")["items"]
    return f"http://{pod['status']['podIP']}:8080/metrics"


def terms(slurm: Any, namespace: str, query: str) -> list[float | None]:
    """The terms of a query, each for itself, as the adapter's pod reads them of the operator."""
    ask = "import os, urllib.request as u; print(u.urlopen(os.environ['SOURCE'], timeout=5).read().decode())"
    text = slurm.kubectl("exec", "-n", namespace, NAME, "--", "python3", "-c", ask).ok()
    return [fake.total(text, [term]) for term in fake.terms(query)]


def is_led_to(slurm: Any, namespace: str) -> bool:
    """Return whether the API server leads to the adapter; if not, have it try again.

    It tries at each change of an APIService, and else after up to 30 s (kube-aggregator's availability controller).

    Raises:
        LookupError: What it met in its last try, and the adapter's last words.
    """
    conditions = slurm.get("apiservice", API_SERVICE).get("status", {}).get("conditions", [])
    available = {each["type"]: each for each in conditions}["Available"]
    if available["status"] == "True":
        return True
    slurm.kubectl("annotate", "--overwrite", "apiservice", API_SERVICE, f"tests/looked={time.time_ns()}").ok()
    raise LookupError(available["message"], said(slurm, namespace))


def said(slurm: Any, namespace: str) -> str:
    """Return the adapter's last words."""
    return str(slurm.kubectl("logs", "-n", namespace, NAME, "--tail=10").text)


def objects(slurm: Any, namespace: str, folder: Path, metric: str, query: str) -> list[dict[str, Any]]:
    """The namespace and what is in it, and last the APIService that leads there.

    Args:
        slurm: The cluster.
        namespace: One that may read the operator's metrics.
        folder: For certificates.
        metric: The name under which it is served.
        query: What the metric is: a sum of series.
    """
    metadata, labels = {"name": NAME, "namespace": namespace}, {"app": NAME}
    authority = Authority(folder)
    served = authority.issue(NAME, Subject(NAME, names=(f"{NAME}.{namespace}.svc",)))
    front_authority, front_name = front_proxy(slurm)
    secret = {
        "tls.crt": served.certificate.read_text(),
        "tls.key": served.key.read_text(),
        "front-proxy-ca.crt": front_authority,
    }
    environment = {
        "METRIC": metric,
        "QUERY": query,
        "SOURCE": operator_metrics(slurm),
        "ALLOWED_NAME": front_name,
    }
    image = slurm.get("pod", "slurm-controller-0")["spec"]["containers"][0]["image"]
    service = {"name": NAME, "namespace": namespace, "port": 443}
    bundle = base64.b64encode(authority.certificate.read_bytes()).decode()
    script = {"fake.py": Path(fake.__file__).read_text()}
    return [
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}},
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": script},
        {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "stringData": secret},
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {**metadata, "labels": labels},
            "spec": _pod(image, environment),
        },
        {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": metadata,
            "spec": {"selector": labels, "ports": [{"port": 443, "targetPort": fake.PORT}]},
        },
        {
            "apiVersion": "apiregistration.k8s.io/v1",
            "kind": "APIService",
            "metadata": {"name": API_SERVICE},
            "spec": {
                "group": GROUP,
                "version": VERSION,
                "groupPriorityMinimum": 100,
                "versionPriority": 100,
                "service": service,
                "caBundle": bundle,
            },
        },
    ]


def _pod(image: str, environment: dict[str, str]) -> dict[str, Any]:
    container = {
        "name": NAME,
        "image": image,
        "command": ["python3", "/program/fake.py"],
        "env": [{"name": key, "value": value} for key, value in environment.items()],
        "volumeMounts": [
            {"name": "program", "mountPath": "/program", "readOnly": True},
            {"name": "tls", "mountPath": "/tls", "readOnly": True},
        ],
        "readinessProbe": {"tcpSocket": {"port": fake.PORT}, "periodSeconds": 1},
    }
    return {
        "automountServiceAccountToken": False,
        "terminationGracePeriodSeconds": 1,
        "securityContext": {"runAsUser": 65534, "runAsGroup": 65534, "fsGroup": 65534},
        "containers": [container],
        "volumes": [
            {"name": "program", "configMap": {"name": NAME}},
            {"name": "tls", "secret": {"secretName": NAME, "defaultMode": 0o440}},
        ],
    }
