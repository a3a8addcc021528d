"""Checks the GPUs' power limits."""

from contract import reasons
from node_health import thresholds
from node_health.check import Applies, Check, Machine
from node_health.sources import gpu_facts, nvml
from node_health.sources.gpu_facts import Fact, Gpu, Snapshot
from node_health.verdict import Finding, passes, warns


def judge(snapshot: Snapshot, machine: Machine) -> Finding:
    """WARNING when a limit is lower than the default, or the default than the product's."""
    return gpu_facts.judged(snapshot, Fact.POWER_LIMIT, _one)


def _one(gpu: Gpu) -> Finding:
    limit, default = gpu.read(Fact.POWER_LIMIT), gpu.read(Fact.DEFAULT_POWER_LIMIT)
    if limit < default:
        return warns(f"{gpu}: power limit {limit} W, default {default} W")
    least = thresholds.of(gpu.name).number("gpu.powerLimit")
    if limit < least:
        return warns(f"{gpu}: power limit {limit} W, {gpu.name} has {least:g} W")
    return passes(f"power limit {limit} W")


CHECK = Check(
    reasons.Check.GPU_POWER,
    nvml.look,
    judge,
    fails="",
    warns="a GPU's power limit is lower than its default, or than its product's",
    remedy="`nvidia-smi --power-limit`; look at the machine's power supplies",
    applies=Applies.NVIDIA,
)
