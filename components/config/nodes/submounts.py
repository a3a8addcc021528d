"""Configuration of submounts: paths of the shared root whose content is a node's own, or another volume's."""

from collections.abc import Iterator, Sequence
from typing import Final

from components.config.model import Model, setting
from components.config.rule import Violation, rows_with, rule
from components.config.values.files import SYSTEM, AbsolutePath, RelativePath, meets
from components.config.values.object_names import ObjectName
from components.config.values.quantities import Memory, memory_mib

SOURCES: Final = ("local", "emptyDir", "memory", "claim", "hostPath")


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
    """Content of a path of the jail, in place of the shared root's folder. It has exactly one source."""

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

    @rule
    def _source(self) -> Iterator[Violation]:
        given = [key for key in SOURCES if key in self.given]
        if len(given) != 1:
            want = f"exactly one of {', '.join(SOURCES)}: it says what stands at the path"
            yield Violation(want=want, got=given or None)

    @rule
    def _path(self) -> Iterator[Violation]:
        if (hidden := meets(self.path, SYSTEM)) is not None:
            want = f"a path outside of {hidden}, which is the system's own, such as /scratch or /mnt/memory"
            yield Violation("path", want=want)


def too_much_memory(submounts: Sequence[Submount], room_mib: int, of: str) -> Iterator[Violation]:
    """The violation by submounts whose tmpfs sizes use up a pod's memory.

    Args:
        submounts: All submounts of the pod.
        room_mib: Memory that they share with jobs or sessions, in MiB.
        of: What that memory is, in words.
    """
    given = rows_with(submounts, "memory")
    sizes = {index: memory_mib(submount.memory) for index, submount in given if submount.memory}
    if sizes and room_mib >= 1 and room_mib - sum(sizes.values()) < 1:
        got = [f"[{index}].memory: {size}Mi" for index, size in sizes.items()]
        yield Violation("submounts", want=f"memory sizes that are together less than {room_mib}Mi, {of}", got=got)


def memory_of(submounts: list[Submount]) -> int:
    """Memory that all tmpfs of a node take together, in MiB."""
    return sum(memory_mib(submount.memory) for _, submount in rows_with(submounts, "memory") if submount.memory)
