"""Common parts of the pods of all Slurm daemons."""

import json
from collections.abc import Iterable, Mapping
from typing import Any, Final

from components.config import Config
from components.config.pods.resources import PodResources
from components.config.values.images import image_revision
from components.kubernetes.manifest import REPLACEABLE, SKIP_AWAIT, Manifest, declared, labels, selector
from components.pods.submounts import Submounts
from contract import names, paths
from contract.pod_variables import JailKey

RUN_SIZE: Final = "64Mi"
"""Size of /run, which holds sockets, pid files and mount points in the pod's memory."""

PARALLEL: Final = "Parallel"
"""With OrderedReady, a pod that never became ready would stay after its cause (a wrong password, say) is gone."""

_EVER_TOLERATED: Final = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")


def environment(variables: Mapping[str, Any]) -> list[dict[str, str]]:
    """Return environment variables with JSON values. Equal values give equal text."""
    return [
        {"name": name, "value": json.dumps(value, sort_keys=True, separators=(",", ":"))}
        for name, value in variables.items()
    ]


def slurm_container(config: Config, role: str, **more: Any) -> dict[str, Any]:
    """Return a container of the slurm image.

    Args:
        config: The configuration.
        role: Argument of the entry: controller, rest, worker, login or populate.
        more: Further fields of the container.
    """
    return {
        "name": role,
        "image": config.images.reference(config.images.slurm),
        "imagePullPolicy": str(config.images.pull_policy),
        "args": [role],
        "terminationMessagePolicy": "FallbackToLogsOnError",
        **more,
    }


def ready_probe(role: str, period_seconds: int = 5, failures: int = 3) -> dict[str, Any]:
    """Return a readiness probe by the image's script, which reads what the pod's entry last found out.

    Args:
        role: argument of the pod's entry.
        period_seconds: time between two probes.
        failures: so many in a row make the pod not ready.
    """
    return {
        "exec": {"command": [paths.READY_PROBE, role]},
        "periodSeconds": period_seconds,
        "timeoutSeconds": 10,
        "failureThreshold": failures,
    }


def resources(pod: PodResources) -> dict[str, Any]:
    """Return requests and limits. CPU has no limit: a throttled daemon slows the whole cluster down."""
    return {"requests": {"cpu": pod.cpu, "memory": pod.memory}, "limits": {"memory": pod.memory}}


def jail_volume(config: Config) -> dict[str, Any]:
    """Return the volume of the jail in a pod."""
    claim = config.jail.storage.existing_claim or names.JAIL
    return {"name": "jail", "persistentVolumeClaim": {"claimName": claim}}


def run_volume() -> dict[str, Any]:
    """Return the volume for /run of a pod, in memory."""
    return {"name": "run", "emptyDir": {"medium": "Memory", "sizeLimit": RUN_SIZE}}


def scratch_volumes() -> list[dict[str, Any]]:
    """The run folder of a daemon without jobs, in memory, and its /tmp."""
    return [
        {"name": "run", "emptyDir": {"medium": "Memory", "sizeLimit": "16Mi"}},
        {"name": "tmp", "emptyDir": {}},
    ]


def jail_variable(config: Config, submounts: Submounts | None = None, image: str | None = None) -> dict[str, Any]:
    """Return the value of SLURM_JAIL: the root of `jail.image` or of another image, and the paths that lie over it."""
    return {
        JailKey.REVISION: image_revision(image or config.jail.image),
        JailKey.PERSISTENT: config.jail.persistent,
        JailKey.TMP_MIB: config.jail.tmp_mib,
        **({JailKey.SUBMOUNTS: submounts.variable} if submounts and submounts.variable else {}),
    }


def ever_tolerated() -> list[dict[str, Any]]:
    """Return tolerations without a time limit: by default Kubernetes deletes workers 300 s after a kubelet's outage."""
    return [{"key": key, "operator": "Exists", "effect": "NoExecute"} for key in _EVER_TOLERATED]


def short_names(config: Config, *services: str) -> dict[str, Any]:
    """Return dnsConfig for short names of pods, in jobs too: h100-0 for h100-0.slurm-workers.<namespace>.svc.…."""
    suffix = f"{config.cluster.namespace}.svc.{config.cluster.cluster_domain}"
    return {"searches": [f"{service}.{suffix}" for service in services]}


def slurm_pod_spec(
    config: Config, containers: Iterable[Mapping[str, Any]], volumes: Iterable[Mapping[str, Any]], **more: Any
) -> dict[str, Any]:
    """Return the spec of a pod of Slurm.

    Args:
        config: The configuration.
        containers: Its containers.
        volumes: Its volumes.
        more: Further fields of the spec, or other values for those set here.
    """
    spec: dict[str, Any] = {
        "automountServiceAccountToken": False,
        # Jobs would inherit the Service variables of a busy namespace.
        "enableServiceLinks": False,
        "dnsConfig": short_names(config, names.WORKERS),
        "containers": list(containers),
        "volumes": list(volumes),
        **more,
    }
    if config.images.pull_secrets:
        spec["imagePullSecrets"] = [{"name": name} for name in config.images.pull_secrets]
    return spec


def pod_template(config: Config, component: str, spec: Mapping[str, Any], **more_labels: str) -> dict[str, Any]:
    """Return a pod template of a component."""
    return {"metadata": {"labels": labels(config, component, **more_labels)}, "spec": dict(spec)}


def stateful_set(
    config: Config, name: str, component: str, template: Mapping[str, Any], *, service: str, **more: Any
) -> Manifest:
    """A StatefulSet whose pods may be deleted with it.

    Args:
        config: The configuration.
        name: Its name.
        component: The component of its pods.
        template: Their template.
        service: The Service that gives them their names.
        more: Further fields of its spec, or other values for those set here.
    """
    spec = {
        "serviceName": service,
        "replicas": 1,
        "selector": {"matchLabels": selector(config, component)},
        "template": dict(template),
        **more,
    }
    body = declared(config, "apps/v1", "StatefulSet", name, component, {"spec": spec}, annotations=REPLACEABLE)
    return Manifest(body)


def headless_service(config: Config, name: str, component: str, port_name: str, port: int) -> Manifest:
    """Return a headless Service that gives every pod of a component a DNS name, also before it is ready."""
    spec = {
        "clusterIP": "None",
        "publishNotReadyAddresses": True,
        "selector": selector(config, component),
        "ports": [{"name": port_name, "port": port, "targetPort": port, "protocol": "TCP"}],
    }
    # Pulumi would wait for pods behind the Service, which come later.
    return Manifest(declared(config, "v1", "Service", name, component, {"spec": spec}, annotations=SKIP_AWAIT))


def standing_service(config: Config, name: str, component: str, port_name: str, port: int) -> Manifest:
    """Return a Service with an address. Its name resolves while no pod exists, and connections are refused at once.

    A headless Service has no DNS record then, and slurmctld waits half a minute for each lookup, or ends.
    """
    spec = {
        "publishNotReadyAddresses": True,
        "selector": selector(config, component),
        "ports": [{"name": port_name, "port": port, "targetPort": port, "protocol": "TCP"}],
    }
    return Manifest(declared(config, "v1", "Service", name, component, {"spec": spec}, annotations=SKIP_AWAIT))
