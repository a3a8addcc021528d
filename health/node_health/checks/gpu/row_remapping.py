"""Checks rows of GPU memory that were or could not be replaced (NVIDIA, "GPU Memory Error Management")."""

from contract import reasons
from node_health.check import Applies, Check, DoesNotApplyError, Machine
from node_health.sources import gpu_facts, nvml
from node_health.sources.gpu_facts import Fact, Gpu, Snapshot
from node_health.verdict import Action, Finding, fails, passes, warns


def judge(snapshot: Snapshot, machine: Machine) -> Finding:
    """FAIL when a row could not be replaced, WARNING while a replacement waits for a reset."""
    try:
        return gpu_facts.judged(snapshot, Fact.REMAPPED, _rows)
    except DoesNotApplyError:  # GPUs before Ampere retire pages instead
        return gpu_facts.judged(snapshot, Fact.RETIRED_PENDING, _pages)


def _rows(gpu: Gpu) -> Finding:
    corrected, uncorrected, pending, failed = gpu.read(Fact.REMAPPED)
    if failed:
        return fails(f"{gpu}: a row of memory could not be replaced", Action.CONTACT_SUPPORT)
    if pending:
        return warns(f"{gpu}: a row of memory is replaced at the next reset", Action.RESET_GPU)
    return passes(f"{corrected + uncorrected} rows of memory replaced")


def _pages(gpu: Gpu) -> Finding:
    if gpu.read(Fact.RETIRED_PENDING):
        return warns(f"{gpu}: a page of memory is retired at the next reset", Action.RESET_GPU)
    return passes("no page of memory waits to be retired")


CHECK = Check(
    reasons.Check.GPU_ROW_REMAPPING,
    nvml.look,
    judge,
    fails="a GPU could not replace a bad row of its memory",
    warns="a replacement of a row, or the retirement of a page, waits for a reset",
    remedy="reset the GPU when it is idle; replace it after a failure",
    action=Action.CONTACT_SUPPORT,
    applies=Applies.NVIDIA,
)
