"""Fields whose change needs a new object: the table of the official provider 4.32."""

from __future__ import annotations

from typing import Final

from devcluster.standin.decisions.kinds import Kind, Manifest
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
_TABLE: Final[dict[tuple[str, str], tuple[str, ...]]] = {
    ("apps/v1", "Deployment"): _SELECTOR,
    ("apps/v1", "StatefulSet"): _STATEFUL_SET,
    ("batch/v1", "Job"): _JOB,
    ("rbac.authorization.k8s.io/v1", "ClusterRoleBinding"): _ROLE_BINDING,
    ("rbac.authorization.k8s.io/v1", "RoleBinding"): _ROLE_BINDING,
    ("v1", "PersistentVolume"): tuple(f"spec.{source}" for source in _VOLUME_SOURCES),
    ("v1", "PersistentVolumeClaim"): (
        "spec.accessModes",
        "spec.selector",
        "spec.storageClassName",
        "spec.volumeName",
    ),
    ("v1", "Secret"): ("type",),
    ("v1", "Service"): ("spec.clusterIP",),
}

Path = tuple[str | int, ...]


def fields(kind: Kind, manifest: Manifest, settings: Settings) -> tuple[Path, ...]:
    """Return the places in an object that cannot change without a replacement.

    Args:
        kind: of the object.
        manifest: its new inputs.
        settings: whether ConfigMaps and Secrets may change in place.

    """
    written = ["metadata.name", "metadata.namespace"]
    written += _TABLE.get((kind.api_version, kind.name), ())
    frozen = manifest.get("immutable") is True
    if kind == Kind("", "v1", "Secret") and (frozen or not settings.secret_mutable):
        written += ["stringData", "data"]
    if kind == Kind("", "v1", "ConfigMap") and (frozen or not settings.config_map_mutable):
        written += ["binaryData", "data"]
    return tuple(tuple(path.split(".")) for path in written)


def needs_new_object(path: Path, value: object, frozen: tuple[Path, ...]) -> bool:
    """Return whether a change at `path` touches one of the frozen places.

    Args:
        path: the place that changed.
        value: its new value; a frozen place inside of it counts when it is set there.
        frozen: the places from `fields`.
    """
    return any(_matches(path, place) or _holds(value, path, place) for place in frozen)


def _matches(path: Path, place: Path) -> bool:
    return path[: len(place)] == place


def _holds(value: object, path: Path, place: Path) -> bool:
    if len(path) >= len(place) or place[: len(path)] != path:
        return False
    for step in place[len(path) :]:
        if not isinstance(value, dict) or step not in value:
            return False
        value = value[step]
    return True
