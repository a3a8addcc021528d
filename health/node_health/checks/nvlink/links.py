"""Checks that all NVLinks of the GPUs are up."""

from contract import reasons
from node_health import thresholds
from node_health.check import Applies, Check, DoesNotApplyError, Machine
from node_health.sources import gpu_facts, nvml
from node_health.sources.gpu_facts import Fact, Gpu, Snapshot
from node_health.verdict import Action, Finding, fails, passes


def judge(snapshot: Snapshot, machine: Machine) -> Finding:
    """FAIL when one is down or missing.

    GPUs in MIG mode do not reach each other (MIG user guide, "Application Considerations"). Some have no link up then.
    """
    if machine.declared.gpus == 1:
        raise DoesNotApplyError("a single GPU has nothing to link to")
    return gpu_facts.judged(snapshot, Fact.LINKS, _one)


def _one(gpu: Gpu) -> Finding:
    if gpu.facts.get(Fact.MIG, (0,))[0]:
        return passes("GPUs in MIG mode use no NVLink")
    states = gpu.read(Fact.LINKS)
    down = [str(link) for link, state in enumerate(states) if not state]
    failed = fails(f"{gpu}: NVLinks {', '.join(down)} are down")
    if down and any(states):
        return failed
    # A card without bridges has no link that is up. Only the number of its product tells whether that is well.
    least = thresholds.of(gpu.name).number("nvlink.links")
    if down:
        return failed
    if len(states) < least:
        return fails(f"{gpu}: {len(states)} NVLinks, {gpu.name} has {least:g}")
    return passes(f"{len(states)} NVLinks are up")


CHECK = Check(
    reasons.Check.NVLINK,
    nvml.look,
    judge,
    fails="an NVLink is down, or a GPU has fewer than its product, unless it is in MIG mode",
    warns="",
    remedy="reset the GPUs; look at the fabric manager and, if it lasts, the baseboard",
    action=Action.RESET_GPU,
    applies=Applies.GPUS,
)
