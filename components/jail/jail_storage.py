"""The volume of the jail."""

from collections.abc import Sequence
from typing import Any

import pulumi

from components.claim_guard import ClaimGuard, class_source
from components.config import Config
from components.kubernetes.component import Component
from components.kubernetes.manifest import SKIP_AWAIT, Manifest, declared
from contract import names

_ACCESS = ["ReadWriteMany"]


def volume_name(config: Config) -> str:
    """Name of the PersistentVolume; those are shared by all namespaces."""
    return f"{config.cluster.namespace}-{names.JAIL}"


def _volume_source(config: Config) -> dict[str, Any] | None:
    """What backs a volume that we declare ourselves; None where a storage class makes it."""
    storage = config.jail.storage
    if storage.host_path is not None:
        return {"hostPath": {"path": storage.host_path, "type": "Directory"}}
    if storage.nfs is not None:
        source = {"server": storage.nfs.server, "path": storage.nfs.path}
        return {"nfs": source, "mountOptions": storage.nfs.options}
    return None


def manifests(config: Config) -> list[Manifest]:
    """The claim, and the volume where we know what backs it; nothing for an existing claim."""
    storage = config.jail.storage
    if storage.existing_claim is not None:
        return []
    claim: dict[str, Any] = {"accessModes": _ACCESS, "resources": {"requests": {"storage": storage.size}}}
    manifests: list[Manifest] = []
    if source := _volume_source(config):
        name = volume_name(config)
        volume = {
            "accessModes": _ACCESS,
            "capacity": {"storage": storage.size},
            # The files are not ours to delete: they were there before.
            "persistentVolumeReclaimPolicy": "Retain",
            "claimRef": {
                "apiVersion": "v1",
                "kind": "PersistentVolumeClaim",
                "namespace": config.cluster.namespace,
                "name": names.JAIL,
            },
            **source,
        }
        body = declared(config, "v1", "PersistentVolume", name, "jail", {"spec": volume}, namespaced=False)
        manifests.append(Manifest(body, held=False, retain=storage.retain, protect=storage.protect))
        # An empty class keeps the default class from making another volume.
        claim |= {"storageClassName": "", "volumeName": name}
    elif storage.class_name is not None:
        claim["storageClassName"] = storage.class_name
    # A claim that waits for its first pod would never be ready in Pulumi's eyes.
    body = declared(config, "v1", "PersistentVolumeClaim", names.JAIL, "jail", {"spec": claim}, annotations=SKIP_AWAIT)
    return [*manifests, Manifest(body, retain=storage.retain, protect=storage.protect)]


def sources(config: Config) -> list[str]:
    """What the claim is made from, in words; nothing for an existing one."""
    storage = config.jail.storage
    if storage.existing_claim is not None:
        return []
    if storage.host_path is not None:
        return [f"hostPath {storage.host_path}"]
    if storage.nfs is not None:
        return [f"nfs {storage.nfs.server}:{storage.nfs.path}"]
    return [class_source(storage.class_name)]


class JailStorage(Component):
    """The volume that all nodes share: made by a storage class, on a host path or an NFS export, or existing.

    Args:
        name: Name of the resource in the stack.
        config: The configuration: `jail.storage` and `cluster`.
        depends_on: What is there before, such as the namespace.
        opts: Options of the resource.
    """

    def __init__(
        self,
        name: str,
        config: Config,
        depends_on: Sequence[pulumi.Resource] = (),
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        super().__init__(name, opts)
        guard = [
            ClaimGuard("jail-claim-guard", "jail.storage", source, pulumi.ResourceOptions(parent=self))
            for source in sources(config)
        ]
        self.declare(manifests(config), [*depends_on, *guard])
        self.claim = config.jail.storage.existing_claim or names.JAIL
        self.register_outputs({"claim": self.claim})
