"""Checks that nobody keeps the GPUs' clocks low."""

from contract import reasons
from node_health import thresholds
from node_health.check import Applies, Check, Machine
from node_health.sources import gpu_facts, nvml
from node_health.sources.gpu_facts import Fact, Gpu, Snapshot
from node_health.verdict import Finding, passes, warns


def judge(snapshot: Snapshot, machine: Machine) -> Finding:
    """WARNING when the highest clock is lower than the product's, or the application clock was lowered."""
    return gpu_facts.judged(snapshot, Fact.MAX_SM_CLOCK, _one)


def _one(gpu: Gpu) -> Finding:
    if not gpu.lacks(Fact.APPLICATION_CLOCK) and gpu.read(Fact.APPLICATION_CLOCK) < gpu.read(Fact.DEFAULT_CLOCK):
        default = gpu.read(Fact.DEFAULT_CLOCK)
        return warns(f"{gpu}: application clock {gpu.read(Fact.APPLICATION_CLOCK)} MHz, default {default} MHz")
    highest, least = gpu.read(Fact.MAX_SM_CLOCK), thresholds.of(gpu.name).number("gpu.smClock")
    if highest < least:
        return warns(f"{gpu}: highest SM clock {highest} MHz, {gpu.name} has {least:g} MHz")
    return passes(f"highest SM clock {highest} MHz")


CHECK = Check(
    reasons.Check.GPU_CLOCKS,
    nvml.look,
    judge,
    fails="",
    warns="a GPU's highest clock is lower than its product's, or its application clock was lowered",
    remedy="`nvidia-smi --reset-applications-clocks`, `nvidia-smi --reset-gpu-clocks`",
    applies=Applies.NVIDIA,
)
