"""The volume of the jail."""

from typing import Any

from components.claim_guard import class_source
from components.config import Config
from components.kubernetes.component import Claims, Part
from components.kubernetes.manifest import SKIP_AWAIT, Manifest, declared
from contract import names

_ACCESS = ["ReadWriteMany"]


def volume_name(config: Config) -> str:
    """Return the name of the PersistentVolume. All namespaces share these names."""
    return f"{config.cluster.namespace}-{names.JAIL}"


def _volume_source(config: Config) -> dict[str, Any] | None:
    """Return the source of a volume that we declare ourselves; None where a storage class makes it."""
    storage = config.jail.storage
    if storage.host_path is not None:
        return {"hostPath": {"path": storage.host_path, "type": "Directory"}}
    if storage.nfs is not None:
        source = {"server": storage.nfs.server, "path": storage.nfs.path}
        return {"nfs": source, "mountOptions": storage.nfs.options}
    return None


def manifests(config: Config) -> list[Manifest]:
    """Return the claim, and its volume if we declare one; nothing for an existing claim."""
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
            # The files were there before, so we never delete them.
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


def _claims(config: Config) -> Claims:
    """Return the source of the claim in words, for the claim guard; nothing for an existing one."""
    storage = config.jail.storage
    if storage.existing_claim is not None:
        return []
    source = class_source(storage.class_name)
    if storage.host_path is not None:
        source = f"hostPath {storage.host_path}"
    elif storage.nfs is not None:
        source = f"nfs {storage.nfs.server}:{storage.nfs.path}"
    return [("jail-claim-guard", "jail.storage", source)]


def _outputs(config: Config) -> dict[str, Any]:
    return {"claim": config.jail.storage.existing_claim or names.JAIL}


class JailStorage(
    Part,
    manifests=manifests,
    outputs=_outputs,
    claims=_claims,
):
    """The volume that all nodes share: from a storage class, a host path, an NFS export, or an existing claim.

    It reads `jail.storage` and `cluster`.
    """
