"""Configuration of a node set's GPUs."""

from collections import Counter
from collections.abc import Iterator
from typing import Final

from components.config.model import Model, setting
from components.config.rule import Violation, number_written, rows_with, rule
from components.config.values.files import CoreList, DeviceFiles, FilesOfOneDevice, device_count, device_files
from components.config.values.object_names import GresType, LabelKey, ObjectName
from components.config.values.quantities import WholeNumber

NO_RUNTIME_CLASS: Final = "none"
NVIDIA_PREFIX: Final = "nvidia.com/"
MIG_PREFIX: Final = "nvidia.com/mig-"
"""Prefix of MIG devices' resources, where the device plugin has the strategy `mixed`."""


class GpuType(Model):
    """GPUs of one type on each node."""

    type: GresType = setting(
        "Type of the GPU, such as h100: a part of the product's name as the driver says it (NVIDIA H100 80GB HBM3), in "
        "lower case, with _ for spaces. Jobs ask for it: --gres=gpu:h100:2. Of MIG devices: their profile, 1g.10gb."
    )
    per_node: WholeNumber = setting("GPUs of each node; a MIG device counts as one.", ge=1, le=64)
    resource: LabelKey = setting("Kubernetes resource that the device plugin offers.", default="nvidia.com/gpu")
    devices: DeviceFiles | None = setting(
        "Device files of a node's GPUs, such as /dev/nvidia[0-7], as gres.conf's File takes them. Left out: Slurm "
        "finds NVIDIA's GPUs by itself.",
        default=None,
    )
    multiple_files: list[FilesOfOneDevice] = setting(
        "In place of devices, for MIG: the files of each MIG device, as gres.conf's MultipleFiles takes them, such as "
        "/dev/nvidia0,/dev/nvidia-caps/nvidia-cap[21-22]. The whole GPU's file comes first.",
        factory=list,
    )

    cores: dict[DeviceFiles, CoreList] = setting(
        "Cores of the sockets beside the GPUs of devices, by Slurm's numbers: {/dev/nvidia[0-3]: 0-31}. Slurm prefers "
        "them for a job with these GPUs. Left out: as AutoDetect finds them; none with devices.",
        factory=dict,
    )

    @rule
    def _cores(self) -> Iterator[Violation]:
        if self.cores and self.devices is None:
            yield Violation("cores", want="nothing, or devices beside it: Slurm finds the cores with the GPUs")
        elif self.cores and self.devices is not None:
            named = [file for files in self.cores for file in device_files(files)]
            if named != device_files(self.devices):
                yield Violation("cores", want=f"the files of devices ({self.devices}), each once and in their order")

    @rule
    def _files(self) -> Iterator[Violation]:
        if self.devices is not None and number_written(self.multiple_files):
            yield Violation("multipleFiles", want="nothing beside devices: Slurm takes one of the two")
        elif not self.is_named and self.resource.startswith(MIG_PREFIX):
            want = "the files of each MIG device: Slurm's AutoDetect=nvidia finds whole GPUs alone"
            yield Violation("multipleFiles", want=want)
        elif not self.is_named and not self.resource.startswith(NVIDIA_PREFIX):
            want = f"gpus.devices beside it, the device files: Slurm finds only GPUs of {NVIDIA_PREFIX} by itself"
            yield Violation("resource", want=want)

    @rule
    def _counts(self) -> Iterator[Violation]:
        if self.devices is not None and (count := device_count(self.devices)) != self.per_node:
            yield Violation("devices", want=f"as many files as gpus.perNode says: {self.per_node}, not {count}")
        if (count := number_written(self.multiple_files)) not in (0, self.per_node):
            want = f"as many items as gpus.perNode says: {self.per_node}, not {count}"
            yield Violation("multipleFiles", want=want)
        for index, files in enumerate(self.multiple_files):
            if files in self.multiple_files[:index]:
                yield Violation("multipleFiles", index, want="each of them once")

    @property
    def is_named(self) -> bool:
        """Return whether device files are named; else Slurm finds the GPUs."""
        return self.devices is not None or number_written(self.multiple_files) > 0

    @property
    def gres(self) -> str:
        """Slurm's Gres, such as gpu:h100:8."""
        return f"gpu:{self.type}:{self.per_node}"


class Gpus(GpuType):
    """GPUs of each node."""

    runtime_class: ObjectName = setting(
        "RuntimeClass of the pods, whose container runtime brings the driver's libraries into them; none: the nodes' "
        "default runtime does.",
        default="nvidia",
    )
    more: list[GpuType] = setting("GPUs of further types on the same nodes.", factory=list)
    shards: WholeNumber | None = setting(
        "Jobs that may share GPUs, spread evenly over those of a node: --gres=shard:1 takes one of so many. Nothing "
        "keeps them apart on the GPU. Whole GPUs are still there for --gres=gpu.",
        default=None,
        ge=1,
        le=65_536,
    )
    mps: WholeNumber | None = setting(
        "In place of shards, for CUDA's Multi-Process Service: shares, spread evenly over the GPUs of a node, such as "
        "100 for each. --gres=mps:50 then takes half of one; a prolog of yours starts the service.",
        default=None,
        ge=1,
        le=65_536,
    )

    @rule
    def _types(self) -> Iterator[Violation]:
        types = [getattr(kind, "type", None) for kind in (self, *self.more)]
        for index, kind in enumerate(types[1:]):
            if kind is not None and kind in types[: index + 1]:
                yield Violation("more", index, "type", want="each type once")
        named = "devices or multipleFiles" if self.is_named else "neither devices nor multipleFiles"
        for index, other in rows_with(self.more, "devices", "multiple_files"):
            if other.is_named != self.is_named:
                want = f"{named}, as gpus has: Slurm finds all GPUs of a node by itself, or none"
                yield Violation("more", index, want=want)

    @rule
    def _shared(self) -> Iterator[Violation]:
        if self.shards is not None and self.mps is not None:
            yield Violation("mps", want="nothing beside shards: a GPU of Slurm is shared in one way")
        if self.shards is not None and self.shards < self.count:
            yield Violation("shards", want=f"at least one for each of the node's {self.count} GPUs")
        if self.mps is not None and self.mps % self.count:
            yield Violation("mps", want=f"as many for each of the node's {self.count} GPUs, such as 100")
        if self.mps is not None and any(kind.multiple_files for kind in self.types):
            yield Violation("mps", want="nothing, or shards: Slurm cannot tell the share of a MIG device")

    @property
    def types(self) -> tuple[GpuType, ...]:
        """All types of a node's GPUs."""
        return (self, *self.more)

    @property
    def count(self) -> int:
        """GPUs of a node as Slurm counts them, of all types."""
        return sum(kind.per_node for kind in self.types)

    @property
    def whole(self) -> int:
        """Whole GPUs of a node: several MIG devices may be parts of one."""
        parts = {device_files(files)[0] for kind in self.types for files in kind.multiple_files}
        return len(parts) + sum(kind.per_node for kind in self.types if not kind.multiple_files)

    @property
    def is_nvidia(self) -> bool:
        """Return whether NVIDIA's driver answers for some: by their resource, or by their device files."""
        named = [kind.devices for kind in self.types if kind.devices is not None]
        named += [files for kind in self.types for files in kind.multiple_files]
        return any(kind.resource.startswith(NVIDIA_PREFIX) for kind in self.types) or any(
            files.startswith("/dev/nvidia") for files in named
        )

    @property
    def is_divided(self) -> bool:
        """Return whether a node has MIG devices."""
        return any(kind.multiple_files for kind in self.types)

    @property
    def resources(self) -> dict[str, int]:
        """Kubernetes resources of a node's pod: name → count."""
        counts: Counter[str] = Counter()
        for kind in self.types:
            counts[kind.resource] += kind.per_node
        return dict(counts)

    @property
    def sharing(self) -> dict[str, int]:
        """Return the shares of GPUs: name of Slurm's resource → count; empty where jobs share none."""
        return {name: count for name, count in (("shard", self.shards), ("mps", self.mps)) if count is not None}

    @property
    def kubernetes_runtime_class(self) -> str | None:
        """The pods' runtimeClassName; None for the nodes' default runtime."""
        return None if self.runtime_class == NO_RUNTIME_CLASS else self.runtime_class
