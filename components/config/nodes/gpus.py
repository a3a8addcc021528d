"""Configuration of a node set's GPUs."""

from collections.abc import Iterator
from typing import Final

from components.config.model import Model, setting
from components.config.rule import Violation, rule
from components.config.values.files import DeviceFiles, device_count
from components.config.values.object_names import GresType, LabelKey, ObjectName
from components.config.values.quantities import WholeNumber

NO_RUNTIME_CLASS: Final = "none"
NVIDIA_PREFIX: Final = "nvidia.com/"


class Gpus(Model):
    """GPUs of each node."""

    type: GresType = setting(
        "Type of the GPU, such as h100: a part of the product's name as the driver says it (NVIDIA H100 80GB HBM3), in "
        "lower case, with _ for spaces. Jobs ask for it: --gres=gpu:h100:2."
    )
    per_node: WholeNumber = setting("GPUs of each node.", ge=1, le=64)
    resource: LabelKey = setting("Kubernetes resource that the device plugin offers.", default="nvidia.com/gpu")
    runtime_class: ObjectName = setting(
        "RuntimeClass of the pods, whose container runtime brings the driver's libraries into them; none: the nodes' "
        "default runtime does.",
        default="nvidia",
    )
    devices: DeviceFiles | None = setting(
        "Device files of a node's GPUs, such as /dev/nvidia[0-7], as gres.conf's File takes them. Left out: Slurm "
        "finds NVIDIA's GPUs by itself.",
        default=None,
    )

    @rule
    def _devices(self) -> Iterator[Violation]:
        if self.devices is None and not self.resource.startswith(NVIDIA_PREFIX):
            want = f"gpus.devices beside it, the device files: Slurm finds only GPUs of {NVIDIA_PREFIX} by itself"
            yield Violation("resource", want=want)
        if self.devices is not None and (count := device_count(self.devices)) != self.per_node:
            yield Violation("devices", want=f"as many files as gpus.perNode says: {self.per_node}, not {count}")

    @property
    def kubernetes_runtime_class(self) -> str | None:
        """The pods' runtimeClassName; None for the nodes' default runtime."""
        return None if self.runtime_class == NO_RUNTIME_CLASS else self.runtime_class
