"""gres.conf, and what slurm.conf says of generic resources."""

from collections.abc import Iterator

from components.config.nodes.gpus import GpuType
from components.config.nodes.node_sets import LARGEST_SET, NodeSet
from components.config.program import Config


def names_of(config: Config) -> list[str]:
    """Return the names in GresTypes.

    gpu is there without GPUs too: slurmctld would take a GPU node that registers before it knows the name for one
    without.
    """
    used = [name for node_set in config.node_sets for name, _ in node_set.gres_kinds]
    return list(dict.fromkeys(["gpu", *used]))


def text(config: Config) -> str:
    """Return gres.conf: nodes with NVIDIA's GPUs find them by themselves, others have them as configured.

    Off everywhere else: left out, Slurm would try every maker's detection on each node. What has no device file has no
    line: Slurm spreads shards and MPS evenly over a node's GPUs, and counts the rest (gres.conf(5)).
    """
    lines = [line for node_set in config.node_sets for line in _lines(node_set)]
    return "\n".join([*lines, "AutoDetect=off"]) + "\n"


def _lines(node_set: NodeSet) -> Iterator[str]:
    # All names that nodes of the set could have, so that scaling changes no file.
    nodes = f"NodeName={node_set.name}-[0-{LARGEST_SET - 1}]"
    if node_set.gpus and not node_set.gpus.is_named:
        yield f"{nodes} AutoDetect=nvidia"
    elif node_set.gpus:
        for kind in node_set.gpus.types:
            yield from (f"{nodes} AutoDetect=off Name=gpu Type={kind.type} {files}" for files in _files(kind))
    for one in node_set.gres:
        if one.devices is not None:
            of_type = f"Type={one.type} " if one.type else ""
            yield f"{nodes} Name={one.name} {of_type}File={one.devices}"


def _files(kind: GpuType) -> list[str]:
    """Return the keys that name the devices of one type: one for all, or some for each MIG device or group."""
    several = [f"MultipleFiles={files}" for files in kind.multiple_files]
    beside = [f"File={files} Cores={cores}" for files, cores in kind.cores.items()]
    return several or beside or [f"File={kind.devices}"]
