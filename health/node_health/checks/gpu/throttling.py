"""Checks why the GPUs' clocks are low right now."""

from collections.abc import Mapping

from contract import reasons
from node_health.check import Applies, Check, Machine
from node_health.sources import gpu_facts, nvml
from node_health.sources.gpu_facts import Fact, Gpu, Snapshot
from node_health.verdict import Action, Finding, fails, passes, warns

HARDWARE: Mapping[int, str] = {
    0x40: "too hot (hardware)",
    0x80: "the power supply brakes",
}
MILD: Mapping[int, str] = {0x20: "too hot (software)", 0x08: "hardware slowdown"}
"""Bits of nvml.h's nvmlClocksEventReason…: HwThermalSlowdown, HwPowerBrakeSlowdown; SwThermalSlowdown, HwSlowdown.

The last one has a bit beside it for heat and the power supply. Alone it may also stand for a change of clocks.
"""


def judge(snapshot: Snapshot, machine: Machine) -> Finding:
    """FAIL when heat or the power supply has the hardware slow a GPU down, WARNING for a milder reason."""
    return gpu_facts.judged(snapshot, Fact.THROTTLED, _one)


def _one(gpu: Gpu) -> Finding:
    bits = gpu.read(Fact.THROTTLED)
    if told := [words for bit, words in HARDWARE.items() if bits & bit]:
        return fails(f"{gpu} is slowed down: {told[0]}")
    if told := [words for bit, words in MILD.items() if bits & bit]:
        return warns(f"{gpu} is slowed down: {told[0]}")
    return passes("not slowed down")


CHECK = Check(
    reasons.Check.GPU_THROTTLING,
    nvml.look,
    judge,
    fails="the hardware slows a GPU down: heat or its power supply",
    warns="the driver slows a GPU down for heat, or the hardware for a draw of power or a change of clocks",
    remedy="look at fans, filters, inlet temperature and power supplies",
    action=Action.CHECK_MECHANICALS,
    applies=Applies.NVIDIA,
)
