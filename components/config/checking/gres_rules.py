"""Rules between node sets about generic resources."""

from collections.abc import Iterator

from components.config.addons.gpu_operator import MigStrategy
from components.config.addons.mode import AddonMode
from components.config.nodes.gpus import MIG_PREFIX
from components.config.program import Config
from components.config.rule import Violation, rows_with


def gres_of_all_sets(config: Config) -> Iterator[Violation]:
    """A resource has device files on all nodes or on none: else Slurm does not know which of them a job has."""
    first: dict[str, tuple[str, bool]] = {}
    for index, node_set in rows_with(config.node_sets, "gres"):
        for position, one in rows_with(node_set.gres, "name", "devices"):
            where = f"nodeSets[{index}].gres[{position}]"
            other, has_files = first.setdefault(one.name, (where, one.devices is not None))
            if has_files != (one.devices is not None) and not other.startswith(f"nodeSets[{index}]."):
                words = "device files" if has_files else "no device files"
                want = f"{words}, as {other} has: Slurm tracks the files of {one.name} on all nodes or on none"
                yield Violation("nodeSets", index, "gres", position, "devices", want=want)


def mig_strategy(config: Config) -> Iterator[Violation]:
    """The device plugin names MIG devices by their profiles with the strategy `mixed` alone."""
    operator = config.gpu_operator
    if operator.mode is not AddonMode.INSTALL or operator.mig_strategy is MigStrategy.MIXED:
        return
    for index, node_set in rows_with(config.node_sets, "gpus"):
        kinds = (node_set.gpus, *getattr(node_set.gpus, "more", ())) if node_set.gpus else ()
        for _, kind in rows_with(kinds, "resource"):
            if kind.resource.startswith(MIG_PREFIX):
                want = f"mixed, which names the resource {kind.resource} of nodeSets[{index}].gpus"
                yield Violation("gpuOperator", "migStrategy", want=want, got=operator.mig_strategy.value)
                return
