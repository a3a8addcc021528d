"""Configuration of generic resources of nodes besides GPUs, and what Slurm is told of all of them."""

from collections.abc import Iterable, Iterator, Sequence

from components.config.model import Model, setting
from components.config.nodes.gpus import Gpus
from components.config.rule import Violation, rows_with, rule
from components.config.values.files import DeviceFiles, device_count, device_files
from components.config.values.object_names import GresName, GresType, LabelKey
from components.config.values.quantities import WholeNumber


class Gres(Model):
    """A generic resource of each node: devices, or something that Slurm only counts."""

    name: GresName = setting("Name of the resource, such as fpga. Jobs ask for it: --gres=fpga:1.")
    type: GresType | None = setting("Its type, if it has some: --gres=fpga:u280:1.", default=None)
    per_node: WholeNumber = setting("How many of them each node has.", ge=1, le=2**40)
    devices: DeviceFiles | None = setting(
        "Their device files, such as /dev/fpga[0-1], as gres.conf's File takes them: a job opens only its own. Left "
        "out: Slurm counts what jobs take, and no more.",
        default=None,
    )
    resource: LabelKey | None = setting(
        "Kubernetes resource of the device plugin that brings the files into the pods. Left out: none does.",
        default=None,
    )

    @rule
    def _devices(self) -> Iterator[Violation]:
        if self.devices is not None and (count := device_count(self.devices)) != self.per_node:
            yield Violation("devices", want=f"as many files as perNode says: {self.per_node}, not {count}")

    @property
    def gres(self) -> str:
        """Slurm's Gres, such as fpga:u280:2."""
        return ":".join([self.name, *([self.type] if self.type else []), str(self.per_node)])


def gres_of_node(gpus: Gpus | None, others: Sequence[Gres]) -> str | None:
    """Slurm's Gres of a node, such as gpu:h100:8,shard:64,fpga:2; None without any."""
    words = [kind.gres for kind in gpus.types] if gpus else []
    words += [f"{name}:{count}" for name, count in gpus.sharing.items()] if gpus else []
    return ",".join([*words, *(one.gres for one in others)]) or None


def kinds_of_node(gpus: Gpus | None, others: Sequence[Gres]) -> list[tuple[str, str | None]]:
    """Name and type of each generic resource of a node."""
    of_gpus = rows_with(gpus.types, "type") if gpus else []
    kinds: list[tuple[str, str | None]] = [("gpu", kind.type) for _, kind in of_gpus]
    kinds += [(name, None) for name in gpus.sharing] if gpus else []
    return [*kinds, *((one.name, one.type) for _, one in rows_with(others, "name", "type"))]


def tracked(kinds: Iterable[tuple[str, str | None]]) -> list[str]:
    """Return what accounting counts besides what it always does: each name, and each name with a type."""
    listed = list(kinds)
    plain = dict.fromkeys(f"gres/{name}" for name, _ in listed)
    return [*plain, *dict.fromkeys(f"gres/{name}:{of_type}" for name, of_type in listed if of_type)]


def kubernetes_resources(gpus: Gpus | None, others: Sequence[Gres]) -> dict[str, int]:
    """Kubernetes resources of a node's pod: name → count."""
    counts = gpus.resources if gpus else {}
    for one in others:
        if one.resource is not None:
            counts[one.resource] = counts.get(one.resource, 0) + one.per_node
    return counts


def gres_violations(gpus: Gpus | None, others: Sequence[Gres]) -> Iterator[Violation]:
    """Yield what Slurm does not take of a node's resources together: its slurmd would not start."""
    named = rows_with(others, "name", "type", "devices")
    for index, one in named:
        same = [other for position, other in named if position < index and other.name == one.name]
        if any((other.type is None) != (one.type is None) for other in same):
            yield Violation("gres", index, "type", want=f"a type for each {one.name} of a node, or for none")
        elif any(other.type == one.type for other in same):
            yield Violation("gres", index, "name", want="each name and type once")
        if any((other.devices is None) != (one.devices is None) for other in same):
            yield Violation("gres", index, "devices", want=f"the files of each {one.name} of a node, or of none")
    yield from _devices_of_two(gpus, others)


def _devices_of_two(gpus: Gpus | None, others: Sequence[Gres]) -> Iterator[Violation]:
    """Files that two resources name: a job with one of them would open the other's."""
    named: dict[str, str] = {}
    for path, files in _named_devices(gpus, others):
        taken = {named[file]: file for file in sorted(named.keys() & set(device_files(files)), reverse=True)}
        if taken:
            shared = ", ".join(f"{file} is one of {owner}" for owner, file in sorted(taken.items()))
            yield Violation(*path, want=f"files of its own: {shared}")
        shown = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in path).removeprefix(".")
        named |= dict.fromkeys(device_files(files), shown)


def _named_devices(gpus: Gpus | None, others: Sequence[Gres]) -> Iterator[tuple[tuple[str | int, ...], str]]:
    """Yield where a pattern of device files stands, and the pattern. MIG devices of one GPU share its file."""
    for index, kind in rows_with((gpus, *getattr(gpus, "more", ())) if gpus else (), "devices"):
        if kind.devices is not None:
            yield ("gpus", *(("more", index - 1) if index else ()), "devices"), kind.devices
    for index, one in rows_with(others, "devices"):
        if one.devices is not None:
            yield ("gres", index, "devices"), one.devices
