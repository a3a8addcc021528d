"""Fields of submounts, each with its effect: a base configuration, what is changed in it, and what that does."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, Final

from components import slurm_cluster
from components.config import Config
from contract import paths
from tests.unit.samples import changed

Probe = Callable[[Config], Any]

EVERY_KIND: Final = [
    {"path": "/scratch", "local": {"size": "6Ti", "className": "nvme"}},
    {"path": "/spill", "emptyDir": "10Gi"},
    {"path": "/mnt/memory", "memory": "64Mi"},
    {"path": "/datasets", "claim": {"name": "data", "subPath": "sets/public", "readOnly": True}},
    {"path": "/models", "claim": {"name": "data"}},
    {"path": "/mnt/raid", "hostPath": "/mnt/raid/jobs"},
]
"""One of each, and a claim that two of them show."""
HOST_PATHS: Final = changed("jail.allowedHostPaths", ["/mnt/raid"])
EVERYWHERE: Final = changed("login.submounts", EVERY_KIND, changed("nodeSets.0.submounts", EVERY_KIND, HOST_PATHS))


def pod(config: Config, name: str) -> Any:
    """The pod spec of a StatefulSet."""
    found = next(each for each in slurm_cluster.manifests(config) if (each.kind, each.name) == ("StatefulSet", name))
    return found.body["spec"]["template"]["spec"]


def variable(config: Config, name: str) -> list[dict[str, Any]]:
    """Return what SLURM_JAIL says of submounts."""
    environment = {each["name"]: each["value"] for each in pod(config, name)["containers"][0]["env"]}
    found: list[dict[str, Any]] = json.loads(environment["SLURM_JAIL"])["submounts"]
    return found


def mounts(config: Config, name: str) -> list[dict[str, Any]]:
    """The container's mounts of submounts."""
    every = pod(config, name)["containers"][0]["volumeMounts"]
    return [each for each in every if each["mountPath"].startswith(f"{paths.SUBMOUNTS}/")]


def volume(config: Config, name: str) -> Any:
    """The last volume of the pod, which is the submount's."""
    return pod(config, name)["volumes"][-1]


def _of(name: str, base: Mapping[str, Any], at: str) -> list[tuple[str, Mapping[str, Any], Any, Probe, Any]]:
    """Fields of one list of submounts; each base has one submount."""

    def one(**source: Any) -> Mapping[str, Any]:
        return changed(at, [{"path": "/scratch", **source}], base)

    local, claim = one(local={"size": "1Gi"}), one(claim={"name": "data"})

    def template(config: Config) -> Any:
        return volume(config, name)["ephemeral"]["volumeClaimTemplate"]["spec"]

    return [
        (f"{at}.0.path", local, "/nvme", lambda c: variable(c, name)[0]["path"], "/nvme"),
        (f"{at}.0.local.size", local, "6Ti", lambda c: template(c)["resources"]["requests"]["storage"], "6Ti"),
        (f"{at}.0.local.className", local, "nvme", lambda c: template(c)["storageClassName"], "nvme"),
        (f"{at}.0.emptyDir", one(emptyDir="1Gi"), "9Gi", lambda c: volume(c, name)["emptyDir"], {"sizeLimit": "9Gi"}),
        (f"{at}.0.memory", one(memory="1Mi"), "64Mi", lambda c: variable(c, name)[0]["memoryMib"], 64),
        (
            f"{at}.0.claim.name",
            claim,
            "other",
            lambda c: volume(c, name)["persistentVolumeClaim"],
            {"claimName": "other"},
        ),
        (f"{at}.0.claim.subPath", claim, "a/b", lambda c: mounts(c, name)[0]["subPath"], "a/b"),
        (f"{at}.0.claim.readOnly", claim, True, lambda c: mounts(c, name)[0]["readOnly"], True),
        (f"{at}.0.claim.readOnly", claim, True, lambda c: variable(c, name)[0]["readOnly"], True),
        (
            f"{at}.0.hostPath",
            one(hostPath="/mnt/raid"),
            "/mnt/raid/b",
            lambda c: volume(c, name)["hostPath"],
            {"path": "/mnt/raid/b", "type": "Directory"},
        ),
    ]


EFFECTS: Final = [
    *_of("cpu", HOST_PATHS, "nodeSets.0.submounts"),
    *_of("slurm-login", HOST_PATHS, "login.submounts"),
    *_of("slurm-login-data", changed("login.sets", [{"name": "data"}], HOST_PATHS), "login.sets.0.submounts"),
]
PATHS: Final = {*(path for path, *_ in EFFECTS), "jail.allowedHostPaths"}
"""Fields whose effects are here, or that others are nothing without."""
