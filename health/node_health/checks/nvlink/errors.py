"""Checks how often NVLinks replay data or recover."""

from contract import reasons
from node_health import thresholds
from node_health.check import Applies, Check, Machine
from node_health.sources import gpu_facts, nvml
from node_health.sources.gpu_facts import Fact, Gpu, Snapshot
from node_health.verdict import Action, Finding, passes, warns


def judge(snapshot: Snapshot, machine: Machine) -> Finding:
    """WARNING at a high rate."""

    def one(gpu: Gpu) -> Finding:
        gpu.read(Fact.LINK_ERRORS)
        most = thresholds.of().number("nvlink.errors")
        if snapshot.grew.per_hour(gpu_facts.key(gpu, Fact.LINK_ERRORS)) > most:
            return warns(f"{gpu}: more than {most:g} NVLink replays and recoveries an hour")
        return passes("few NVLink replays and recoveries")

    return gpu_facts.judged(snapshot, Fact.LINK_ERRORS, one)


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
