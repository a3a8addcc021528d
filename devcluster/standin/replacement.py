"""Which changed fields need a new object: the table of the official provider 4.32."""

from __future__ import annotations

import re
from typing import Final

from devcluster.standin.kinds import Kind, Manifest
from devcluster.standin.settings import Settings

_STATEFUL_SET = (
    "spec.podManagementPolicy",
    "spec.revisionHistoryLimit",
    "spec.selector",
    "spec.serviceName",
    "spec.volumeClaimTemplates",
)
_SELECTOR = ("spec.selector",)
_JOB = ("spec.completions", "spec.parallelism", "spec.selector", "spec.template")
_ROLE_BINDING = ("roleRef",)
_VOLUME_SOURCES = (
    "awsElasticBlockStore", "azureDisk", "azureFile", "cephfs", "cinder", "csi", "fc", "flexVolume", "flocker",
    "gcePersistentDisk", "glusterfs", "hostPath", "iscsi", "local", "nfs", "photonPersistentDisk", "portworxVolume",
    "quobyte", "rbd", "scaleIO", "storageos", "vsphereVolume",
)  # fmt: skip
_POD = (
    "affinity", "automountServiceAccountToken", "dnsConfig", "dnsPolicy", "enableServiceLinks", "hostAliases",
    "hostIPC", "hostNetwork", "hostPID", "hostname", "imagePullSecrets", "nodeName", "nodeSelector", "overhead",
    "preemptionPolicy", "priority", "priorityClassName", "readinessGates", "restartPolicy", "runtimeClassName",
    "schedulerName", "securityContext", "serviceAccount", "serviceAccountName", "shareProcessNamespace", "subdomain",
    "terminationGracePeriodSeconds", "volumes",
)  # fmt: skip
_CONTAINER = (
    "args", "command", "env", "image", "imagePullPolicy", "lifecycle", "livenessProbe", "ports", "readinessProbe",
    "resources", "securityContext", "stdin", "stdinOnce", "terminationMessagePath", "terminationMessagePolicy", "tty",
    "volumeDevices", "volumeMounts", "workingDir",
)  # fmt: skip

_TABLE: Final[dict[tuple[str, str], tuple[str, ...]]] = {
    ("apps/v1", "DaemonSet"): _SELECTOR,
    ("apps/v1", "Deployment"): _SELECTOR,
    ("apps/v1", "StatefulSet"): _STATEFUL_SET,
    ("batch/v1", "Job"): _JOB,
    ("policy/v1beta1", "PodDisruptionBudget"): ("spec",),
    ("rbac.authorization.k8s.io/v1", "ClusterRoleBinding"): _ROLE_BINDING,
    ("rbac.authorization.k8s.io/v1", "RoleBinding"): _ROLE_BINDING,
    ("storage.k8s.io/v1", "StorageClass"): ("parameters", "provisioner"),
    ("v1", "PersistentVolume"): tuple(f"spec.{source}" for source in _VOLUME_SOURCES),
    ("v1", "PersistentVolumeClaim"): (
        "spec.accessModes",
        "spec.selector",
        "spec.storageClassName",
        "spec.volumeName",
    ),
    ("v1", "Pod"): (
        *(f"spec.{field}" for field in _POD),
        *(f"spec.{group}[*].{field}" for group in ("containers", "initContainers") for field in _CONTAINER),
    ),
    ("v1", "ResourceQuota"): ("spec.scopes",),
    ("v1", "Secret"): ("type",),
    ("v1", "Service"): ("spec.clusterIP",),
}

Path = tuple[str | int, ...]


def fields(kind: Kind, manifest: Manifest, settings: Settings, patch: bool) -> tuple[Path, ...]:
    """The places in an object that cannot change without a replacement.

    Args:
        kind: of the object.
        manifest: its new inputs.
        settings: whether ConfigMaps and Secrets may change in place.
        patch: whether the Pulumi resource owns single fields only; those change in place.

    Returns:
        Paths; `*` stands for every index of a list.
    """
    written = ["metadata.name", "metadata.namespace"]
    if not patch:
        written += _TABLE.get((kind.api_version, kind.name), ())
        frozen = manifest.get("immutable") is True
        if kind == Kind("", "v1", "Secret") and (frozen or not settings.secret_mutable):
            written += ["stringData", "data"]
        if kind == Kind("", "v1", "ConfigMap") and (frozen or not settings.config_map_mutable):
            written += ["binaryData", "data"]
    return tuple(tuple(re.findall(r"[^.\[\]]+", path)) for path in written)


def needs_new_object(path: Path, value: object, frozen: tuple[Path, ...]) -> bool:
    """Whether a change at `path` touches one of the frozen places.

    Args:
        path: the place that changed.
        value: its new value; a frozen place inside of it counts when it is set there.
        frozen: the places from `fields`.
    """
    return any(_matches(path, place) or _holds(value, path, place) for place in frozen)


def _same(step: str | int, wanted: str | int) -> bool:
    return step == wanted or (wanted == "*" and isinstance(step, int))


def _matches(path: Path, place: Path) -> bool:
    return len(path) >= len(place) and all(map(_same, path, place))


def _holds(value: object, path: Path, place: Path) -> bool:
    if len(path) >= len(place) or not all(map(_same, path, place)):
        return False
    inner = [value]
    for step in place[len(path) :]:
        if step == "*":
            inner = [item for entry in inner if isinstance(entry, list) for item in entry]
        else:
            inner = [entry[step] for entry in inner if isinstance(entry, dict) and step in entry]
    return bool(inner)
