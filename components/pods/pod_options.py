"""Additions of a site to Slurm's pods, as fields of their templates."""

import copy
from collections.abc import Mapping, Sequence
from typing import Any

from components.config import Config
from components.config.pods.placement import Affinity
from components.config.pods.pod_options import PodOptions, Sidecar, Volume, VolumeMount
from components.pods.slurm_pod import resources


def with_options(config: Config, template: Mapping[str, Any], options: PodOptions) -> dict[str, Any]:
    """Return a pod template with the options of the site. Without any it stays as it is.

    Args:
        config: The configuration.
        template: The template, whose first container is Slurm's.
        options: The options.
    """
    made = copy.deepcopy(dict(template))
    metadata, spec = made["metadata"], made["spec"]
    own = dict(metadata["labels"])
    metadata["labels"] |= options.labels
    if options.annotations:
        metadata["annotations"] = {**metadata.get("annotations", {}), **options.annotations}
    spec |= _placement(options, own)
    container = spec["containers"][0]
    _extend(container, "env", [{"name": name, "value": value} for name, value in options.env.items()])
    _extend(container, "volumeMounts", _mounts(options.volume_mounts))
    _extend(spec, "volumes", [{"name": _name(volume.name), **_source(volume)} for volume in options.volumes])
    _extend(spec, "initContainers", [_sidecar(config, sidecar) for sidecar in options.sidecars])
    return made


def _extend(fields: dict[str, Any], key: str, more: list[dict[str, Any]]) -> None:
    if more:
        fields[key] = [*fields.get(key, []), *more]


def _placement(options: PodOptions, own: Mapping[str, str]) -> dict[str, Any]:
    """Fields of the pod's spec that say where it runs.

    Args:
        options: The options.
        own: Labels of the pods of this kind.
    """
    spread = [
        {**constraint.model_dump(by_alias=True, mode="json"), "labelSelector": {"matchLabels": dict(own)}}
        for constraint in options.topology_spread_constraints
    ]
    fields = {
        "affinity": _affinity(options.affinity, own) if options.affinity else None,
        "topologySpreadConstraints": spread,
        "priorityClassName": options.priority_class_name,
        "schedulerName": options.scheduler_name,
        # A node set has these by itself.
        "nodeSelector": getattr(options, "node_selector", None),
        "tolerations": [
            toleration.model_dump(by_alias=True, exclude_none=True)
            for toleration in getattr(options, "tolerations", [])
        ],
    }
    return {key: value for key, value in fields.items() if value}


def _affinity(affinity: Affinity, own: Mapping[str, str]) -> dict[str, Any]:
    fields: dict[str, Any] = _without_empty(affinity.model_dump(by_alias=True, mode="json"))
    for key in ("podAffinity", "podAntiAffinity"):
        for terms in fields.get(key, {}).values():
            for term in terms:
                term.get("podAffinityTerm", term).setdefault("labelSelector", {"matchLabels": dict(own)})
    return fields


def _without_empty(value: Any) -> Any:
    """The same without the keys that say nothing: Kubernetes leaves them out, too."""
    if isinstance(value, dict):
        kept = {key: _without_empty(item) for key, item in value.items()}
        return {key: item for key, item in kept.items() if item not in (None, [], {})}
    return [_without_empty(item) for item in value] if isinstance(value, list) else value


def _name(volume: str) -> str:
    """Name of a site's volume in a pod, where no volume of Slurm's has it."""
    return f"site-{volume}"


def _source(volume: Volume) -> dict[str, Any]:
    if volume.config_map is not None:
        return {"configMap": {"name": volume.config_map}}
    if volume.secret is not None:
        return {"secret": {"secretName": volume.secret}}
    if volume.claim is not None:
        return {"persistentVolumeClaim": {"claimName": volume.claim}}
    if volume.empty_dir is not None:
        return {"emptyDir": {"sizeLimit": volume.empty_dir}}
    return {"hostPath": {"path": volume.host_path, "type": "Directory"}}


def _mounts(mounts: Sequence[VolumeMount]) -> list[dict[str, Any]]:
    return [
        {
            "name": _name(mount.name),
            "mountPath": mount.mount_path,
            **({"subPath": mount.sub_path} if mount.sub_path else {}),
            **({"readOnly": True} if mount.read_only else {}),
        }
        for mount in mounts
    ]


def _sidecar(config: Config, sidecar: Sidecar) -> dict[str, Any]:
    """Return a container that Kubernetes starts before Slurm's and ends after it, without any privilege."""
    fields = {
        "command": sidecar.command,
        "args": sidecar.args,
        "env": [{"name": name, "value": value} for name, value in sidecar.env.items()],
        "volumeMounts": _mounts(sidecar.volume_mounts),
    }
    return {
        "name": sidecar.name,
        "image": config.images.reference(sidecar.image),
        "imagePullPolicy": str(config.images.pull_policy),
        "restartPolicy": "Always",
        **{key: value for key, value in fields.items() if value},
        "resources": resources(sidecar.resources),
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"]},
            "runAsNonRoot": True,
            "runAsUser": sidecar.run_as_user,
            "runAsGroup": sidecar.run_as_user,
        },
    }
