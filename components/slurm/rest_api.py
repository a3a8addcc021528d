"""The REST API: slurmrestd, behind TLS where there are certificates."""

from collections.abc import Mapping
from typing import Any, Final

from components.config import Config
from components.config.pods.resources import PodResources
from components.kubernetes.component import Part
from components.kubernetes.manifest import SKIP_AWAIT, Manifest, declared, selector
from components.pods import pod_security
from components.pods.pod_options import with_options
from components.pods.slurm_pod import environment, pod_template, ready_probe, resources, slurm_container, slurm_pod_spec
from contract import names, paths, pod_variables
from contract.pod_variables import RestKey

_PROXY: Final = PodResources(cpu="10m", memory="128Mi")
"""haproxy's worker held 24 MiB. A change of the certificate runs two workers for a while, beside their master."""


def _scheme(config: Config) -> str:
    return "https" if config.rest_tls else "http"


def url(config: Config) -> str:
    """Return the URL of slurmrestd inside the Kubernetes cluster."""
    host = f"{names.REST}.{config.cluster.namespace}.svc.{config.cluster.cluster_domain}"
    return f"{_scheme(config)}://{host}:{names.SLURMRESTD_PORT}"


def short_url(config: Config) -> str:
    """Return the URL of slurmrestd for pods of the cluster's own namespace."""
    return f"{_scheme(config)}://{names.REST}:{names.SLURMRESTD_PORT}"


def _service(config: Config) -> Manifest:
    spec = {
        "selector": selector(config, "rest"),
        "ports": [
            {
                "name": "slurmrestd",
                "port": names.SLURMRESTD_PORT,
                "targetPort": names.SLURMRESTD_PORT,
                "protocol": "TCP",
            }
        ],
    }
    return Manifest(declared(config, "v1", "Service", names.REST, "rest", {"spec": spec}, annotations=SKIP_AWAIT))


_LISTENS: Final[Mapping[str, Any]] = {
    "ports": [{"name": "slurmrestd", "containerPort": names.SLURMRESTD_PORT}],
    # The probe only checks that it listens. The operator finds out whether it reaches slurmctld.
    "readinessProbe": {"tcpSocket": {"port": names.SLURMRESTD_PORT}, "periodSeconds": 5},
}
_SOCKET_MOUNT: Final = {"name": "socket", "mountPath": paths.REST_RUN}


def _container(config: Config) -> dict[str, Any]:
    # Behind the proxy it listens on a socket of this pod, so no client can reach it without TLS.
    hidden = {"env": environment({pod_variables.REST: {RestKey.SOCKET: True}}), "readinessProbe": ready_probe("rest")}
    return slurm_container(
        config,
        "rest",
        **(hidden if config.rest_tls else _LISTENS),
        resources=resources(config.rest.resources),
        securityContext=pod_security.unprivileged_container(),
        volumeMounts=[
            {"name": "config", "mountPath": paths.ETC_SLURM, "readOnly": True},
            {"name": "tmp", "mountPath": "/tmp"},  # noqa: S108 - the container's own, empty at start
            *([_SOCKET_MOUNT] if config.rest_tls else []),
        ],
    )


def _proxy(config: Config) -> dict[str, Any]:
    """Return the container of haproxy, which ends TLS: Debian's Slurm is built without its own."""
    return slurm_container(
        config,
        "proxy",
        **_LISTENS,
        resources=resources(_PROXY),
        securityContext=pod_security.unprivileged_container(),
        volumeMounts=[
            {"name": "tls", "mountPath": paths.SECRETS_REST_TLS, "readOnly": True},
            {**_SOCKET_MOUNT, "readOnly": True},
        ],
    )


def _deployment(config: Config) -> Manifest:
    containers = [_container(config)]
    volumes: list[dict[str, Any]] = [
        {"name": "config", "configMap": {"name": names.CONFIG_ACTIVE}},
        {"name": "tmp", "emptyDir": {}},
    ]
    if config.rest_tls:
        containers.append(_proxy(config))
        pair = [names.TLS_CERTIFICATE, names.TLS_KEY]
        volumes += [
            {"name": "tls", "secret": pod_security.secret_files(names.REST_TLS, pair)},
            {"name": "socket", "emptyDir": {"medium": "Memory", "sizeLimit": "1Mi"}},
        ]
    pod = slurm_pod_spec(config, containers, volumes, securityContext=pod_security.REST_POD)
    spec = {
        "replicas": 1,
        "selector": {"matchLabels": selector(config, "rest")},
        "template": with_options(config, pod_template(config, "rest", pod), config.rest.pod),
    }
    return Manifest(
        declared(config, "apps/v1", "Deployment", names.REST, "rest", {"spec": spec}, annotations=SKIP_AWAIT)
    )


def manifests(config: Config) -> list[Manifest]:
    """Return the Service and the Deployment of slurmrestd."""
    return [_service(config), _deployment(config)]


class RestApi(Part, manifests=manifests, outputs=lambda config: {"url": url(config)}):
    """slurmrestd, which takes requests signed with the JWT key; it holds no key itself.

    It reads `rest`, `certificates`, `images` and `cluster`.
    """
