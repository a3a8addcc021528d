"""The REST API: slurmrestd."""

from collections.abc import Sequence

import pulumi

from components import names, pod_security
from components.component import Component
from components.config import Config
from components.manifest import SKIP_AWAIT, Manifest, declared, selector
from components.slurm_pod import pod_template, resources, slurm_container, slurm_pod_spec


def url(config: Config) -> str:
    """Where slurmrestd answers inside the Kubernetes cluster."""
    return f"http://{names.REST}.{config.cluster.namespace}.svc.{config.cluster.cluster_domain}:{names.SLURMRESTD_PORT}"


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


def _deployment(config: Config) -> Manifest:
    container = slurm_container(
        config,
        "rest",
        ports=[{"name": "slurmrestd", "containerPort": names.SLURMRESTD_PORT}],
        # Whether it may speak to slurmctld is the operator's to find out; here only that it listens.
        readinessProbe={"tcpSocket": {"port": names.SLURMRESTD_PORT}, "periodSeconds": 5},
        resources=resources(config.rest.resources),
        securityContext=pod_security.unprivileged_container(),
        volumeMounts=[
            {"name": "config", "mountPath": names.ETC_SLURM, "readOnly": True},
            {"name": "tmp", "mountPath": "/tmp"},  # noqa: S108 - the container's own, empty at start
        ],
    )
    volumes = [
        {"name": "config", "configMap": {"name": names.CONFIG_ACTIVE}},
        {"name": "tmp", "emptyDir": {}},
    ]
    spec = {
        "replicas": 1,
        "selector": {"matchLabels": selector(config, "rest")},
        "template": pod_template(
            config, "rest", slurm_pod_spec(config, [container], volumes, securityContext=pod_security.REST_POD)
        ),
    }
    return Manifest(
        declared(config, "apps/v1", "Deployment", names.REST, "rest", {"spec": spec}, annotations=SKIP_AWAIT)
    )


def manifests(config: Config) -> list[Manifest]:
    """The Service and the Deployment of slurmrestd."""
    return [_service(config), _deployment(config)]


class RestApi(Component):
    """slurmrestd, which takes requests signed with the JWT key; it holds no key itself.

    Args:
        name: Name of the resource in the stack.
        config: The configuration: `rest`, `images` and `cluster`.
        depends_on: What is there before, such as the ledger.
        opts: Options of the resource.
    """

    def __init__(
        self,
        name: str,
        config: Config,
        depends_on: Sequence[pulumi.Resource] = (),
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        super().__init__(name, opts)
        self.declare(manifests(config), depends_on)
        self.url = url(config)
        self.register_outputs({"url": self.url})
