"""Checks how often NVLinks replay data or recover."""

from contract import reasons
from node_health import thresholds
from node_health.check import Applies, Check, DoesNotApplyError, Machine
from node_health.sources import gpu_facts, nvml
from node_health.sources.gpu_facts import Fact, Gpu, Snapshot
from node_health.verdict import Action, Finding, passes, warns

WORDS = {Fact.LINK_ERRORS: "NVLink replays and recoveries", Fact.LINK_RECOVERIES: "NVLink recoveries"}


def judge(snapshot: Snapshot, machine: Machine) -> Finding:
    """WARNING at a high rate. NVLink 5 counts recoveries, which its healthy links have not."""
    any_machine = thresholds.of()
    most = {
        Fact.LINK_ERRORS: any_machine.number("nvlink.errors"),
        Fact.LINK_RECOVERIES: any_machine.number("nvlink.recoveries"),
    }

    def counted(gpu: Gpu) -> Fact:
        return Fact.LINK_ERRORS if gpu.lacks(Fact.LINK_RECOVERIES) else Fact.LINK_RECOVERIES

    def one(gpu: Gpu) -> Finding:
        fact = counted(gpu)
        gpu.read(fact)
        if snapshot.grew.per_hour(gpu_facts.key(gpu, fact)) > most[fact]:
            return warns(f"{gpu}: more than {most[fact]:g} {WORDS[fact]} an hour")
        return passes(f"few {WORDS[fact]}")

    if snapshot.answering and all(gpu.facts.get(counted(gpu)) == () for gpu in snapshot.answering):
        raise DoesNotApplyError("these GPUs have no NVLink")
    has_recoveries = any(counted(gpu) is Fact.LINK_RECOVERIES for gpu in snapshot.answering)
    return gpu_facts.judged(snapshot, Fact.LINK_RECOVERIES if has_recoveries else Fact.LINK_ERRORS, one)


CHECK = Check(
    reasons.Check.NVLINK_ERRORS,
    nvml.look,
    judge,
    fails="",
    warns="NVLinks often replay data or recover",
    remedy="look at the baseboard's connectors; replace it if it lasts",
    action=Action.CHECK_MECHANICALS,
    applies=Applies.NVIDIA,
)
