"""Rules between node sets about generic resources."""

from collections.abc import Iterator

from components.config.program import Config
from components.config.rule import Violation


def gres_of_all_sets(config: Config) -> Iterator[Violation]:
    """A resource has device files on all nodes or on none: else Slurm does not know which of them a job has."""
    first: dict[str, tuple[str, bool]] = {}
    for index, node_set in enumerate(config.node_sets):
        for position, one in enumerate(node_set.gres):
            where = f"nodeSets[{index}].gres[{position}]"
            other, has_files = first.setdefault(one.name, (where, one.devices is not None))
            if has_files != (one.devices is not None) and not other.startswith(f"nodeSets[{index}]."):
                words = "device files" if has_files else "no device files"
                want = f"{words}, as {other} has: Slurm tracks the files of {one.name} on all nodes or on none"
                yield Violation("nodeSets", index, "gres", position, "devices", want=want)
