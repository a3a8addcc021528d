"""Monitoring: how a Prometheus finds the metrics of slurmctld and of the operator.

slurmctld serves its metrics on several paths of its own port (https://slurm.schedmd.com/metrics.html), the operator on
/metrics. Annotations of a pod can name only one path. So in mode `annotations` each path has a Service of its own.
"""

from collections.abc import Sequence
from typing import Any, Final

from components.config import Config
from components.config.addons.monitoring import MonitoringMode
from components.config.program import OperatorMode
from components.kubernetes.component import Part
from components.kubernetes.manifest import SKIP_AWAIT, Manifest, declared, selector
from contract import names

POD_MONITOR: Final = "monitoring.coreos.com/v1"
"""API of the Prometheus operator's PodMonitor."""

_SLURM_PATHS: Final = ("jobs", "nodes", "partitions", "scheduler")
_USERS_PATH: Final = "jobs-users-accts"
_OPERATOR_PATH: Final = "/metrics"


def slurm_paths(config: Config) -> list[str]:
    """Return the paths of slurmctld's port that answer with metrics."""
    paths = [*_SLURM_PATHS, *([_USERS_PATH] if config.monitoring.users else [])]
    return [f"/metrics/{path}" for path in paths]


def _service(config: Config, name: str, component: str, path: str, port: int) -> Manifest:
    annotations = {
        "prometheus.io/scrape": "true",
        "prometheus.io/scheme": "http",
        "prometheus.io/path": path,
        "prometheus.io/port": str(port),
    }
    spec = {
        # It only names an address to scrape, and needs none of its own.
        "clusterIP": "None",
        "selector": selector(config, component),
        "ports": [{"name": "metrics", "port": port, "targetPort": port, "protocol": "TCP"}],
    }
    return Manifest(
        declared(
            config,
            "v1",
            "Service",
            name,
            "monitoring",
            {"spec": spec},
            annotations={**SKIP_AWAIT, **annotations},
            more_labels=config.monitoring.labels,
        )
    )


def _services(config: Config) -> list[Manifest]:
    services = [
        _service(config, f"{names.METRICS}-{path.rpartition('/')[2]}", "controller", path, names.SLURMCTLD_PORT)
        for path in slurm_paths(config)
    ]
    if config.operator.mode is OperatorMode.INSTALL:
        name = f"{names.METRICS}-operator"
        services.append(_service(config, name, "operator", _OPERATOR_PATH, names.OPERATOR_HEALTH_PORT))
    return services


def _pod_monitor(config: Config, name: str, component: str, port_name: str, paths: Sequence[str]) -> Manifest:
    interval = {"interval": config.monitoring.interval} if config.monitoring.interval else {}
    spec = {
        "selector": {"matchLabels": selector(config, component)},
        "namespaceSelector": {"matchNames": [config.cluster.namespace]},
        "podMetricsEndpoints": [{"port": port_name, "path": path, "scheme": "http", **interval} for path in paths],
    }
    more_labels = config.monitoring.labels
    body = declared(config, POD_MONITOR, "PodMonitor", name, "monitoring", {"spec": spec}, more_labels=more_labels)
    return Manifest(body, held=False)


def _pod_monitors(config: Config) -> list[Manifest]:
    monitors = [_pod_monitor(config, names.CONTROLLER, "controller", "slurmctld", slurm_paths(config))]
    if config.operator.mode is OperatorMode.INSTALL:
        monitors.append(_pod_monitor(config, names.OPERATOR, "operator", "health", [_OPERATOR_PATH]))
    return monitors


def scrapers(config: Config) -> list[dict[str, Any]]:
    """Return the peers that may scrape, for a network policy."""
    if config.monitoring.mode is MonitoringMode.OFF:
        return []
    namespaces = [
        {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": name}}}
        for name in config.monitoring.namespaces
    ]
    return [*namespaces, *({"ipBlock": {"cidr": cidr}} for cidr in config.monitoring.cidrs)]


def manifests(config: Config) -> list[Manifest]:
    """Return the Services with annotations, or the PodMonitors."""
    match config.monitoring.mode:
        case MonitoringMode.ANNOTATIONS:
            return _services(config)
        case MonitoringMode.PROMETHEUS_OPERATOR:
            return _pod_monitors(config)
        case MonitoringMode.OFF:
            return []


class Monitoring(Part, manifests=manifests, outputs=lambda config: {"mode": str(config.monitoring.mode)}):
    """Objects that tell a Prometheus where the metrics are. It reads `monitoring`, `operator.mode` and `cluster`."""
