"""The dev cluster's storage provisioner: a folder of the node per claim, for ReadWriteMany as for ReadWriteOnce.

It replaces a real shared file system, which a single node does not need. It does not enforce sizes, and it has no
attribute caches, stale handles or locks of a network file system. Run by the node's supervisor as `python -m
devcluster.controllers.storage KUBECONFIG FOLDER NODE`.
"""

from __future__ import annotations

import asyncio
import re
import shutil
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from devcluster.controllers import informer
from devcluster.node.addons import PROVISIONER

CLAIMS = "/api/v1/persistentvolumeclaims"
VOLUMES = "/api/v1/persistentvolumes"
CLASSES = "/apis/storage.k8s.io/v1/storageclasses"
PROVISIONED_BY = "pv.kubernetes.io/provisioned-by"
SELECTED_NODE = "volume.kubernetes.io/selected-node"

Resource = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Provision:
    """Make a folder, then this PersistentVolume."""

    folder: Path
    volume: Resource


@dataclass(frozen=True, slots=True)
class Delete:
    """Delete a folder with all in it, then the PersistentVolume of that name."""

    folder: Path
    name: str


def actions(
    claims: Iterable[Resource], volumes: Iterable[Resource], classes: Iterable[Resource], root: Path, node: str
) -> list[Provision | Delete]:
    """Return the actions to take now.

    Args:
        claims: All PersistentVolumeClaims.
        volumes: All PersistentVolumes.
        classes: All StorageClasses.
        root: Folder that holds the volumes' folders; nothing outside is ever deleted.
        node: Name of the only node.
    """
    volumes = list(volumes)
    ours = {entry["metadata"]["name"]: entry for entry in classes if entry["provisioner"] == PROVISIONER}
    made = {volume["metadata"]["name"] for volume in volumes}
    provisions = [
        Provision(root / _name(claim), _volume(claim, ours[_class(claim)], root, node))
        for claim in claims
        if _class(claim) in ours and _waits(claim, ours[_class(claim)]) and _name(claim) not in made
    ]
    deletions = [
        Delete(folder, volume["metadata"]["name"])
        for volume in volumes
        if _is_released(volume) and (folder := Path(volume["spec"]["local"]["path"])).parent == root
    ]
    return [*provisions, *deletions]


def _class(claim: Resource) -> str:
    return str(claim["spec"].get("storageClassName") or "")


def _name(claim: Resource) -> str:
    return f"pvc-{claim['metadata']['uid']}"


def _waits(claim: Resource, storage_class: Resource) -> bool:
    metadata = claim["metadata"]
    if claim["spec"].get("volumeName") or metadata.get("deletionTimestamp"):
        return False
    if storage_class.get("volumeBindingMode") == "WaitForFirstConsumer":
        return SELECTED_NODE in metadata.get("annotations", {})
    return True


def _is_released(volume: Resource) -> bool:
    return (
        volume["metadata"].get("annotations", {}).get(PROVISIONED_BY) == PROVISIONER
        and volume["spec"]["persistentVolumeReclaimPolicy"] == "Delete"
        and volume.get("status", {}).get("phase") == "Released"
        and not volume["metadata"].get("deletionTimestamp")
    )


def _volume(claim: Resource, storage_class: Resource, root: Path, node: str) -> Resource:
    metadata, spec = claim["metadata"], claim["spec"]
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": _name(claim), "annotations": {PROVISIONED_BY: PROVISIONER}},
        "spec": {
            "capacity": {"storage": spec["resources"]["requests"]["storage"]},
            "accessModes": spec["accessModes"],
            "persistentVolumeReclaimPolicy": storage_class.get("reclaimPolicy", "Delete"),
            "storageClassName": storage_class["metadata"]["name"],
            "volumeMode": spec.get("volumeMode", "Filesystem"),
            "claimRef": {
                "apiVersion": "v1",
                "kind": "PersistentVolumeClaim",
                "namespace": metadata["namespace"],
                "name": metadata["name"],
                "uid": metadata["uid"],
            },
            # A local volume, not a host path: the kubelet then honours fsGroup.
            "local": {"path": str(root / _name(claim))},
            "nodeAffinity": {
                "required": {
                    "nodeSelectorTerms": [
                        {"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "In", "values": [node]}]}
                    ]
                }
            },
        },
    }


class Provisioner:
    """Executes the actions."""

    def __init__(self, kubeconfig: Path, root: Path, node: str) -> None:
        self._api = informer.client(kubeconfig)
        self._informer = informer.Informer(self._api, (CLAIMS, VOLUMES, CLASSES))
        self._root = root
        self._node = node

    async def run(self) -> None:
        """Provision for ever."""
        await self._informer.follow(self._pass)

    async def _pass(self) -> None:
        claims, volumes, classes = (self._informer.objects(path) for path in (CLAIMS, VOLUMES, CLASSES))
        for action in actions(claims, volumes, classes, self._root, self._node):
            if isinstance(action, Provision):
                await self._provision(action)
            else:
                await self._delete(action)

    async def _provision(self, action: Provision) -> None:
        action.folder.mkdir(mode=0o777, exist_ok=True)
        # Like a fresh network volume: root owns it, everybody may write, and fsGroup may restrict that.
        action.folder.chmod(0o777)
        answer = await self._api.post(VOLUMES, json=action.volume)
        if answer.status_code != 409:
            answer.raise_for_status()
        claim = action.volume["spec"]["claimRef"]
        print(f"provisioned {action.folder.name} for {claim['namespace']}/{claim['name']}", flush=True)

    async def _delete(self, action: Delete) -> None:
        assert re.fullmatch(r"pvc-[0-9a-f-]{36}", action.folder.name), action.folder
        if action.folder.exists():
            await asyncio.to_thread(shutil.rmtree, action.folder)
        answer = await self._api.delete(f"{VOLUMES}/{action.name}")
        if answer.status_code != 404:
            answer.raise_for_status()
        print(f"deleted {action.folder.name}", flush=True)


def main() -> None:
    """Run for the cluster, folder and node named by the arguments."""
    kubeconfig, root, node = sys.argv[1:]
    asyncio.run(Provisioner(Path(kubeconfig), Path(root), node).run())


if __name__ == "__main__":
    main()
