"""Checks that the fabric manager took the GPUs into the NVSwitches' fabric: before that, CUDA does not start."""

from contract import reasons
from node_health.check import Applies, Check, DoesNotApplyError, Machine
from node_health.sources import gpu_facts, nvml
from node_health.sources.gpu_facts import Fact, Gpu, Snapshot
from node_health.verdict import Action, Finding, fails, passes, warns

NOT_SUPPORTED, NOT_STARTED, IN_PROGRESS, COMPLETED = range(4)
"""nvml.h, NVML_GPU_FABRIC_STATE_…"""
SUCCESS = 0


def judge(snapshot: Snapshot, machine: Machine) -> Finding:
    """FAIL when a registration has failed or not begun, WARNING while it runs."""
    answering = [gpu for gpu in snapshot.gpus if not gpu.lost]
    if answering and all(map(_needs_none, answering)):
        raise DoesNotApplyError("these GPUs have no fabric manager")
    return gpu_facts.judged(snapshot, Fact.FABRIC, _one)


def _needs_none(gpu: Gpu) -> bool:
    return gpu.lacks(Fact.FABRIC) or gpu.facts.get(Fact.FABRIC, (None,))[0] == NOT_SUPPORTED


def _one(gpu: Gpu) -> Finding:
    state, status = gpu.read(Fact.FABRIC)
    if state == IN_PROGRESS:
        return warns(f"{gpu}: the fabric manager is at work")
    if state == COMPLETED and status == SUCCESS:
        return passes("in the fabric")
    return fails(f"{gpu} is not in the fabric (state {state}, status {status})")


CHECK = Check(
    reasons.Check.GPU_FABRIC,
    nvml.look,
    judge,
    fails="a GPU is not in the NVSwitches' fabric",
    warns="the fabric manager is still at work",
    remedy="look at nvidia-fabricmanager on the Kubernetes node: its version must be the driver's",
    action=Action.RESET_GPU,
    applies=Applies.GPUS,
)
