"""Configuration of the jail: the root file system that all nodes share."""

from collections.abc import Iterator
from typing import Final

from components.config.model import Model, setting
from components.config.rule import Violation, rule
from components.config.storage import JailStorage
from components.config.values.files import SYSTEM, AbsolutePath, is_within, meets
from components.config.values.images import ImmutableImage, image_revision
from components.config.values.quantities import Memory, WholeNumber, memory_mib
from contract import paths, policies

_SLURMS: Final = (paths.PREFIX, paths.SPOOL_DIR)
"""Paths where each node shows its own files, whatever the volume has there."""
_SYSTEM: Final = tuple(path for path in SYSTEM if path != "/var")
"""/var is left out: users may have folders of their own there."""
_NODES_OWN: Final = (
    *("/bin", "/boot", "/dev", "/etc", "/lib", "/lib64", "/proc", "/root", "/run", "/sbin", "/sys", "/usr"),
    *("/var/lib/kubelet", "/var/run"),
)
"""Folders of a Kubernetes node that would give root of the jail the whole node."""


def _homes() -> list[str]:
    return ["/home", "/root", "/srv"]


class Jail(Model):
    """The shared root: what it is made from, and where it lives."""

    image: ImmutableImage = setting("Image whose root file system becomes the shared root.")
    storage: JailStorage = setting("The shared volume.", factory=JailStorage)
    persistent: list[AbsolutePath] = setting(
        "Paths that stay the same when the image changes; they live beside the roots.", factory=_homes
    )
    keep_roots: WholeNumber = setting(
        "Roots that stay on the volume, those in use among them. More are deleted an hour after their last use, but "
        "for those that the configuration names.",
        default=policies.KEEP_ROOTS,
        ge=1,
        le=100,
    )
    tmp_size: Memory = setting(
        "Size of /tmp, in memory: of each job on a node, and of each login node.",
        unit="Kubernetes quantity",
        default=f"{policies.TMP_MIB // 1024}Gi",
    )
    allowed_host_paths: list[AbsolutePath] = setting(
        "Folders of the Kubernetes nodes that submounts may show, each with all that is below it.", factory=list
    )

    @rule
    def _persistent(self) -> Iterator[Violation]:
        for index, path in enumerate(self.persistent):
            others = [other for other in self.persistent if other != path]
            if path in self.persistent[:index]:
                want = "each path once"
            elif outer := next((other for other in others if is_within(path, other)), None):
                want = f"no path inside another one: {outer} holds it already"
            elif own := next((own for own in _SLURMS if is_within(path, own)), None):
                want = f"a path outside of {own}, which is Slurm's own"
            elif path == "/var":
                want = (
                    "a folder of people's files, such as /var/www: /var has the packages' records, and slurmd's spool"
                )
            elif system := next((system for system in _SYSTEM if is_within(path, system)), None):
                want = (
                    f"a path of people's files, outside of {system}: the system's own come from the image and the node"
                )
            else:
                continue
            yield Violation("persistent", index, want=want)

    @rule
    def _host_paths(self) -> Iterator[Violation]:
        for index, path in enumerate(self.allowed_host_paths):
            if (met := meets(path, _NODES_OWN)) is not None:
                want = f"a folder of data, outside of {met}: root of the jail would have the Kubernetes node by it"
                yield Violation("allowedHostPaths", index, want=want)

    @property
    def revision(self) -> str:
        """Names the root on the volume and the Job that populates it."""
        return image_revision(self.image)

    @property
    def tmp_mib(self) -> int:
        """Size of /tmp in MiB."""
        return memory_mib(self.tmp_size)
