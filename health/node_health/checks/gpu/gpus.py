"""Checks that all GPUs are there and answer, by NVML, or by nvidia-smi where the pod has no NVML."""

from contract import reasons
from node_health.check import Applies, Check, Machine
from node_health.sources import nvidia_smi, nvml
from node_health.sources.gpu_facts import RESET_REQUIRED, Snapshot
from node_health.verdict import Action, Finding, fails, passes, unknown, warns


def judge(snapshot: Snapshot, machine: Machine) -> Finding:
    """FAIL when a GPU is gone or lost."""
    declared = machine.declared.gpus
    if snapshot.asked is not None:
        return nvidia_smi.judge(snapshot.asked, declared)
    if snapshot.failed:
        # The check `gpu driver` tells whether that is the driver's fault.
        return unknown(f"{declared} declared; NVML: {snapshot.failed}")
    lost = {str(gpu): gpu.lost for gpu in snapshot.gpus if gpu.lost}
    if lost:
        resets = len(snapshot.gpus) >= declared and all(error.code == RESET_REQUIRED for error in lost.values())
        told = ", ".join(f"{gpu}: {error}" for gpu, error in lost.items())
        return fails(told, Action.RESET_GPU if resets else Action.RESTART_BM)
    if len(snapshot.gpus) < declared:
        return fails(f"{len(snapshot.gpus)} of {declared} GPUs answer", Action.RESTART_BM)
    evidence = f"{len(snapshot.gpus)} GPUs answer, {declared} declared"
    return passes(evidence) if len(snapshot.gpus) == declared else warns(evidence, Action.NONE)


CHECK = Check(
    reasons.Check.GPUS,
    nvml.look,
    judge,
    fails="fewer GPUs answer than declared, or one is lost. Without NVML in the pod also when `nvidia-smi` ends with "
    "an error or counts uncorrectable memory errors",
    warns="more than declared",
    remedy="reset the GPU if NVML asks for that, else restart the machine; replace the GPU if it does not come back",
    action=Action.RESTART_BM,
    applies=Applies.NVIDIA,
)
