"""Fields of other makers' operators, certificates and monitoring, each with its effect on what is declared."""

from __future__ import annotations

from typing import Any, Final

from components.addons import gpu_operator
from tests.unit.effects.declared import Effect, Probe, body, has, pod


def issuer(key: str) -> Probe:
    """Reads who signs the certificate of slurmrestd."""
    return lambda config: body(config, "Certificate", "slurm-rest")["spec"]["issuerRef"][key]


def chart_value(part: str, key: str) -> Probe:
    """Reads a value of the GPU operator's chart."""
    return lambda config: gpu_operator.values(config)[part][key]


EFFECTS: Final[list[Effect]] = [
    ("gpuOperator.mode", "install", gpu_operator.is_installed, True),
    ("gpuOperator.driver", "preinstalled", chart_value("driver", "enabled"), False),
    ("gpuOperator.toolkit", "preinstalled", chart_value("toolkit", "enabled"), False),
    ("gpuOperator.cdi", False, chart_value("cdi", "enabled"), False),
    ("gpuOperator.migStrategy", "mixed", chart_value("mig", "strategy"), "mixed"),
    ("gpuOperator.gdrcopy", True, chart_value("gdrcopy", "enabled"), True),
    ("gpuOperator.dcgmExporter", False, chart_value("dcgmExporter", "enabled"), False),
    (
        "gpuOperator.serviceMonitor",
        True,
        lambda c: gpu_operator.values(c)["dcgmExporter"]["serviceMonitor"]["enabled"],
        True,
    ),
    ("gpuOperator.nodeFeatureDiscovery", False, chart_value("nfd", "enabled"), False),
    ("rest.tls", False, lambda c: len(pod(c, "Deployment", "slurm-rest")["containers"]), 1),
    (
        "certificates.mode",
        "existing",
        lambda c: body(c, "Issuer", "slurm-ca")["spec"],
        {"ca": {"secretName": "slurm-ca"}},
    ),
    ("certificates.mode", "existing", lambda c: len(pod(c, "Deployment", "slurm-rest")["containers"]), 2),
    ("certificates.issuer.name", "corp", issuer("name"), "corp"),
    ("certificates.issuer.kind", "ClusterIssuer", issuer("kind"), "ClusterIssuer"),
    (
        "certificates.duration",
        "1000h",
        lambda c: body(c, "Certificate", "slurm-rest")["spec"]["duration"],
        "1000h",
    ),
    (
        "certificates.renewBefore",
        "10h",
        lambda c: body(c, "Certificate", "slurm-rest")["spec"]["renewBefore"],
        "10h",
    ),
    ("monitoring.mode", "off", has("MetricsType=metrics/openmetrics"), False),
    ("monitoring.mode", "off", lambda c: body(c, "Service", "slurm-metrics-jobs"), None),
    ("monitoring.mode", "prometheusOperator", lambda c: body(c, "PodMonitor", "slurm-operator")["kind"], "PodMonitor"),
    (
        "monitoring.interval",
        "15s",
        lambda c: body(c, "PodMonitor", "slurm-controller")["spec"]["podMetricsEndpoints"][0]["interval"],
        "15s",
    ),
    (
        "monitoring.labels",
        {"release": "prometheus"},
        lambda c: body(c, "PodMonitor", "slurm-controller")["metadata"]["labels"]["release"],
        "prometheus",
    ),
    (
        "monitoring.users",
        True,
        lambda c: body(c, "PodMonitor", "slurm-controller")["spec"]["podMetricsEndpoints"][-1]["path"],
        "/metrics/jobs-users-accts",
    ),
    (
        "monitoring.namespaces",
        ["watch"],
        lambda c: body(c, "NetworkPolicy", "slurm-operator")["spec"]["ingress"][0]["from"],
        [{"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "watch"}}}],
    ),
    (
        "monitoring.cidrs",
        ["192.0.2.1/32"],
        lambda c: body(c, "NetworkPolicy", "slurm-controller")["spec"]["ingress"][0]["from"][-1],
        {"ipBlock": {"cidr": "192.0.2.1/32"}},
    ),
]
BASES: Final[dict[str, tuple[str, Any]]] = {
    "certificates.issuer.": ("certificates", {"mode": "existing", "issuer": {"name": "other"}}),
    "certificates.duration": ("certificates.mode", "existing"),
    "certificates.renewBefore": ("certificates.mode", "existing"),
    "rest.tls": ("certificates.mode", "existing"),
    "monitoring.interval": ("monitoring.mode", "prometheusOperator"),
    "monitoring.labels": ("monitoring.mode", "prometheusOperator"),
    "monitoring.users": ("monitoring.mode", "prometheusOperator"),
}
"""Prefix of fields → another field with the value that they need."""
