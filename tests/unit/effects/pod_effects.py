"""Options of pods: one of each, and what it makes of the pods of each part of Slurm."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final

from pydantic import BaseModel

from components.config import Config
from components.config.model import model_of
from components.config.pods.pod_options import NodePodOptions, PlacedPodOptions, PodOptions
from tests.unit.effects.declared import body
from tests.unit.samples import OTHER_IMAGE

TERM: Final = {"matchExpressions": [{"key": "pool", "operator": "In", "values": ["a", "b"]}]}
NEAR: Final = {
    "labelSelector": {"matchLabels": {"app": "cache"}, "matchExpressions": TERM["matchExpressions"]},
    "namespaces": ["caches"],
    "topologyKey": "kubernetes.io/hostname",
}
PODS: Final = {
    "requiredDuringSchedulingIgnoredDuringExecution": [NEAR],
    "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 7, "podAffinityTerm": NEAR}],
}
AFFINITY: Final = {
    "nodeAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [TERM]},
        "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 5, "preference": TERM}],
    },
    "podAffinity": PODS,
    "podAntiAffinity": PODS,
}
FULL: Final[dict[str, Any]] = {
    "labels": {"team": "hpc"},
    "annotations": {"example.com/scrape": "true"},
    "affinity": AFFINITY,
    "topologySpreadConstraints": [{"maxSkew": 2, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule"}],
    "priorityClassName": "high",
    "schedulerName": "volcano",
    "env": {"HTTPS_PROXY": "http://proxy"},
    "volumes": [
        {"name": "a", "configMap": "settings"},
        {"name": "b", "secret": "licence"},
        {"name": "c", "claim": "data"},
        {"name": "d", "emptyDir": "1Gi"},
        {"name": "e", "hostPath": "/mnt/raid/logs"},
    ],
    "volumeMounts": [
        {"name": "a", "mountPath": "/data/a", "subPath": "x/y"},
        {"name": "d", "mountPath": "/data/d", "readOnly": False},
    ],
    "sidecars": [
        {
            "name": "shipper",
            "image": OTHER_IMAGE,
            "command": ["/ship"],
            "args": ["-v"],
            "env": {"LEVEL": "info"},
            "runAsUser": 1234,
            "resources": {"cpu": "20m", "memory": "99Mi"},
            "volumeMounts": [{"name": "e", "mountPath": "/logs", "subPath": "z", "readOnly": False}],
        }
    ],
}
TOLERATION: Final = {"key": "k", "operator": "Equal", "value": "v", "effect": "NoSchedule"}
PLACED: Final = {**FULL, "nodeSelector": {"pool": "a"}, "tolerations": [TOLERATION]}
SIDECAR: Final = {
    "name": "shipper",
    "image": OTHER_IMAGE,
    "imagePullPolicy": "IfNotPresent",
    "restartPolicy": "Always",
    "command": ["/ship"],
    "args": ["-v"],
    "env": [{"name": "LEVEL", "value": "info"}],
    "volumeMounts": [{"name": "site-e", "mountPath": "/logs", "subPath": "z"}],
    "resources": {"requests": {"cpu": "20m", "memory": "99Mi"}, "limits": {"memory": "99Mi"}},
    "securityContext": {
        "allowPrivilegeEscalation": False,
        "capabilities": {"drop": ["ALL"]},
        "runAsNonRoot": True,
        "runAsUser": 1234,
        "runAsGroup": 1234,
    },
}
VOLUMES: Final = [
    {"name": "site-a", "configMap": {"name": "settings"}},
    {"name": "site-b", "secret": {"secretName": "licence"}},
    {"name": "site-c", "persistentVolumeClaim": {"claimName": "data"}},
    {"name": "site-d", "emptyDir": {"sizeLimit": "1Gi"}},
    {"name": "site-e", "hostPath": {"path": "/mnt/raid/logs", "type": "Directory"}},
]
MOUNTS: Final = [
    {"name": "site-a", "mountPath": "/data/a", "subPath": "x/y", "readOnly": True},
    {"name": "site-d", "mountPath": "/data/d"},
]
PARTS: Final[dict[str, tuple[str, str, type[PodOptions]]]] = {
    "nodeSets.0.pod": ("StatefulSet", "cpu", NodePodOptions),
    "login.pod": ("StatefulSet", "slurm-login", PlacedPodOptions),
    "login.sets.0.pod": ("StatefulSet", "slurm-login-data", PlacedPodOptions),
    "controller.pod": ("StatefulSet", "slurm-controller", PlacedPodOptions),
    "accounting.pod": ("StatefulSet", "slurm-accounting", PlacedPodOptions),
    "rest.pod": ("Deployment", "slurm-rest", PlacedPodOptions),
}
"""Path of the options → the workload that they are about, and their model."""


def leaves(model: type[BaseModel], prefix: str) -> Iterator[str]:
    """Paths of all fields of a model."""
    for info in model.model_fields.values():
        inner = model_of(info.annotation)
        path = f"{prefix}.{info.alias}"
        yield from [path] if inner is None else leaves(inner, path)


PATHS: Final = {path for at, (_, _, model) in PARTS.items() for path in leaves(model, at)}


def given(model: type[BaseModel], value: Any, prefix: str) -> Iterator[str]:
    """Paths of the fields of a model that a configuration sets."""
    for info in model.model_fields.values():
        inner, path = model_of(info.annotation), f"{prefix}.{info.alias}"
        for row in value if isinstance(value, list) else [value]:
            if info.alias in row:
                yield from [path] if inner is None else given(inner, row[info.alias], path)


def template(at: str) -> Callable[[Config], Any]:
    """Reads the pod template of a part."""
    kind, name, _ = PARTS[at]
    return lambda config: body(config, kind, name)["spec"]["template"]
