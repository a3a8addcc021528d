"""Checks whether the driver itself wants a GPU to be reset or the machine to be restarted."""

from contract import reasons
from node_health.check import Applies, Check, Machine
from node_health.sources import gpu_facts, nvml
from node_health.sources.gpu_facts import Fact, Gpu, Snapshot
from node_health.verdict import Action, Finding, fails, passes


def judge(snapshot: Snapshot, machine: Machine) -> Finding:
    """FAIL when it does."""
    return gpu_facts.judged(snapshot, Fact.RECOVERY, _one)


def _one(gpu: Gpu) -> Finding:
    code = gpu.read(Fact.RECOVERY)
    if not (action := gpu_facts.recovery_action(code)):
        return passes("the driver asks for nothing")
    asked = action if code in gpu_facts.RECOVERY else f"recovery action {code}"
    return fails(f"{gpu}: the driver asks for {asked}", action)


CHECK = Check(
    reasons.Check.GPU_RECOVERY,
    nvml.look,
    judge,
    fails="the driver asks for a reset of a GPU or a restart of the machine (NVML's GPU recovery action)",
    warns="",
    remedy="do what the driver asks for",
    action=Action.RESET_GPU,
    applies=Applies.NVIDIA,
)
