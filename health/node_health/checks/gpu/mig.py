"""Checks that GPUs are whole where no MIG devices are declared: a GPU in MIG mode gives a job nothing by itself."""

from contract import reasons
from node_health.check import Applies, Check, Machine
from node_health.sources import gpu_facts, nvml
from node_health.sources.gpu_facts import Fact, Gpu, Snapshot
from node_health.verdict import Action, Finding, fails, passes, warns

VGPU = 2
"""nvml.h, NVML_GPU_VIRTUALIZATION_MODE_VGPU: a part of a GPU in a virtual machine. Its host may have made it by MIG."""


def judge(snapshot: Snapshot, machine: Machine) -> Finding:
    """FAIL in MIG mode, WARNING when a reset would change that."""
    return gpu_facts.judged(snapshot, Fact.MIG, lambda gpu: _one(gpu, divided=machine.declared.mig))


def _one(gpu: Gpu, divided: bool) -> Finding:
    now, pending = gpu.read(Fact.MIG)
    if now and gpu.facts.get(Fact.VIRTUALIZATION) == VGPU:
        return passes("a virtual GPU, which its host made by MIG")
    if now and not divided:
        return fails(f"{gpu} is in MIG mode, and Slurm gives out whole GPUs")
    if pending != now:
        return warns(f"{gpu}: MIG mode {'ends' if now else 'begins'} with the next reset")
    return passes("divided, as declared" if now else "whole")


CHECK = Check(
    reasons.Check.GPU_MIG,
    nvml.look,
    judge,
    fails="a GPU is in MIG mode, and whole ones are declared",
    warns="a GPU would be in another mode after its next reset",
    remedy="`nvidia-smi -mig 0` on the Kubernetes node, or the GPU operator's MIG strategy",
    action=Action.RESET_GPU,
    applies=Applies.NVIDIA,
)
