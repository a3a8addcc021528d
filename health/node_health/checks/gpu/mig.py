"""Checks that GPUs are whole, as declared: a GPU in MIG mode gives a job nothing before it is divided."""

from contract import reasons
from node_health.check import Applies, Check, Machine
from node_health.sources import nvml
from node_health.sources.nvml import Fact, Gpu, Snapshot
from node_health.verdict import Action, Finding, fails, passes, warns


def judge(snapshot: Snapshot, machine: Machine) -> Finding:
    """FAIL in MIG mode, WARNING when a reset would change that."""
    return nvml.each(snapshot, Fact.MIG, _one)


def _one(gpu: Gpu) -> Finding:
    now, pending = gpu.read(Fact.MIG)
    if now:
        return fails(f"{gpu} is in MIG mode, and Slurm gives out whole GPUs")
    if pending != now:
        return warns(f"{gpu}: MIG mode begins with the next reset")
    return passes("whole")


CHECK = Check(
    reasons.Check.GPU_MIG,
    nvml.look,
    judge,
    fails="a GPU is in MIG mode, and whole ones are declared",
    warns="a GPU would be in MIG mode after its next reset",
    remedy="`nvidia-smi -mig 0` on the Kubernetes node, or the GPU operator's MIG strategy",
    action=Action.RESET_GPU,
    applies=Applies.GPUS,
)
