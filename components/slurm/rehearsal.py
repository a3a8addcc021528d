"""The rehearsal: a slurmctld of the cluster's own image that tries each new configuration before it is used."""

from typing import Final

from components.config import Config
from components.config.pods import PodResources
from components.kubernetes.component import Part
from components.kubernetes.manifest import SKIP_AWAIT, Manifest, declared, selector
from components.pods import pod_security
from components.pods.slurm_pod import pod_template, resources, slurm_container, slurm_pod_spec
from contract import names, paths

_RESOURCES: Final = PodResources(cpu="10m", memory="192Mi")
"""Idle it holds 20 MiB; slurmctld without jobs and nodes takes 25 MiB more, and more the larger MaxNodeCount is."""


def url() -> str:
    """Where it answers, for the operator in the same namespace."""
    return f"http://{names.REHEARSAL}:{names.REHEARSAL_PORT}"


def _service(config: Config) -> Manifest:
    port = {"name": "rehearsal", "port": names.REHEARSAL_PORT, "targetPort": names.REHEARSAL_PORT, "protocol": "TCP"}
    spec = {"selector": selector(config, "rehearsal"), "ports": [port]}
    body = declared(config, "v1", "Service", names.REHEARSAL, "rehearsal", {"spec": spec}, annotations=SKIP_AWAIT)
    return Manifest(body)


def _deployment(config: Config) -> Manifest:
    container = slurm_container(
        config,
        "rehearsal",
        ports=[{"name": "rehearsal", "containerPort": names.REHEARSAL_PORT}],
        readinessProbe={"tcpSocket": {"port": names.REHEARSAL_PORT}, "periodSeconds": 5},
        resources=resources(_RESOURCES),
        securityContext=pod_security.unprivileged_container(),
        volumeMounts=[
            {"name": "run", "mountPath": paths.CONTROLLER_RUN},
            {"name": "tmp", "mountPath": "/tmp"},  # noqa: S108 - the container's own, empty at start
        ],
    )
    # No key, no configuration, no state: what is tried comes with the question.
    volumes = [
        {"name": "run", "emptyDir": {"medium": "Memory", "sizeLimit": "64Mi"}},
        {"name": "tmp", "emptyDir": {}},
    ]
    pod = slurm_pod_spec(config, [container], volumes, securityContext=pod_security.CONTROLLER_POD)
    spec = {
        "replicas": 1,
        "selector": {"matchLabels": selector(config, "rehearsal")},
        "template": pod_template(config, "rehearsal", pod),
    }
    return Manifest(
        declared(config, "apps/v1", "Deployment", names.REHEARSAL, "rehearsal", {"spec": spec}, annotations=SKIP_AWAIT)
    )


def manifests(config: Config) -> list[Manifest]:
    """The Service and the Deployment of the rehearsal."""
    return [_service(config), _deployment(config)]


class Rehearsal(Part, manifests=manifests, outputs=lambda _: {"url": url()}):
    """Runs a slurmctld of its own on configurations that the operator is about to make active (dry run).

    It reads `images` and `cluster`.
    """
