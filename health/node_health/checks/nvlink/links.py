"""Checks that all NVLinks of the GPUs are up."""

from collections.abc import Collection

from contract import reasons
from node_health import thresholds
from node_health.check import Applies, CannotJudgeError, Check, DoesNotApplyError, Machine
from node_health.sources import gpu_facts, nvml
from node_health.sources.gpu_facts import Fact, Gpu, Snapshot
from node_health.thresholds import UnknownThresholdError
from node_health.verdict import Action, Finding, fails, passes


def judge(snapshot: Snapshot, machine: Machine) -> Finding:
    """FAIL when one is down or missing; of a machine's only GPU, when one went down since the pod began.

    GPUs in MIG mode do not reach each other (MIG user guide, "Application Considerations"). Some have no link up then.
    """
    if machine.declared.gpus == 1 and not snapshot.links_gone:
        raise DoesNotApplyError("a single GPU has nothing to link to in its machine")
    if snapshot.answering and all(map(_has_none, snapshot.answering)):
        raise DoesNotApplyError("these GPUs have no NVLink")
    return gpu_facts.judged(snapshot, Fact.LINKS, lambda gpu: _one(gpu, snapshot.links_gone))


def _has_none(gpu: Gpu) -> bool:
    """Returns whether a GPU names no link, and nobody knows that its product has some."""
    return gpu.facts.get(Fact.LINKS) == () and not thresholds.of(gpu.name).numbers.get("nvlink.links")


def _one(gpu: Gpu, gone: Collection[str]) -> Finding:
    if gpu.facts.get(Fact.MIG, (0,))[0]:
        return passes("GPUs in MIG mode use no NVLink")
    states = gpu.read(Fact.LINKS)
    down = [number for number, state in enumerate(states) if not state]
    told = f"{gpu}: NVLinks {', '.join(map(str, down))} are down"
    if any(gpu_facts.link_key(gpu, number) in gone for number in down):
        return fails(told)
    try:
        # Of H100 NVL 12 of 18 links are up by design, of a card without bridges none.
        least = thresholds.of(gpu.name).number("nvlink.links")
    except UnknownThresholdError as unknown:
        raise CannotJudgeError(f"{told}; {unknown}" if down else str(unknown)) from None
    if (up := len(states) - len(down)) < least:
        return fails(told if down else f"{gpu}: {up} NVLinks, {gpu.name} has {least:g}")
    return passes(f"{up} NVLinks are up")


CHECK = Check(
    reasons.Check.NVLINK,
    nvml.look,
    judge,
    fails="a GPU has fewer NVLinks than its product, or one went down since the pod began, unless it is in MIG mode",
    warns="",
    remedy="reset the GPUs; look at the fabric manager and, if it lasts, the baseboard",
    action=Action.RESET_GPU,
    applies=Applies.NVIDIA,
)
