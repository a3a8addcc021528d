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
    0x08: "hardware slowdown",
}
SOFTWARE: Mapping[int, str] = {0x20: "too hot (software)"}
"""Bits of nvml.h's nvmlClocksEventReason…: HwThermalSlowdown, HwPowerBrakeSlowdown, HwSlowdown; SwThermalSlowdown."""


def judge(snapshot: Snapshot, machine: Machine) -> Finding:
    """FAIL when the hardware slows a GPU down, WARNING when the driver does for heat."""
    return gpu_facts.judged(snapshot, Fact.THROTTLED, _one)


def _one(gpu: Gpu) -> Finding:
    bits = gpu.read(Fact.THROTTLED)
    if told := [words for bit, words in HARDWARE.items() if bits & bit]:
        return fails(f"{gpu} is slowed down: {told[0]}")
    if told := [words for bit, words in SOFTWARE.items() if bits & bit]:
        return warns(f"{gpu} is slowed down: {told[0]}")
    return passes("not slowed down")


CHECK = Check(
    reasons.Check.GPU_THROTTLING,
    nvml.look,
    judge,
    fails="the hardware slows a GPU down: heat or its power supply",
    warns="the driver slows a GPU down for heat",
    remedy="look at fans, filters, inlet temperature and power supplies",
    action=Action.CHECK_MECHANICALS,
    applies=Applies.GPUS,
)
