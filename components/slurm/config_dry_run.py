"""The config dry run: a slurmctld of the cluster's own image tries each new configuration before it is used."""

from typing import Final

from components.config import Config
from components.config.pods.resources import PodResources
from components.kubernetes.component import Part
from components.kubernetes.manifest import SKIP_AWAIT, Manifest, declared, selector
from components.pods import pod_security
from components.pods.slurm_pod import pod_template, resources, slurm_container, slurm_pod_spec
from contract import names, paths

_RESOURCES: Final = PodResources(cpu="10m", memory="192Mi")
"""It holds 20 MiB while idle. A slurmctld without jobs and nodes takes 25 MiB more, and more with MaxNodeCount."""
_COMPONENT: Final = "rehearsal"
"""Label and Pulumi name of its objects, which running clusters have."""


def url() -> str:
    """Return the URL at which the dry run answers the operator of the same namespace."""
    return names.CONFIG_DRY_RUN_URL


def _service(config: Config) -> Manifest:
    number = names.CONFIG_DRY_RUN_PORT
    port = {"name": _COMPONENT, "port": number, "targetPort": number, "protocol": "TCP"}
    spec = {"selector": selector(config, _COMPONENT), "ports": [port]}
    body = declared(config, "v1", "Service", names.CONFIG_DRY_RUN, _COMPONENT, {"spec": spec}, annotations=SKIP_AWAIT)
    return Manifest(body)


def _deployment(config: Config) -> Manifest:
    container = slurm_container(
        config,
        _COMPONENT,
        ports=[{"name": _COMPONENT, "containerPort": names.CONFIG_DRY_RUN_PORT}],
        readinessProbe={"tcpSocket": {"port": names.CONFIG_DRY_RUN_PORT}, "periodSeconds": 5},
        resources=resources(_RESOURCES),
        securityContext=pod_security.unprivileged_container(),
        volumeMounts=[
            {"name": "run", "mountPath": paths.CONTROLLER_RUN},
            {"name": "tmp", "mountPath": "/tmp"},  # noqa: S108 - the container's own, empty at start
        ],
    )
    # It needs no key, configuration or state: the operator sends the files to try.
    volumes = [
        {"name": "run", "emptyDir": {"medium": "Memory", "sizeLimit": "64Mi"}},
        {"name": "tmp", "emptyDir": {}},
    ]
    pod = slurm_pod_spec(config, [container], volumes, securityContext=pod_security.CONTROLLER_POD)
    spec = {
        "replicas": 1,
        "selector": {"matchLabels": selector(config, _COMPONENT)},
        "template": pod_template(config, _COMPONENT, pod),
    }
    content = {"spec": spec}
    return Manifest(
        declared(config, "apps/v1", "Deployment", names.CONFIG_DRY_RUN, _COMPONENT, content, annotations=SKIP_AWAIT)
    )


def manifests(config: Config) -> list[Manifest]:
    """Return the Service and the Deployment of the config dry run."""
    return [_service(config), _deployment(config)]


class ConfigDryRun(Part, manifests=manifests, outputs=lambda _: {"url": url()}):
    """The pod that starts a slurmctld of its own on each configuration before the operator makes it active.

    It reads `images` and `cluster`.
    """

    stored_as = "Rehearsal"
