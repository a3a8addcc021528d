"""Configuration of the jail: the root file system that all nodes share."""

from components.config.model import Model, setting
from components.config.storage import JailStorage
from components.config.values.files import AbsolutePath
from components.config.values.images import ImmutableImage, image_revision
from components.config.values.quantities import Memory, WholeNumber, memory_mib
from contract import policies


def _persistent() -> list[str]:
    return ["/home", "/root", "/srv"]


class Jail(Model):
    """The shared root: what it is made from, and where it lives."""

    image: ImmutableImage = setting("Image whose root file system becomes the shared root.")
    storage: JailStorage = setting("The shared volume.", factory=JailStorage)
    persistent: list[AbsolutePath] = setting(
        "Paths that stay the same when the image changes; they live beside the roots.", factory=_persistent
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

    @property
    def revision(self) -> str:
        """Names the root on the volume and the Job that populates it."""
        return image_revision(self.image)

    @property
    def tmp_mib(self) -> int:
        """Size of /tmp in MiB."""
        return memory_mib(self.tmp_size)
