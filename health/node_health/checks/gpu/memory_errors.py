"""Checks the GPUs' ECC counters since the driver was loaded."""

from contract import reasons
from node_health import thresholds
from node_health.check import Applies, Check, Machine
from node_health.sources import gpu_facts, nvml
from node_health.sources.gpu_facts import Fact, Gpu, Snapshot
from node_health.verdict import Action, Finding, fails, passes, warns


def judge(snapshot: Snapshot, machine: Machine) -> Finding:
    """FAIL after an uncorrected error, WARNING when ECC is off, many errors were corrected or SRAM had too many.

    The last is of the GPU's whole life (NVIDIA, Xid catalog, Xid 48): other counters begin anew with each reset.
    """

    def one(gpu: Gpu) -> Finding:
        if not gpu.read(Fact.ECC_MODE):
            return warns(f"{gpu}: ECC is off")
        if gpu.read(Fact.ECC_UNCORRECTED):
            return fails(f"{gpu}: uncorrected memory errors since the driver was loaded")
        if gpu.facts.get(Fact.SRAM_EXCEEDED):
            told = f"{gpu}: its caches had more memory errors than NVIDIA allows: run its field diagnostics"
            return warns(told, Action.CONTACT_SUPPORT)
        most = thresholds.of().number("gpu.corrected")
        if snapshot.grew.per_hour(gpu_facts.key(gpu, Fact.ECC_CORRECTED)) > most:
            return warns(f"{gpu}: more than {most:g} corrected memory errors an hour", Action.IGNORE)
        return passes("no uncorrected memory error since the driver was loaded")

    return gpu_facts.judged(snapshot, Fact.ECC_MODE, one)


CHECK = Check(
    reasons.Check.GPU_MEMORY_ERRORS,
    nvml.look,
    judge,
    fails="a GPU had memory errors that ECC could not correct",
    warns="ECC is off, or corrected many errors; or a GPU's caches (SRAM) had too many in its life",
    remedy="reset the GPU; replace it if that happens again",
    action=Action.RESET_GPU,
    applies=Applies.NVIDIA,
)
