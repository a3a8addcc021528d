"""Configuration of submounts: paths of the shared root whose content is a node's own, or another volume's."""

from components.config.model import Model, setting
from components.config.values.files import AbsolutePath, RelativePath
from components.config.values.object_names import ObjectName
from components.config.values.quantities import Memory, memory_mib


class LocalVolume(Model):
    """A volume of each node, made with its pod and deleted with it (a generic ephemeral volume)."""

    size: Memory = setting("Size of each node's volume.", unit="Kubernetes quantity")
    class_name: ObjectName | None = setting("Storage class; left out: the default class.", default=None)


class Claim(Model):
    """A PersistentVolumeClaim of the cluster's namespace that is there already."""

    name: ObjectName = setting("Name of the claim.")
    sub_path: RelativePath | None = setting("Folder of the volume to show; left out: all of it.", default=None)
    read_only: bool = setting("Whether nobody may write.", default=False)


class Submount(Model):
    """What stands at a path of the jail, in place of the shared root's folder. Exactly one source."""

    path: AbsolutePath = setting("Where users find it, such as /scratch.")
    local: LocalVolume | None = setting("A volume of each node; every user may write.", default=None)
    empty_dir: Memory | None = setting(
        "Size of a folder on the Kubernetes node's own disk; every user may write. A node that writes more is evicted "
        "by Kubernetes, with its jobs: local keeps a size better.",
        unit="Kubernetes quantity",
        default=None,
    )
    memory: Memory | None = setting(
        "Size of a tmpfs; every user may write. It is part of the pod's memory, and jobs get that much less.",
        unit="Kubernetes quantity",
        default=None,
    )
    claim: Claim | None = setting("A volume that is there already, such as data sets for all nodes.", default=None)
    host_path: AbsolutePath | None = setting(
        "A folder that each Kubernetes node has, at or below one of jail.allowedHostPaths.", default=None
    )


def memory_of(submounts: list[Submount]) -> int:
    """Memory that all tmpfs of a node take together, in MiB."""
    return sum(memory_mib(each.memory) for each in submounts if each.memory)
