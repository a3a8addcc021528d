"""Submounts in pods: their Kubernetes volumes, and what the node's entry mounts into the jail."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from components.config import Config
from components.config.nodes.submounts import LocalVolume, Submount
from components.config.values.quantities import memory_mib
from components.kubernetes.manifest import labels
from contract import paths
from contract.pod_variables import SubmountKey


@dataclass(frozen=True, slots=True)
class Submounts:
    """A pod's submounts, as fields of its spec.

    Args:
        volumes: Volumes of the pod.
        mounts: Mounts of its container, below paths.SUBMOUNTS, where no job or login sees them.
        variable: Their entries in SLURM_JAIL, in the configuration's order.
    """

    volumes: list[dict[str, Any]]
    mounts: list[dict[str, Any]]
    variable: list[dict[str, Any]]


def in_pod(config: Config, component: str, submounts: Sequence[Submount]) -> Submounts:
    """Return the submounts of a pod of this component."""
    volumes: dict[str, dict[str, Any]] = {}
    mounts: list[dict[str, Any]] = []
    variable: list[dict[str, Any]] = []
    for number, submount in enumerate(submounts):
        if submount.memory is not None:
            variable.append({SubmountKey.PATH: submount.path, SubmountKey.MEMORY_MIB: memory_mib(submount.memory)})
            continue
        source = _source(config, component, submount)
        # Two submounts of one claim share a volume: kubelet would wait for ever for a second volume of it.
        shared = next((name for name, known in volumes.items() if known == source), None)
        volume = shared if shared and submount.claim else f"submount-{number}"
        volumes.setdefault(volume, source)
        read_only = {"readOnly": True} if submount.claim and submount.claim.read_only else {}
        sub_path = {"subPath": submount.claim.sub_path} if submount.claim and submount.claim.sub_path else {}
        place = f"{paths.SUBMOUNTS}/{number}"
        mounts.append({"name": volume, "mountPath": place, **sub_path, **read_only})
        everybodys: dict[str, Any] = {SubmountKey.EVERYBODYS: True} if submount.local or submount.empty_dir else {}
        shown: dict[str, Any] = {SubmountKey.READ_ONLY: True} if read_only else {}
        variable.append({SubmountKey.PATH: submount.path, SubmountKey.SOURCE: place, **everybodys, **shown})
    return Submounts([{"name": name, **source} for name, source in volumes.items()], mounts, variable)


def _source(config: Config, component: str, submount: Submount) -> dict[str, Any]:
    """Return the source of a submount's volume."""
    if submount.local is not None:
        return {"ephemeral": {"volumeClaimTemplate": _template(config, component, submount.local)}}
    if submount.empty_dir is not None:
        return {"emptyDir": {"sizeLimit": submount.empty_dir}}
    if submount.claim is not None:
        return {"persistentVolumeClaim": {"claimName": submount.claim.name}}
    return {"hostPath": {"path": submount.host_path, "type": "Directory"}}


def _template(config: Config, component: str, local: LocalVolume) -> dict[str, Any]:
    spec: dict[str, Any] = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": local.size}}}
    if local.class_name is not None:
        spec["storageClassName"] = local.class_name
    return {"metadata": {"labels": labels(config, component)}, "spec": spec}
