"""Checks that the driver stays loaded between jobs."""

from contract import reasons
from node_health.check import Applies, Check, Machine
from node_health.sources import gpu_facts, nvml
from node_health.sources.gpu_facts import Fact, Snapshot
from node_health.verdict import Finding, passes, warns


def judge(snapshot: Snapshot, machine: Machine) -> Finding:
    """WARNING without persistence: each first use takes seconds, and resets settings and counters."""
    return gpu_facts.judged(
        snapshot,
        Fact.PERSISTENCE,
        lambda gpu: passes("persistent") if gpu.read(Fact.PERSISTENCE) else warns(f"{gpu}: no persistence mode"),
    )


CHECK = Check(
    reasons.Check.GPU_PERSISTENCE,
    nvml.look,
    judge,
    fails="",
    warns="a GPU has no persistence mode: a job's start takes longer, and settings and counters are lost",
    remedy="start nvidia-persistenced on the Kubernetes node",
    applies=Applies.NVIDIA,
)
