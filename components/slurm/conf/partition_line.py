"""A partition's line of slurm.conf."""

from typing import Any, Final

from components.config.partitions import Partition
from components.config.program import Config
from components.config.slurm_keys.partition_options import TYPED
from components.config.values.quantities import memory_mib
from contract.slurm_conf import slurm_node_set

_DEFAULT_MEMORY: Final = ("DefMemPerCPU", "DefMemPerGPU", "DefMemPerNode")
_FIRST: Final = ("PartitionName", "Nodes", "Default", "MaxTime", *_DEFAULT_MEMORY)


def partition_line(config: Config, partition: Partition) -> str:
    """Return a partition's line of slurm.conf. Keys that nobody set are left out, so Slurm's defaults hold."""
    typed = partition.model_dump(by_alias=True)
    settings = {key: _written(key, typed[name]) for key, name in TYPED.items() if typed[name] not in (None, [])}
    settings["Nodes"] = ",".join(slurm_node_set(name) for name in partition.node_sets)
    # A partition's own default goes before that of the cluster, which options set.
    if not (settings.keys() | config.slurm.slurm_conf_options.keys()).intersection(_DEFAULT_MEMORY):
        settings["DefMemPerCPU"] = str(_memory_per_cpu_mib(config, partition))
    ordered = {key: settings[key] for key in (*_FIRST, *TYPED) if key in settings}
    return " ".join(f"{key}={value}" for key, value in {**ordered, **partition.options}.items())


def _written(key: str, value: Any) -> str:
    if "MemPer" in key:
        return str(memory_mib(value))
    if isinstance(value, bool):
        return "YES" if value else "NO"
    return ",".join(value) if isinstance(value, list) else str(value)


def _memory_per_cpu_mib(config: Config, partition: Partition) -> int:
    """Return the memory per CPU for jobs that name none: the partition's least, so that jobs can use all CPUs."""
    members = [node_set for node_set in config.node_sets if node_set.name in partition.node_sets]
    share = max(1, min(node_set.schedulable_memory_mib // node_set.resources.cpu for node_set in members))
    return min([share, *(memory_mib(most) for most in [partition.max_mem_per_cpu] if most)])
