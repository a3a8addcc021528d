"""Fields that decide a declared pod's rights, in the API server's form: with defaults, without empty fields."""

from collections.abc import Mapping
from typing import Any, Final

POD_FIELDS: Final = (
    "automountServiceAccountToken",
    "hostIPC",
    "hostNetwork",
    "hostPID",
    "hostUsers",
    "nodeName",
    "runtimeClassName",
    "securityContext",
    "serviceAccountName",
    "shareProcessNamespace",
)
CONTAINER_FIELDS: Final = (
    "args",
    "command",
    "env",
    "envFrom",
    "image",
    "lifecycle",
    "livenessProbe",
    "readinessProbe",
    "securityContext",
    "startupProbe",
    "volumeDevices",
    "volumeMounts",
    "workingDir",
)
"""Other fields give no rights, and the API server may fill them in: resources, ports, scheduling."""
UNBOUND_VOLUMES: Final = ("emptyDir", "ephemeral")
"""Volumes that begin empty: that they are declared counts, and not their size, which the API server writes anew."""

_PROBES: Final = ("livenessProbe", "readinessProbe", "startupProbe")
_PROBE_DEFAULTS: Final = {"timeoutSeconds": 1, "periodSeconds": 10, "successThreshold": 1, "failureThreshold": 3}
_FILE_MODE: Final = 0o644


def rights(template: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of a pod template that decide the pod's rights.

    Args:
        template: A workload's `spec.template`.

    Returns:
        `pod`: field → value; `containers` and `volumes`: name → field → value; `annotations`.
    """
    spec = template["spec"]
    containers = [*spec["containers"], *spec.get("initContainers", [])]
    return {
        "pod": {"securityContext": {}} | {key: spec[key] for key in POD_FIELDS if spec.get(key) not in (None, "")},
        "containers": {item["name"]: _container(item) for item in containers},
        "volumes": {item["name"]: _volume(item) for item in spec.get("volumes", [])},
        "annotations": dict(template["metadata"].get("annotations", {})),
    }


def _container(container: Mapping[str, Any]) -> dict[str, Any]:
    fields = {key: container[key] for key in CONTAINER_FIELDS if container.get(key) not in (None, "", [])}
    fields |= {key: _probe(fields[key]) for key in _PROBES if key in fields}
    if "env" in fields:
        fields["env"] = [_variable(variable) for variable in fields["env"]]
    if "volumeMounts" in fields:
        fields["volumeMounts"] = [_without_false(mount, "readOnly") for mount in fields["volumeMounts"]]
    return fields


def _probe(probe: Mapping[str, Any]) -> dict[str, Any]:
    request = {"httpGet": {"scheme": "HTTP", **probe["httpGet"]}} if "httpGet" in probe else {}
    return {**_PROBE_DEFAULTS, **probe, **request}


def _variable(variable: Mapping[str, Any]) -> dict[str, Any]:
    if "fieldRef" in variable.get("valueFrom", {}):
        return {**variable, "valueFrom": {"fieldRef": {"apiVersion": "v1", **variable["valueFrom"]["fieldRef"]}}}
    return {key: value for key, value in variable.items() if (key, value) != ("value", "")}


def _volume(volume: Mapping[str, Any]) -> dict[str, Any]:
    source = {key: value for key, value in volume.items() if key != "name"}
    for kind in ("configMap", "secret", "projected"):
        if kind in source:
            source[kind] = {"defaultMode": _FILE_MODE, **source[kind]}
    if "hostPath" in source:
        source["hostPath"] = {"type": "", **source["hostPath"]}
    if "persistentVolumeClaim" in source:
        source["persistentVolumeClaim"] = _without_false(source["persistentVolumeClaim"], "readOnly")
    return {key: {} if key in UNBOUND_VOLUMES else value for key, value in source.items()}


def _without_false(fields: Mapping[str, Any], name: str) -> dict[str, Any]:
    return {key: value for key, value in fields.items() if key != name or value}
