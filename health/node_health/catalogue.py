"""The catalogue of all checks. Modules of hardware that a node does not declare are not even loaded."""

from collections.abc import Mapping
from importlib import import_module

from node_health.check import Applies, Check, Context
from node_health.node import Declared

MODULES: Mapping[Applies, tuple[str, ...]] = {
    Applies.NODES: (
        "files.jail",
        "files.space",
        "files.writable",
        "files.submounts",
        "files.shared_memory",
        "files.nvme",
        "memory.memory",
        "memory.ecc",
        "memory.leftovers",
        "memory.hugepages",
        "cpu.cpus",
        "cpu.governor",
        "cpu.throttling",
        "cpu.steal",
        "cpu.pinning",
        "kernel.kernel_log",
        "kernel.user_namespaces",
        "kernel.machine_checks",
        "kernel.hung_tasks",
        "kernel.drive_errors",
        "kernel.left_processes",
        "kernel.process_limit",
        "kernel.clock",
        "network.dns",
        "network.controller",
        "network.state",
        "network.speed",
        "network.errors",
        "network.mtu",
        "network.flaps",
        "slurm.cgroups",
        "slurm.versions",
        "slurm.site_scripts",
        "slurm.quiet_jobs",
    ),
    Applies.GPUS: ("slurm.gres",),
    Applies.NVIDIA: (
        "gpu.gpus",
        "gpu.driver",
        "gpu.memory_errors",
        "gpu.row_remapping",
        "gpu.recovery_action",
        "gpu.throttling",
        "gpu.clocks",
        "gpu.power",
        "gpu.temperature",
        "gpu.pcie",
        "gpu.persistence",
        "gpu.processes",
        "gpu.mig",
        "gpu.dcgm",
        "nvlink.links",
        "nvlink.errors",
        "nvlink.fabric",
    ),
    Applies.RDMA: (
        "infiniband.devices",
        "infiniband.state",
        "infiniband.rate",
        "infiniband.errors",
        "infiniband.flaps",
        "infiniband.partitions",
    ),
}
"""Modules below node_health.checks, by the nodes that they apply to."""


def load(*applies: Applies) -> list[Check]:
    """Returns the checks of these nodes, in the order of reports."""
    modules = [f"node_health.checks.{module}" for kind in applies for module in MODULES[kind]]
    checks: list[Check] = [import_module(module).CHECK for module in modules]
    order = {name: rank for rank, name in enumerate(type(checks[0].name))} if checks else {}
    return sorted(checks, key=lambda check: order[check.name])


def of_node(declared: Declared, context: Context | None = None) -> list[Check]:
    """Returns the checks of a node, whether switched off or not.

    Args:
        declared: the node.
        context: when they run; None: all of them.
    """
    applies = [Applies.NODES]
    applies += [Applies.GPUS] if declared.gpus else []
    applies += [Applies.NVIDIA] if declared.gpus and declared.nvidia else []
    applies += [Applies.RDMA] if declared.rdma else []
    return [check for check in load(*applies) if context is None or context in check.contexts]
