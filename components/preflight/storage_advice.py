"""Advice on the mount options of a storage class that makes the jail's volume on NFS."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from components.config import Config
from components.config.storage import LookupCache, NfsVersion

SEEN_WITHIN_SECONDS: Final = 5
"""Delay after which all nodes should see a program, user or file that one node makes."""
_ADVISED_SECONDS: Final = 3
_LOOKUPS: Final = f"lookupcache={LookupCache.POSITIVE}"
_ATTRIBUTES: Final = f"actimeo={_ADVISED_SECONDS}"
_VERSION: Final = f"nfsvers={NfsVersion.V4_1}"
_LOSES_TIMES: Final = frozenset({NfsVersion.V4, NfsVersion.V4_2})
"""Versions that are 4.2, or may become it: nodes of newer Linux keep times that a program sets to themselves."""
_OTHERWISE: Final = "else a node may miss what another one made for minutes, or lose a lock, a write or a file's time"
_NFS: Final = frozenset({"efs.csi.aws.com", "filestore.csi.storage.gke.io", "fsx.openzfs.csi.aws.com"})
"""Provisioners that only make NFS volumes, with names that do not tell it."""
_DEFAULT: Final = "storageclass.kubernetes.io/is-default-class"


@dataclass(frozen=True, slots=True)
class StorageClass:
    """A storage class of Kubernetes."""

    name: str
    provisioner: str
    mount_options: tuple[str, ...] = ()
    parameters: Mapping[str, str] = field(default_factory=dict)
    is_default: bool = False

    @property
    def is_nfs(self) -> bool:
        """Return whether the class makes NFS volumes. Some provisioners make other kinds too."""
        kind = f"{self.parameters.get('protocol', '')} {self.parameters.get('backendType', '')}".lower()
        return "nfs" in self.provisioner or self.provisioner in _NFS or "nfs" in kind or "-nas" in kind


def storage_class(item: Mapping[str, Any]) -> StorageClass:
    """Return a storage class as the API gives it."""
    metadata = item["metadata"]
    return StorageClass(
        metadata["name"],
        item.get("provisioner", ""),
        tuple(item.get("mountOptions") or ()),
        item.get("parameters") or {},
        (metadata.get("annotations") or {}).get(_DEFAULT) == "true",
    )


def by_class(config: Config) -> bool:
    """Return whether a storage class makes the jail's volume."""
    storage = config.jail.storage
    return storage.existing_claim is None and storage.host_path is None and storage.nfs is None


def advice(config: Config, classes: Sequence[StorageClass]) -> str | None:
    """Return advice on the storage class of the jail's volume, one sentence; None if it needs no change."""
    name = config.jail.storage.class_name
    chosen = next(
        (
            storage_class
            for storage_class in classes
            if (storage_class.name == name if name else storage_class.is_default)
        ),
        None,
    )
    if not by_class(config) or chosen is None or not chosen.is_nfs:
        return None
    given = dict(option.partition("=")[::2] for option in chosen.mount_options)
    missing = [
        *(["hard"] if "soft" in given or "softerr" in given else []),
        *(["no nolock"] if "nolock" in given else []),
        *([] if given.get("lookupcache") in {"pos", LookupCache.POSITIVE, LookupCache.NONE} else [_LOOKUPS]),
        *([] if _soon(given.get("actimeo", "")) else [_ATTRIBUTES]),
        *([_VERSION] if given.get("nfsvers", given.get("vers", "")) in _LOSES_TIMES else []),
    ]
    if not missing:
        return None
    return (
        f"the storage class {chosen.name} ({chosen.provisioner}) makes NFS volumes: give its mountOptions"
        f" {', '.join(missing)}; {_OTHERWISE}"
    )


def version_advice(config: Config) -> str | None:
    """Return advice on `jail.storage.nfs.version`, one sentence; None if it needs no change."""
    nfs = config.jail.storage.nfs
    if nfs is None or nfs.version not in _LOSES_TIMES:
        return None
    return (
        f"with {nfs.version} a node of newer Linux may keep file times that a program sets, such as tar, from the "
        f"server and other nodes: set {NfsVersion.V4_1}"
    )


def unasked(config: Config) -> str | None:
    """Advice on storage that the configuration names and nobody looks at, one sentence; None if there is none."""
    storage = config.jail.storage
    if storage.existing_claim is not None:
        what, whose = f"the claim {storage.existing_claim} is on NFS", "its volume's"
    elif by_class(config) and storage.class_name is not None and not config.checks.cluster:
        what, whose = f"the storage class {storage.class_name} makes NFS volumes", "its"
    else:
        return None
    return f"if {what}, give {whose} mountOptions hard, {_LOOKUPS}, {_ATTRIBUTES}, {_VERSION}; {_OTHERWISE}"


def _soon(seconds: str) -> bool:
    return seconds.isdecimal() and int(seconds) <= SEEN_WITHIN_SECONDS
