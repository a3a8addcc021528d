"""Checks that NVML starts, and that the driver's library and the kernel's module are of one version."""

from contract import reasons
from node_health.check import Applies, Check, Machine
from node_health.sources import nvml
from node_health.sources.gpu_facts import Snapshot
from node_health.verdict import Action, Finding, fails, passes, unknown

BROKEN = frozenset({9, 18})
"""Errors of NVML about the driver, not the question (nvml.h): DRIVER_NOT_LOADED, LIB_RM_VERSION_MISMATCH."""


def judge(snapshot: Snapshot, machine: Machine) -> Finding:
    """FAIL when the driver is not loaded, or library and module differ."""
    if snapshot.failed:
        said = f"NVML: {snapshot.failed}"
        return fails(said) if snapshot.failed.code in BROKEN else unknown(said)
    if snapshot.module and snapshot.module != snapshot.driver:
        return fails(f"the library has version {snapshot.driver}, the kernel's module {snapshot.module}")
    return passes(f"driver {snapshot.driver}")


CHECK = Check(
    reasons.Check.GPU_DRIVER,
    nvml.look,
    judge,
    fails="the driver is not loaded, or its library and the kernel's module have different versions",
    warns="",
    remedy="finish the driver's update: restart the machine",
    action=Action.RESTART_BM,
    applies=Applies.GPUS,
)
