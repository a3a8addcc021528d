"""Checks that NVML starts, and that the driver's library and the kernel's module are of one version."""

from contract import reasons
from node_health.check import Applies, Check, Machine
from node_health.sources import nvml
from node_health.sources.gpu_facts import Snapshot
from node_health.verdict import Action, Finding, fails, passes, unknown

CUT_OFF = frozenset({4, 999})
"""Errors of NVML's start where the pod can't use the driver: NO_PERMISSION, UNKNOWN.

A container whose device rules systemd renewed gets the latter, and CUDA starts there no more (NVIDIA, "Containers
losing access to GPUs with error: Failed to initialize NVML: Unknown Error").
"""
BROKEN = frozenset({9, 18}) | CUT_OFF
"""Errors of NVML about the driver, not the question (nvml.h), also DRIVER_NOT_LOADED and LIB_RM_VERSION_MISMATCH."""

HANG_SECONDS = 120.0
"""Longer than a driver takes to reset a GPU or to wait for its firmware: this project's choice. Jobs hang then, too."""


def judge(snapshot: Snapshot, machine: Machine) -> Finding:
    """FAIL when the driver is not loaded or refuses the pod, or library and module differ."""
    if snapshot.failed:
        said, code = f"NVML: {snapshot.failed}", snapshot.failed.code
        if code in BROKEN:
            return fails(said, Action.RESTART_VM if code in CUT_OFF else Action.RESTART_BM)
        return unknown(said)
    if snapshot.module and snapshot.module != snapshot.driver:
        return fails(f"the library has version {snapshot.driver}, the kernel's module {snapshot.module}")
    return passes(f"driver {snapshot.driver}")


CHECK = Check(
    reasons.Check.GPU_DRIVER,
    nvml.look,
    judge,
    fails="the driver is not loaded, does not start for the pod, or its library and the kernel's module have different "
    "versions; or a question to it hangs in the kernel for two minutes",
    warns="",
    remedy="finish the driver's update: restart the machine; after `Unknown Error` the pod, which lost its devices",
    action=Action.RESTART_BM,
    hang_seconds=HANG_SECONDS,
    applies=Applies.NVIDIA,
)
