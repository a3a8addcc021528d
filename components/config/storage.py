"""Configuration of volumes."""

from collections.abc import Iterator
from enum import StrEnum
from typing import Annotated

from components.config.model import Model, setting
from components.config.rule import Violation, rule
from components.config.values.addresses import HostName
from components.config.values.files import AbsolutePath, ExportedPath
from components.config.values.object_names import ObjectName
from components.config.values.quantities import Memory, WholeNumber
from components.config.values.validation import matching, text_of

_OWN_OPTIONS = (
    "(nfs)?vers|v[34](\\.\\d)?|minorversion|hard|soft|softerr|(no)?lock|local_lock|lookupcache|(no)?ac|actimeo|nconnect"
    "|ac(reg|dir)(min|max)|r[ow]|bg|fg"
)
NfsMountOption = Annotated[
    str,
    matching(
        rf"(?!({_OWN_OPTIONS})(=|$))[a-z][a-z0-9_]*(=[A-Za-z0-9@._:/-]+)?",
        "one mount option such as rsize=1048576; version, lookupCache, attributeCacheSeconds and connections are fields"
        " of their own, and the jail is mounted with hard, rw and locks in any case",
    ),
]


class StateStorage(Model):
    """The controller's state volume: the job queue survives on it."""

    class_name: ObjectName | None = setting("Storage class; left out: the default class.", default=None)
    size: Memory = setting("Size of the volume.", unit="Kubernetes quantity", default="5Gi")
    retain: bool = setting("Whether the volume, and its namespace, stay after `pulumi destroy`.", default=True)
    protect: bool = setting("Whether Pulumi refuses to delete the volume.", default=False)


class DatabaseStorage(StateStorage):
    """The volume of the database: every record of accounting is on it."""

    size: Memory = setting("Size of the volume.", unit="Kubernetes quantity", default="20Gi")


class NfsVersion(StrEnum):
    """Versions of NFS whose locks between nodes survive a restart of the server."""

    V3 = "3"
    V4 = "4"
    V4_1 = "4.1"
    V4_2 = "4.2"


class LookupCache(StrEnum):
    """Answers about file names that a node may cache (nfs(5), lookupcache)."""

    POSITIVE = "positive"
    NONE = "none"
    ALL = "all"


class Nfs(Model):
    """An NFS export."""

    server: HostName = setting("Host name or address of the server.")
    path: ExportedPath = setting("Exported path; `/` is the root of a version 4 server.")
    version: Annotated[NfsVersion, text_of("one of 3, 4, 4.1 or 4.2")] = setting(
        "Version of NFS: 4 is the newest 4.x that the server has; 3 needs rpc.statd on every node. With 4.2 a node of "
        "newer Linux may keep file times that a program sets, such as tar, from the server and other nodes.",
        default=NfsVersion.V4_1,
    )
    lookup_cache: LookupCache = setting(
        "Which answers about file names a node caches. With `positive` it finds a program, user or file of another "
        "node at once. With `all` it may miss one for minutes.",
        default=LookupCache.POSITIVE,
    )
    attribute_cache_seconds: WholeNumber = setting(
        "How long a node caches the size, time and owner of a file.",
        unit="seconds",
        default=3,
        ge=1,
        le=3600,
    )
    connections: WholeNumber = setting("TCP connections of each node to the server.", default=1, ge=1, le=16)
    mount_options: list[NfsMountOption] = setting("Further mount options, such as rsize=1048576.", factory=list)

    @property
    def options(self) -> list[str]:
        """All options of the mount (nfs(5)). With `hard` a silent server delays what jobs write, and loses none."""
        return [
            f"nfsvers={self.version}",
            "hard",
            f"lookupcache={self.lookup_cache}",
            f"actimeo={self.attribute_cache_seconds}",
            f"nconnect={self.connections}",
            *self.mount_options,
        ]


class JailStorage(Model):
    """The volume that holds the jail, shared by all nodes. At most one of existingClaim, hostPath and nfs."""

    class_name: ObjectName | None = setting(
        "Storage class that can give ReadWriteMany volumes; left out: the default class.", default=None
    )
    size: Memory = setting("Size of the volume.", unit="Kubernetes quantity", default="100Gi")
    existing_claim: ObjectName | None = setting("A PersistentVolumeClaim that is already there.", default=None)
    host_path: AbsolutePath | None = setting(
        "A folder that every node has at this path (a mounted file system).", default=None
    )
    nfs: Nfs | None = setting("An NFS export.", default=None)
    retain: bool = setting("Whether the volume, and its namespace, stay after `pulumi destroy`.", default=True)
    protect: bool = setting("Whether Pulumi refuses to delete the volume.", default=False)

    @rule
    def _source(self) -> Iterator[Violation]:
        given = [key for key in ("existingClaim", "hostPath", "nfs", "className") if key in self.given]
        if len(given) > 1:
            yield Violation(want="one of them: each says where the volume comes from", got=given)
