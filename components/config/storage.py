"""Configuration of volumes."""

from components.config.model import Model, setting
from components.config.values import AbsolutePath, HostName, Memory, ObjectName


class StateStorage(Model):
    """The controller's state volume: the job queue survives on it."""

    class_name: ObjectName | None = setting("Storage class; left out: the default class.", default=None)
    size: Memory = setting("Size of the volume.", unit="Kubernetes quantity", default="5Gi")
    retain: bool = setting("Whether the volume, and its namespace, stay after `pulumi destroy`.", default=True)
    protect: bool = setting("Whether Pulumi refuses to delete the volume.", default=False)


class DatabaseStorage(StateStorage):
    """The volume of the database: every record of accounting is on it."""

    size: Memory = setting("Size of the volume.", unit="Kubernetes quantity", default="20Gi")


class Nfs(Model):
    """An NFS export."""

    server: HostName = setting("Host name or address of the server.")
    path: AbsolutePath = setting("Exported path.")
    mount_options: list[str] = setting("Mount options, such as nconnect=8.", factory=list)


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
