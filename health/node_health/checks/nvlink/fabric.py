"""Checks that the fabric manager took the GPUs into the NVSwitches' fabric: before that, CUDA does not start."""

from contract import reasons
from node_health.check import Applies, Check, DoesNotApplyError, Machine
from node_health.sources import gpu_facts, nvml
from node_health.sources.gpu_facts import Fact, Gpu, Snapshot
from node_health.verdict import Action, Finding, fails, passes, warns

NOT_SUPPORTED, NOT_STARTED, IN_PROGRESS, COMPLETED = range(4)
"""nvml.h, NVML_GPU_FABRIC_STATE_…"""
SUCCESS = 0
TRUE = 1
ROUTE_UNHEALTHY = 4
CONFIGURATION, RIGHT = 8, 1
"""Place of four bits; higher numbers are faults, such as no partition (NVML_GPU_FABRIC_HEALTH_MASK_INCORRECT_…)."""
MILD = {0: "its bandwidth is degraded", 2: "a route recovers", 6: "it recovers from a timeout"}
"""Place of two bits in the fabric's health → what they say when they are TRUE (nvml.h,
NVML_GPU_FABRIC_HEALTH_MASK_SHIFT_…)."""


def judge(snapshot: Snapshot, machine: Machine) -> Finding:
    """FAIL unless the registration is complete, or where a route is unhealthy; WARNING for other faults of the fabric.

    Without a fabric manager GPUs stay "in progress" for ever, and CUDA does not start (NVIDIA NVSentinel, issue 889). A
    single GPU of a machine may be in no fabric, as in some virtual machines.
    """
    answering = snapshot.answering
    if answering and all(map(_needs_none, answering)):
        raise DoesNotApplyError("these GPUs have no fabric manager")
    return gpu_facts.judged(snapshot, Fact.FABRIC, lambda gpu: _one(gpu, alone=machine.declared.gpus == 1))


def _needs_none(gpu: Gpu) -> bool:
    return gpu.lacks(Fact.FABRIC) or gpu.facts.get(Fact.FABRIC, (None,))[0] == NOT_SUPPORTED


def _one(gpu: Gpu, alone: bool) -> Finding:
    state, status, health = gpu.read(Fact.FABRIC)
    if state == IN_PROGRESS or (alone and state == NOT_STARTED):
        waits = f"{gpu} waits for the fabric manager"
        return warns(waits) if alone else fails(waits)
    if state != COMPLETED or status != SUCCESS:
        return fails(f"{gpu} is not in the fabric (state {state}, status {status})")
    if _says(health, ROUTE_UNHEALTHY):
        return fails(f"{gpu}: a route of the fabric is unhealthy")
    told = [words for place, words in MILD.items() if _says(health, place)]
    if (wrong := health >> CONFIGURATION & 15) > RIGHT:
        told.append(f"its configuration is wrong (code {wrong})")
    if told:
        return warns(f"{gpu} in the fabric: {', '.join(told)}")
    return passes("in the fabric")


def _says(health: int, place: int) -> bool:
    return health >> place & 3 == TRUE


CHECK = Check(
    reasons.Check.GPU_FABRIC,
    nvml.look,
    judge,
    fails="a GPU is not in the NVSwitches' fabric, also while the fabric manager is at work; or a route is unhealthy",
    warns="the fabric recovers, has less bandwidth or is configured wrongly; a machine's only GPU waits for the fabric "
    "manager",
    remedy="look at nvidia-fabricmanager on the Kubernetes node: its version must be the driver's",
    action=Action.RESET_GPU,
    applies=Applies.NVIDIA,
)
