"""Populating the jail: one Job per root, which copies the jail image to the shared volume."""

from typing import Any

from components.config import Config
from components.config.values.images import image_revision
from components.config.values.quantities import duration_seconds
from components.kubernetes.component import Part
from components.kubernetes.manifest import REPLACEABLE, Manifest, declared
from components.pods import pod_security
from components.pods.slurm_pod import (
    environment,
    jail_variable,
    jail_volume,
    pod_template,
    slurm_container,
    slurm_pod_spec,
)
from contract import names, paths, pod_variables
from contract.pod_variables import JailKey

_PAUSE = f"{paths.TOOLS}/pause"
_TOOLS_MOUNT = {"name": "tools", "mountPath": paths.TOOLS}
_SMALL = {"requests": {"cpu": "10m", "memory": "32Mi"}, "limits": {"memory": "32Mi"}}
_COPY = {"requests": {"cpu": "250m", "memory": "256Mi"}, "limits": {"memory": "1Gi"}}
_RETRIES = 3
_TIME_TO_TELL_SECONDS = 60


def users_variable(config: Config) -> list[dict[str, Any]]:
    """Return the value of SLURM_USERS: the first users of a new root."""
    return [user.model_dump(by_alias=True) for user in config.login.users]


def _jail_variable(config: Config, image: str) -> dict[str, Any]:
    """Return the value of SLURM_JAIL for the Job. The size of /tmp belongs to the node, so its change starts no Job."""
    return {key: value for key, value in jail_variable(config, image=image).items() if key != JailKey.TMP_MIB}


def _tools(config: Config) -> dict[str, Any]:
    """Return the init container that brings a static program into the image's container, which may have no programs."""
    return slurm_container(
        config,
        "tools",
        command=["/bin/cp", paths.PAUSE, _PAUSE],
        args=[],
        resources=_SMALL,
        securityContext=pod_security.root_container({}),
        volumeMounts=[_TOOLS_MOUNT],
    )


def _image(config: Config, image: str) -> dict[str, Any]:
    """Return the container of the jail image. It only makes the image's root file system readable."""
    return {
        "name": "image",
        "image": config.images.reference(image),
        "imagePullPolicy": str(config.images.pull_policy),
        "command": [_PAUSE, f"{paths.TOOLS}/pid"],
        "restartPolicy": "Always",
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "resources": _SMALL,
        "securityContext": pod_security.root_container({}),
        "volumeMounts": [_TOOLS_MOUNT],
    }


def _populate(config: Config, image: str) -> dict[str, Any]:
    return slurm_container(
        config,
        "populate",
        env=environment(
            {
                pod_variables.JAIL: _jail_variable(config, image),
                pod_variables.USERS: users_variable(config),
            }
        ),
        resources=_COPY,
        securityContext=pod_security.mounting_container(pod_security.POPULATE_CAPABILITIES),
        volumeMounts=[{"name": "jail", "mountPath": paths.JAIL_VOLUME}, _TOOLS_MOUNT],
    )


def job_name(revision: str) -> str:
    """Return the name of the Job that populates one root of the jail."""
    return f"{names.JAIL}-{revision}"


def images(config: Config) -> list[str]:
    """Return the images of all nodes' roots, the login nodes' first."""
    return [
        *dict.fromkeys(
            [config.jail.image, *(node_set.jail_image or config.jail.image for node_set in config.node_sets)]
        )
    ]


def manifests(config: Config) -> list[Manifest]:
    """Return a Job for each root that the configuration asks for."""
    return [_job(config, image) for image in images(config)]


def _job(config: Config, image: str) -> Manifest:
    name = job_name(image_revision(image))
    seconds = duration_seconds(config.timeouts.populate)
    pod = slurm_pod_spec(
        config,
        [_populate(config, image)],
        [jail_volume(config), {"name": "tools", "emptyDir": {}}],
        initContainers=[_tools(config), _image(config, image)],
        restartPolicy="Never",
        # The image's root is read through its process: /proc/PID/root.
        shareProcessNamespace=True,
        securityContext=pod_security.root_pod(),
    )
    spec = {
        "backoffLimit": _RETRIES,
        # Later than the wait's deadline: Kubernetes would delete the pod before anybody reads why it never got ready.
        "activeDeadlineSeconds": seconds + _TIME_TO_TELL_SECONDS,
        "template": pod_template(config, "jail", pod),
    }
    body = declared(
        config,
        "batch/v1",
        "Job",
        name,
        "jail",
        {"spec": spec},
        # A Job that failed stays failed: the next run makes it anew.
        annotations={**REPLACEABLE, "pulumi.com/replaceUnready": "true"},
    )
    return Manifest(body, held=False)


class JailPopulation(Part, manifests=manifests, outputs=lambda config: {"revision": config.jail.revision}):
    """The roots of the jail, one for each configured image. `waits.jail` declares the waits for them.

    Roots of other images stay on the volume: a former image is used again at once.

    It reads `jail`, the node sets' `jailImage`, `images`, `login.users`, `timeouts.populate`.
    """
